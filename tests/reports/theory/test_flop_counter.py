"""Our matrix FLOPs against torch's own counter on small real models, eager attention."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.step import StepShape, step_theory

pytestmark = pytest.mark.slow

BASE: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 80, "tie_word_embeddings": False,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "llama": {"num_key_value_heads": 4},
    "mistral": {"sliding_window": None},
    "qwen3": {"head_dim": 32},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {
        "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    },
    "qwen2_moe": {
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
    },
    "deepseek_v3": {
        "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 32, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "n_group": 2, "topk_group": 1,
    },
}  # fmt: skip


def counted_flops(config: dict[str, Any], batch: int, context: int, new: int) -> dict[str, int]:
    """FLOPs that torch counts for the prefill of a context and for the step after it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    plain = {k: v for k, v in config.items() if k != "model_type"}
    made = AutoConfig.for_model(config["model_type"], **plain)
    factory: Any = AutoModelForCausalLM
    model = factory.from_config(
        made, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    # transformers 5.24 renamed the argument.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    ids = torch.randint(0, config["vocab_size"], (batch, context + new))
    flops = {}
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            out = model(ids[:, :context], use_cache=True, logits_to_keep=1)
        flops["prefill"] = counter.get_total_flops()
        with FlopCounterMode(display=False) as counter:
            model(ids[:, context:], logits_to_keep=1, **{name: getattr(out, name)})
        flops["decode"] = counter.get_total_flops()
        flops["params"] = sum(p.numel() for p in model.parameters()) + sum(
            b.numel() for name, b in model.named_buffers() if "correction_bias" in name
        )
    return flops


@pytest.mark.parametrize("family", MODELS)
def test_matrix_flops_equal_torchs_count(family: str) -> None:
    pytest.importorskip("torch")
    config = BASE | MODELS[family] | {"model_type": family}
    model = Architecture.from_config(config, family)
    batch, context, new = 2, 12, 1
    counted = counted_flops(config, batch, context, new)
    assert model.params == counted["params"]
    prefill = StepShape(
        workload="prefill", batch=batch, context=0, query_tokens=context, dtype="float32",
        fused=False,
    )  # fmt: skip
    assert step_theory(model, prefill).tensor_flops == counted["prefill"]
    if model.latent is not None:
        return  # transformers caches expanded keys: its decode is neither form of ours
    decode = StepShape(batch=batch, context=context, dtype="float32", fused=False)
    assert step_theory(model, decode).tensor_flops == counted["decode"]
