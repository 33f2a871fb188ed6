"""Running steps: decode, prefill, verify on a cache of exactly `context` tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rooflens.errors import UsageError
from rooflens.workloads.models import load_model
from rooflens.workloads.registry import workload
from rooflens.workloads.step import ModelStep


def build(name: str, model: str, **options: Any) -> ModelStep:
    spec = workload(name).spec(model=model, **options)
    return workload(name).build(spec, load_model(spec, cache_bytes=1))


def cached(step: ModelStep) -> set[int]:
    return {layer.keys.shape[-2] for layer in step.cache.layers}


def test_every_decode_starts_from_the_same_cache(tiny: str) -> None:
    step = build("decode", tiny, context=30, batch=2)
    first = step.run()
    assert cached(step) == {31}
    step.reset()
    assert cached(step) == {30}
    assert torch.equal(step.run(), first)
    assert first.shape == (2, 1, 320)
    assert first.isfinite().all()


def test_without_reset_the_cache_grows(tiny: str) -> None:
    step = build("decode", tiny, context=5)
    step.run()
    step.run()
    assert cached(step) == {7}


def test_decode_attends_to_the_cache(tiny: str) -> None:
    step = build("decode", tiny, context=30)
    with_cache = step.run()
    step.reset()
    for layer in step.cache.layers:
        layer.values = torch.zeros_like(layer.values)
    assert not torch.equal(step.run(), with_cache)


def test_an_empty_context_decodes_too(tiny: str) -> None:
    step = build("decode", tiny, context=0)
    step.run()
    assert cached(step) == {1}
    step.reset()
    assert cached(step) == {0}


@pytest.mark.parametrize(("logits", "rows"), [("last", 1), ("all", 12)])
def test_prefill_keeps_the_logits_asked_for(tiny: str, logits: str, rows: int) -> None:
    step = build("prefill", tiny, prompt=12, logits=logits)
    assert step.run().shape == (1, rows, 320)


def test_a_chunk_gives_the_logits_of_the_whole_prompt(tiny: str) -> None:
    whole = build("prefill", tiny, prompt=12, attention="eager", dtype="float32")
    expected = whole.run()
    chunk = build("prefill", tiny, prompt=5, context=7, attention="eager", dtype="float32")
    chunk.input_ids = whole.input_ids[:, 7:]
    for ours, full in zip(chunk.cache.layers, whole.cache.layers, strict=True):
        ours.keys, ours.values = full.keys[..., :7, :], full.values[..., :7, :]
    torch.testing.assert_close(chunk.run(), expected)


def test_eager_and_sdpa_compute_the_same(tiny: str) -> None:
    logits = [
        build("decode", tiny, context=30, dtype="float32", attention=attention).run()
        for attention in ("eager", "sdpa")
    ]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def test_verify_has_logits_for_every_drafted_token(tiny: str) -> None:
    assert build("verify", tiny, context=10, query_tokens=4).run().shape == (1, 4, 320)


def test_decode_refuses_more_than_one_token(tiny: str) -> None:
    with pytest.raises(UsageError, match="verify"):
        build("decode", tiny, query_tokens=2)
    with pytest.raises(UsageError, match="prefill"):
        build("decode", tiny, prompt=2)


def test_a_meta_step_leaves_torch_as_it_was(tiny: str) -> None:
    before = torch.autocast
    build("decode", tiny, context=10, device="meta").run()
    assert torch.autocast is before


def test_cache_and_tokens_follow_the_seed(tiny: str) -> None:
    one, same, other = (build("decode", tiny, context=9, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.cache.layers[0].keys, same.cache.layers[0].keys)
    assert not torch.equal(one.cache.layers[0].keys, other.cache.layers[0].keys)
    assert not torch.equal(one.cache.layers[0].keys, one.cache.layers[1].keys)
    assert not (one.cache.layers[0].keys == 0).any()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_other_caches_are_learned_from_one_token(tmp_path: Path, device: str) -> None:
    config = {
        "model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 300,
        "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128,
        "torch_dtype": "float32",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    step = build("decode", str(tmp_path), context=20, device=device)
    assert step.cache.layers[0].keys.shape == (1, 4, 20, 16)
    assert step.run().shape == (1, 1, 300)


def test_an_attention_that_a_model_lacks_is_refused(tmp_path: Path) -> None:
    config = {"model_type": "gemma2", "num_hidden_layers": 1, "vocab_size": 300}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(UsageError, match="cannot build this model"):
        build("decode", str(tmp_path), context=2, device="meta", attention="sdpa")


@pytest.mark.parametrize(
    "changes", [{"hidden_act": "nope"}, {"rope_scaling": {"rope_type": "nope", "factor": 2.0}}]
)
def test_a_word_that_transformers_does_not_know_is_refused(
    tmp_path: Path, tiny: str, changes: dict[str, object]
) -> None:
    config = json.loads(Path(tiny).read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | changes), "utf-8")
    with pytest.raises(UsageError, match="knows no 'nope'"):
        build("decode", str(tmp_path), context=2, device="meta")


@pytest.mark.parametrize(
    "changes",
    [{"rms_norm_eps": "x"}, {"rope_theta": "x"}, {"quantization_config": 3}, {"use_cache": []}],
)
def test_a_value_of_a_wrong_type_is_refused_in_one_line(
    tmp_path: Path, tiny: str, changes: dict[str, object]
) -> None:
    config = json.loads(Path(tiny).read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | changes), "utf-8")
    with pytest.raises(UsageError, match="transformers") as caught:
        build("decode", str(tmp_path), context=2, device="meta")
    assert "\n" not in str(caught.value)


def test_a_head_size_of_null_is_one_that_is_not_given(tmp_path: Path, tiny: str) -> None:
    config = json.loads(Path(tiny).read_text("utf-8"))
    config.pop("head_dim", None)
    (tmp_path / "config.json").write_text(json.dumps(config | {"head_dim": None}), "utf-8")
    assert build("decode", str(tmp_path), context=2, device="meta").run() is not None
