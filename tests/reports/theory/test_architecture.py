"""Architectures: exact published parameter counts, families, and errors that name the fields."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.architectures import load_config, names
from rooflens.errors import InputError
from rooflens.reports.theory.architecture import Architecture, LayerKind
from rooflens.reports.theory.step import StepShape, step_theory

# parameters, cache bytes per token in bfloat16: published counts
PUBLISHED = {
    "qwen2.5-0.5b": (494_032_768, 12_288),
    "qwen2.5-1.5b": (1_543_714_304, 28_672),
    "qwen2.5-3b": (3_085_938_688, 36_864),
    "qwen2.5-7b": (7_615_616_512, 57_344),
    "qwen2.5-14b": (14_770_033_664, 196_608),
    "qwen2.5-32b": (32_763_876_352, 262_144),
    "qwen2.5-72b": (72_706_203_648, 327_680),
    "llama-3.1-8b": (8_030_261_248, 131_072),
    "mistral-7b-v0.1": (7_241_732_096, 131_072),
    "mistral-7b-v0.3": (7_248_023_552, 131_072),
    "qwen3-8b": (8_190_735_360, 147_456),
    "qwen3-30b-a3b": (30_532_122_624, 98_304),
    "deepseek-v3": (671_026_419_200, 70_272),
}
TINY: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
}  # fmt: skip


def read(**changes: Any) -> Architecture:
    return Architecture.from_config(TINY | changes, "tiny")


def test_every_shipped_model_has_a_published_count() -> None:
    assert sorted(PUBLISHED) == names()


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_cache_and_weights(name: str) -> None:
    model = Architecture.from_config(load_config(name), name)
    params, cache = PUBLISHED[name]
    assert model.params == params
    # Every expert is hit when very many tokens come: then all stored weights are read.
    theory = step_theory(model, StepShape(batch=10**6, context=0))
    assert theory.kv_bytes_per_token == cache
    table = 0 if model.tied else 2 * model.embedding_params
    assert theory.weight_bytes_read == 2 * params - table


def test_active_parameters_and_latent_attention() -> None:
    qwen = Architecture.from_config(load_config("qwen3-30b-a3b"))
    assert qwen.active_params == 3_353_032_704
    deepseek = Architecture.from_config(load_config("deepseek-v3"))
    assert deepseek.active_params == 37_552_297_472
    assert deepseek.attention_params == 187_107_328


@pytest.mark.parametrize(
    ("changes", "params"),
    [
        # 2 tables 6400, 3 layers of q,o 4096, k,v 2048, mlp 3*6144, 2 norms; final norm 64
        ({}, 12800 + 3 * (2 * 4096 + 2 * 2048 + 3 * 6144 + 128) + 64),
        ({"tie_word_embeddings": True}, 6400 + 3 * (12288 + 18432 + 128) + 64),
        ({"attention_bias": True}, 12800 + 3 * (12288 + 128 + 64 + 18432 + 128) + 64),
        ({"mlp_bias": True}, 12800 + 3 * (12288 + 18432 + 2 * 96 + 64 + 128) + 64),
        ({"head_dim": 32}, 12800 + 3 * (2 * 8192 + 2 * 4096 + 18432 + 128) + 64),
        ({"model_type": "qwen2"}, 12800 + 3 * (12288 + 128 + 18432 + 128) + 64),
        ({"model_type": "qwen3", "head_dim": 16}, 12800 + 3 * (12288 + 32 + 18432 + 128) + 64),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
            12800 + 3 * (12288 + 4 * 18432 + 4 * 64 + 128) + 64,
        ),
        (
            {
                "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2,
                "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
            },
            12800
            + 3 * (12288 + 128 + 4 * 3 * 64 * 32 + 3 * 64 * 48 + 4 * 64 + 64 + 128)
            + 64,
        ),
    ],
)  # fmt: skip
def test_families_by_hand_count(changes: dict[str, Any], params: int) -> None:
    assert read(**changes).params == params


def test_layers_with_and_without_window_and_experts() -> None:
    windowed = read(
        model_type="qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=1
    )
    assert windowed.kinds == (LayerKind(count=1), LayerKind(count=2, window=8))
    assert read(model_type="mistral", sliding_window=8).kinds == (LayerKind(count=3, window=8),)
    assert read(model_type="mistral", sliding_window=None).kinds == (LayerKind(count=3),)
    mixed = read(
        model_type="qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=32, decoder_sparse_step=2,
    )  # fmt: skip
    assert [kind.sparse for kind in mixed.kinds] == [False, True, False]
    typed = ["sliding_attention", "full_attention", "full_attention"]
    listed = read(model_type="qwen3", head_dim=16, sliding_window=8, layer_types=typed)
    assert listed.kinds == (LayerKind(count=1, window=8), LayerKind(count=2))


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, ("awq", "")),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64}, ("int4-g64", "")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8-block", "")),
        ({"quant_method": "fp8"}, ("fp8", "")),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, (None, "gptq")),
        ({"quant_method": "bitsandbytes"}, (None, "bitsandbytes")),
        (None, (None, "")),
    ],
)
def test_quantised_checkpoints(stored: Any, wanted: tuple[str | None, str]) -> None:
    model = read(quantization_config=stored)
    assert (model.weights_dtype, model.quantised_by) == wanted


def test_missing_fields_are_named_all_at_once() -> None:
    config = {k: v for k, v in TINY.items() if k not in ("hidden_size", "intermediate_size")}
    with pytest.raises(InputError, match='lacks "hidden_size", "intermediate_size"'):
        Architecture.from_config(config, "tiny")
    with pytest.raises(InputError, match='"num_experts", "num_experts_per_tok"'):
        read(model_type="qwen3_moe", head_dim=16)
    with pytest.raises(InputError, match='"kv_lora_rank"'):
        read(model_type="deepseek_v3")


def test_an_unknown_family_names_itself_and_what_it_lacks() -> None:
    with pytest.raises(InputError, match='"gpt2"') as error:
        Architecture.from_config({"model_type": "gpt2", "vocab_size": 5}, "x")
    assert '"hidden_size"' in str(error.value)
    assert '"vocab_size"' not in str(error.value)
    with pytest.raises(InputError, match='set "model_type": "llama"'):
        read(model_type="unheard_of")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, "hidden_size 64 is no multiple"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is no multiple"),
        ({"hidden_size": 0}, '"hidden_size" must be a whole number from 1 on; it is 0'),
        ({"hidden_size": "64"}, "it is '64'"),
        ({"num_hidden_layers": True}, "it is True"),
        (
            {"num_hidden_layers": 10**18},
            '"num_hidden_layers": 1000000000000000000, more than 10000',
        ),
        (
            {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
            "num_experts_per_tok 3 exceeds num_local_experts 2",
        ),
    ],
)
def test_impossible_sizes(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(**changes)
