"""Building models: dummy weights and their sharing, real weights, errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from rooflens.errors import InputError, UsageError
from rooflens.workloads.models import LoadedModel, load_model
from rooflens.workloads.spec import StepSpec

TINY = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
}  # fmt: skip

LAYER_PARAMS = 64 * 64 * 2 + 64 + 2 * (32 * 64 + 32) + 3 * 64 * 160 + 2 * 64
OUTSIDE_PARAMS = 2 * 320 * 64 + 64
PARAMS = 3 * LAYER_PARAMS + OUTSIDE_PARAMS


def load(model: str, cache_bytes: int | None = 1, **options: Any) -> LoadedModel:
    return load_model(StepSpec(model=model, **options), cache_bytes)


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_large_layers_share_the_storage_of_one(tiny: str) -> None:
    loaded = load(tiny)
    assert loaded.weights == "dummy (layers share storage)"
    first, last = loaded.model.model.layers[0], loaded.model.model.layers[2]
    for (name, a), (_, b) in zip(first.named_parameters(), last.named_parameters(), strict=True):
        assert storage(a) == storage(b), name
    assert storage(loaded.model.lm_head.weight) == storage(loaded.model.model.embed_tokens.weight)
    distinct = {name: storage(p) for name, p in first.named_parameters()}
    assert len(set(distinct.values())) == len(distinct)
    assert loaded.params == PARAMS
    assert loaded.held_bytes == 2 * (LAYER_PARAMS + 320 * 64 + 64)


def test_layers_that_a_cache_could_keep_are_filled_in_full(tiny: str) -> None:
    loaded = load(tiny, cache_bytes=LAYER_PARAMS)
    assert loaded.weights == "dummy-full"
    assert loaded.held_bytes == 2 * PARAMS


def test_dummy_full_fills_every_layer(tiny: str) -> None:
    loaded = load(tiny, weights="dummy-full")
    assert loaded.held_bytes == 2 * PARAMS
    assert loaded.params == PARAMS


def test_an_unknown_cache_size_is_taken_for_a_large_one(tiny: str) -> None:
    assert load(tiny, cache_bytes=None).weights == "dummy-full"


def test_dummy_weights_are_random_and_never_zero(tiny: str) -> None:
    for name, parameter in load(tiny).model.named_parameters():
        assert parameter.dtype == torch.bfloat16
        assert not (parameter == 0).any(), name
        assert parameter.float().std() > 0, name


def test_the_same_seed_gives_the_same_weights(tiny: str) -> None:
    first, same, other = (load(tiny, seed=seed).model.lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_rotary_tables_hold_their_values_in_float32(tiny: str) -> None:
    inv_freq = load(tiny).model.model.rotary_emb.inv_freq
    wanted = 10000.0 ** (-torch.arange(0, 16, 2).float() / 16)
    assert inv_freq.dtype == torch.float32
    torch.testing.assert_close(inv_freq, wanted)


def test_dtype_and_layers_can_be_chosen(tiny: str) -> None:
    loaded = load(tiny, dtype="float32", layers=2)
    assert loaded.model.lm_head.weight.dtype == torch.float32
    assert len(loaded.model.model.layers) == 2
    assert loaded.params == PARAMS - LAYER_PARAMS


def test_meta_models_hold_nothing(tiny: str) -> None:
    loaded = load(tiny, device="meta")
    assert (loaded.held_bytes, loaded.params, loaded.weights) == (0, PARAMS, "none (meta)")


def test_the_shipped_model_has_its_published_parameters() -> None:
    assert load_model(StepSpec(device="meta")).params == 7_615_616_512


def test_real_weights_are_read_from_the_models_directory(tiny: str, tmp_path: Path) -> None:
    saved = load(tiny, weights="dummy-full")
    directory = tmp_path / "model"
    saved.model.save_pretrained(directory)
    loaded = load(str(directory))
    assert loaded.weights == "real"
    wanted = dict(saved.model.named_parameters())
    for name, parameter in loaded.model.named_parameters():
        assert torch.equal(parameter, wanted[name]), name
    assert load(tiny, weights=str(directory)).weights == "real"
    assert load(str(directory), weights="dummy").weights.startswith("dummy")


def test_broken_weight_files_are_refused(tiny: str, tmp_path: Path) -> None:
    shutil.copy(tiny, tmp_path / "config.json.keep")
    (tmp_path / "model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(InputError, match="Cannot load the weights"):
        load(str(tmp_path))


def test_incomplete_weights_are_refused(tiny: str, tmp_path: Path) -> None:
    load(tiny, weights="dummy-full", layers=2).model.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=r"lack model\.layers\.2\."):
        load(tiny, weights=str(tmp_path / "model"))


def test_tied_embeddings_stay_tied(tmp_path: Path) -> None:
    config = TINY | {"tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    loaded = load(str(tmp_path), cache_bytes=None)
    assert storage(loaded.model.lm_head.weight) == storage(loaded.model.model.embed_tokens.weight)
    assert loaded.params == PARAMS - 320 * 64


def test_a_weights_directory_without_weights_is_refused(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \*.safetensors"):
        load(tiny, weights=str(tmp_path / "nowhere"))


def test_more_layers_than_the_model_has_are_refused(tiny: str) -> None:
    with pytest.raises(UsageError, match="has 3 layers"):
        load(tiny, layers=4)


def test_unknown_model_and_architecture_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'Did you mean "qwen2\.5-7b"'):
        load("qwen2.5-7")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_model"}), "utf-8")
    with pytest.raises(UsageError, match="no_such_model"):
        load(str(tmp_path))


def test_flash_attention_without_its_package_says_what_to_do(tiny: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="flash-attn, which is not installed"):
        load(tiny, attention="flash_attention_2")
