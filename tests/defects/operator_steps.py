"""Steps with planted defects outside attention, and their healthy counterparts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from rooflens.model import Run
from tests.defects.fused import fused_decode
from tests.defects.steps import (
    FFN,
    HIDDEN,
    VOCABULARY,
    filled_cache,
    ids,
    recorded,
    seven_b,
    seven_b_run,
    shape_of,
    tiny,
    tiny_run,
    tiny_step,
)


@cache
def tiny_fused() -> Run:
    """The healthy decode of fused.py in the tiny model's shapes."""
    ops = fused_decode(
        layers=2, hidden=64, ffn=160, heads=4, kv_heads=2, size=16, words=512, position=48, room=64
    )
    return tiny_run(ops, shape_of(48, 1))


@cache
def big_fused() -> Run:
    """The healthy decode in the 7B's shapes, on meta."""
    ops = fused_decode(
        layers=28, hidden=3584, ffn=18944, heads=28, kv_heads=4, size=128, words=152064,
        position=2047, room=4096, device="meta",
    )  # fmt: skip
    return seven_b_run(ops, shape_of(2047, 1))


@cache
def tiny_then(name: str, context: int = 48, tokens: int = 1, keep: int = 1) -> Run:
    """A step of the tiny model, then something with its logits."""
    after: dict[str, Callable[[torch.Tensor], object]] = {
        "float": lambda logits: logits.float(),
        "float argmax": lambda logits: logits.float().argmax(-1),
        "argmax": lambda logits: logits[:, -1].argmax(-1),
        "item": lambda logits: logits[:, -1].argmax(-1).item(),
        "positive": lambda logits: logits[logits > 0],
        "top-p by sort": lambda logits: _top_p(logits[:, -1].float()),
        "top-p on the host": lambda logits: _top_p(logits[:, -1].float().cpu()).item(),
        "top-k": lambda logits: torch.multinomial(logits[:, -1].float().topk(50)[0].softmax(-1), 1),
    }
    model = tiny()
    held = filled_cache(model, context) if context else None
    options = {"cache": held} if held else {"use_cache": False}

    def step() -> None:
        after[name](model(ids(tokens), logits_to_keep=keep, **options).logits)

    return tiny_run(recorded(step, model, held), shape_of(context, tokens))


def _top_p(logits: torch.Tensor) -> torch.Tensor:
    ordered, places = torch.sort(logits, descending=True)
    drop = torch.cumsum(ordered.softmax(-1), -1) > 0.9
    kept = logits.masked_fill(drop.scatter(-1, places, drop), float("-inf"))
    return torch.multinomial(kept.softmax(-1), 1)


@cache
def tiny_fp32(context: int, tokens: int) -> Run:
    model = tiny("sdpa", torch.float32)
    held = filled_cache(model, context) if context else None
    ops = recorded(lambda: model(ids(tokens), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, shape_of(context, tokens))


@cache
def big_fp32_logits() -> Run:
    """All logits of a prefill of 2048, cast to fp32."""
    model = seven_b()
    ops = recorded(lambda: model(ids(2048, 1, "meta")).logits.float(), model)
    return seven_b_run(ops, shape_of(0, 2048))


@cache
def tiny_contiguous() -> Run:
    """k.transpose(1, 2).contiguous() in each layer of a prefill."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def copying(
        module: Any, query: torch.Tensor, key: torch.Tensor, *rest: Any, **options: Any
    ) -> Any:
        key = key.transpose(1, 2).contiguous().transpose(1, 2)
        return sdpa_attention_forward(module, query, key, *rest, **options)

    AttentionInterface.register("copying", copying)
    return tiny_step(0, 48, attention="copying")


@cache
def tiny_phi() -> Run:
    """A model whose qkv and gate_up are merged in the checkpoint (Phi-3)."""
    from transformers import Phi3Config, Phi3ForCausalLM

    config = Phi3Config(
        hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCABULARY, pad_token_id=0,
    )  # fmt: skip
    model: Any = Phi3ForCausalLM(config)
    model = model.to(torch.bfloat16).eval()
    return tiny_run(
        recorded(lambda: model(ids(48), use_cache=False, logits_to_keep=1), model), None
    )


@cache
def tiny_padded_rows(real: int, bucket: int) -> Run:
    """A prompt of `real` tokens in a bucket of `bucket`."""
    model = tiny()
    ops = recorded(lambda: model(ids(bucket), logits_to_keep=1), model)
    return tiny_run(ops, shape_of(0, real))


@cache
def tiny_padded_batch(real: int, bucket: int) -> Run:
    """A decode of `real` sequences in a graph for `bucket`."""
    model, held = tiny(), filled_cache(tiny(), 48, bucket)
    ops = recorded(lambda: model(ids(1, bucket), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, shape_of(48, 1, real))


@cache
def tiny_uncached(known: int, new: int) -> Run:
    """All tokens computed though `known` of them are in a cache."""
    model = tiny()
    ops = recorded(lambda: model(ids(known + new), use_cache=False, logits_to_keep=1), model)
    return tiny_run(ops, shape_of(known, new))


@cache
def big_uncached(known: int, new: int) -> Run:
    model = seven_b()
    tokens = ids(known + new, 1, "meta")
    # A fresh cache that is thrown away: without one, transformers looks at the positions' values.
    ops = recorded(lambda: model(tokens, logits_to_keep=1), model)
    return seven_b_run(ops, shape_of(known, new))


class Quantised(torch.nn.Module):
    """A linear layer with an int8 (or fp8) weight and a scale per output."""

    def __init__(self, linear: torch.nn.Linear, dtype: torch.dtype, fused: bool) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.scale = torch.nn.Parameter(
            torch.ones(weight.shape[0], dtype=weight.dtype, device=weight.device),
            requires_grad=False,
        )
        self.weight = torch.nn.Parameter(weight.to(dtype), requires_grad=False)
        self.fused = fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fused:
            rows = x.reshape(-1, x.shape[-1])
            out = torch._weight_int8pack_mm(rows, self.weight, self.scale)
            return out.reshape(*x.shape[:-1], -1)
        return torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.scale[:, None])


@cache
def tiny_quantised(dtype: torch.dtype, fused: bool = False) -> Run:
    """A decode whose down_proj weights are quantised."""
    import copy

    model = copy.deepcopy(tiny())
    for layer in model.model.layers:
        layer.mlp.down_proj = Quantised(layer.mlp.down_proj, dtype, fused)
    held = filled_cache(model, 48)
    ops = recorded(lambda: model(ids(1), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, None)


class Adapted(torch.nn.Module):
    """A linear layer with a LoRA adapter beside it."""

    def __init__(self, base: torch.nn.Linear, rank: int, scaling: float | None) -> None:
        super().__init__()
        self.base, self.scaling = base, scaling
        inner: dict[str, Any] = {"bias": False, "dtype": base.weight.dtype}
        self.lora_A = torch.nn.Linear(base.in_features, rank, **inner)
        self.lora_B = torch.nn.Linear(rank, base.out_features, **inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        delta: torch.Tensor = self.lora_B(self.lora_A(x))
        base: torch.Tensor = self.base(x)
        return base + (delta if self.scaling is None else delta * self.scaling)


@cache
def tiny_adapted(scaling: float | None, tokens: int) -> Run:
    """An adapter of rank 8 on q_proj of both layers."""
    import copy

    model = copy.deepcopy(tiny())
    for layer in model.model.layers:
        layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj, 8, scaling)
    held = filled_cache(model, 48)
    ops = recorded(lambda: model(ids(tokens), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, None)


@cache
def big_quantised() -> Run:
    """A decode of the 7B whose down_proj weights are int8."""
    import copy

    model = copy.deepcopy(seven_b())
    for layer in model.model.layers:
        layer.mlp.down_proj = Quantised(layer.mlp.down_proj, torch.int8, False)
    return _big_decode_of(model)


@cache
def big_adapted() -> Run:
    """A decode of the 7B with a scaled adapter of rank 16 on q_proj of every layer."""
    import copy

    model = copy.deepcopy(seven_b())
    with torch.device("meta"):
        for layer in model.model.layers:
            layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj, 16, 2.0)
    return _big_decode_of(model)


def _big_decode_of(model: Any) -> Run:
    held = filled_cache(model, 2047)
    ops = recorded(lambda: model(ids(1, 1, "meta"), cache=held, logits_to_keep=1), model, held)
    return seven_b_run(ops, None)


@cache
def tiny_low_rank() -> Run:
    """A projection factored into two thin ones, with nothing added (as in MLA)."""
    import copy

    model = copy.deepcopy(tiny())
    for layer in model.model.layers:
        thin: dict[str, Any] = {"bias": False, "dtype": torch.bfloat16}
        layer.self_attn.o_proj = torch.nn.Sequential(
            torch.nn.Linear(HIDDEN, 8, **thin), torch.nn.Linear(8, HIDDEN, **thin)
        )
    held = filled_cache(model, 48)
    ops = recorded(lambda: model(ids(1), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, None)


@cache
def tiny_moe(experts: str, tokens: int) -> Run:
    """One layer with 8 experts, 2 active."""
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    config = Qwen2MoeConfig(
        hidden_size=HIDDEN, intermediate_size=FFN, moe_intermediate_size=32, num_experts=8,
        shared_expert_intermediate_size=64, num_experts_per_tok=2, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY,
    )  # fmt: skip
    torch.manual_seed(0)
    model: Any = Qwen2MoeForCausalLM(config)
    model = model.to(torch.bfloat16).eval()
    model.set_experts_implementation(experts)
    held = filled_cache(model, 48)
    ops = recorded(lambda: model(ids(tokens), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, None)


@cache
def tiny_generated(**sampling: Any) -> Run:
    """One new token by generate()."""
    model = tiny()
    ops = recorded(
        lambda: model.generate(ids(48), max_new_tokens=1, do_sample=True, **sampling), model
    )
    return tiny_run(ops, None)


def top_p_by_generate() -> Run:
    return tiny_generated(top_p=0.9, top_k=0)


def top_k_by_generate() -> Run:
    return tiny_generated(top_k=50)
