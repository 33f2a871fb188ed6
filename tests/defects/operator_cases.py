"""R08 to R14, R18 to R35: logits, dtypes, unfused operators, projections, experts, sampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from rooflens.model import Run
from tests.defects.attention_cases import (
    big_chunk,
    big_decode,
    big_prefill,
    tiny_decode,
    tiny_math,
    tiny_prefill,
)
from tests.defects.case import Case, healthy, planted
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
    seven_b_step,
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
            torch.ones(weight.shape[0], dtype=weight.dtype), requires_grad=False
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


def norm_bytes(norms: int, tokens: int, hidden: int) -> int:
    """Eager RMSNorm per element: cast 6, pow 8, mean 4, scale 8, cast 6, weight 4 = 36, 4 needed;
    per row: mean 4, add 8, rsqrt 8, scale 4; per norm the weight is read either way."""
    return norms * tokens * (hidden * 32 + 24)


def rope_bytes(layers: int, tokens: int, heads: int, size: int) -> int:
    """Eager rotation per element of q and k: cos 4, neg 2, cat 4, sin 4, add 6 = 20, 4 needed;
    cos and sin are read for q and for k where once is enough."""
    return layers * tokens * size * (heads * 16 + 2 * 2)


def sort_bytes(words: int) -> int:
    """Top-p on one row: sort 4+12, softmax 8, cumsum 8, compare 5, scatter 1+8+1."""
    return words * (16 + 8 + 8 + 5 + 10)


ALL_LOGITS = 2047 * (152064 + 3584) * 2
TINY_PROJECTIONS = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 160) + 64 * 512
"""Weights of the tiny model's products."""


def token_bytes(layers: int, hidden: int, kv: int, ffn: int, size: int) -> int:
    """Activations of one token in a whole step with sdpa, 2 bytes each.

    Per layer: two norms (36 per element, 24 per row), qkv (input three times, outputs), rotation
    (20 per element of q and k, four rows of tables), q and result of attention, o_proj, two
    residuals (6), and the MLP: input twice, gate and up out, silu 4, product 6, down in and out.
    Outside: the embedding's row, the last norm.
    """
    norms = 2 * (36 * hidden + 24)
    projections = 2 * (3 * hidden + hidden + 2 * kv) + 4 * hidden + 4 * hidden
    rotation = 20 * (hidden + kv) + 4 * size * 2
    mlp = 4 * hidden + 4 * ffn + 4 * ffn + 6 * ffn + 2 * ffn + 2 * hidden
    outside = 4 * hidden + 36 * hidden
    return layers * (norms + projections + rotation + 12 * hidden + mlp) + outside


TINY_TOKEN = token_bytes(2, 64, 32, 160, 16)
BIG_TOKEN = token_bytes(28, 3584, 512, 18944, 128)
TINY_SEQUENCE = 2 * 2 * 49 * 32 * 2 * 3
"""The cache of one sequence of 49 tokens: read and written by cat, read by attention."""

CASES: tuple[Case, ...] = (
    planted(
        "R08",
        "7B prefill of 2048, all logits",
        lambda: seven_b_step(0, 2048, logits_to_keep=0),
        ALL_LOGITS,
    ),
    planted(
        "R08",
        "tiny prefill, all logits",
        lambda: tiny_step(0, 48, logits_to_keep=0),
        47 * (64 + 512) * 2,
    ),
    planted(
        "R08",
        "tiny prefill of 12, all logits",
        lambda: tiny_step(0, 12, logits_to_keep=0),
        11 * (64 + 512) * 2,
    ),
    healthy("R08", "7B prefill, last logits", big_prefill),
    healthy("R08", "verify of 4 tokens", lambda: tiny_step(48, 4, logits_to_keep=0)),
    planted("R09", "7B prefill, all logits in fp32", big_fp32_logits, 2048 * 152064 * 6),
    planted("R09", "tiny decode, logits.float()", lambda: tiny_then("float"), 512 * 6),
    healthy("R09", "tiny decode, argmax", lambda: tiny_then("argmax")),
    healthy("R09", "7B decode", big_decode),
    planted(
        "R10",
        "tiny decode in fp32",
        lambda: tiny_fp32(48, 1),
        # Half of the weights, and of inputs, outputs and biases of 15 products.
        2
        * (TINY_PROJECTIONS + 2 * (3 * 64 + 2 * (64 + 64) + 2 * 64 + 2 * 64 + 2 * 160 + 224) + 576),
    ),
    planted(
        "R10",
        "tiny prefill in fp32",
        lambda: tiny_fp32(0, 48),
        2 * (TINY_PROJECTIONS + 2 * 48 * (3 * 64 + 128 + 128 + 2 * 224 + 224) + 2 * 128 + 576),
    ),
    healthy("R10", "tiny decode in bf16", tiny_decode),
    healthy("R10", "tiny composite with fp32 scores", tiny_math),
    planted("R11", "7B prefill of 2048", big_prefill, norm_bytes(57, 2048, 3584)),
    planted("R11", "tiny decode", tiny_decode, norm_bytes(5, 1, 64)),
    healthy("R11", "tiny fused decode", tiny_fused),
    healthy("R11", "7B fused decode", big_fused),
    planted("R12", "7B prefill of 2048", big_prefill, rope_bytes(28, 2048, 32, 128)),
    planted("R12", "tiny decode", tiny_decode, rope_bytes(2, 1, 6, 16)),
    healthy("R12", "tiny fused decode", tiny_fused),
    healthy("R12", "7B fused decode", big_fused),
    planted("R13", "7B prefill of 2048", big_prefill, 28 * 2048 * 18944 * 4),
    planted("R13", "tiny decode", tiny_decode, 2 * 160 * 4),
    healthy("R13", "tiny fused decode", tiny_fused),
    healthy("R13", "7B fused decode", big_fused),
    planted(
        "R14",
        "7B prefill, eager: transposed result",
        lambda: big_prefill("eager"),
        28 * 2048 * 3584 * 4,
    ),
    planted("R14", "tiny prefill, .contiguous() on k", tiny_contiguous, 2 * 48 * 32 * 4),
    healthy("R14", "7B prefill, sdpa", big_prefill),
    healthy("R14", "tiny fused decode: cache written in place", tiny_fused),
    planted("R18", "7B prefill of 2048", big_prefill, 28 * 3 * 2048 * 3584 * 2),
    planted("R18", "tiny decode", tiny_decode, 2 * 3 * 64 * 2),
    healthy("R18", "tiny Phi-3", tiny_phi),
    healthy("R18", "7B fused decode", big_fused),
    planted("R20", "tiny decode, .item()", lambda: tiny_then("item")),
    planted("R20", "tiny decode, boolean index", lambda: tiny_then("positive")),
    planted("R20", "experts in a loop", lambda: tiny_moe("eager", 1)),
    healthy("R20", "tiny decode, argmax", lambda: tiny_then("argmax")),
    healthy("R20", "grouped experts", lambda: tiny_moe("grouped_mm", 1)),
    planted("R21", "tiny prefill, 33 in 64", lambda: tiny_padded_rows(33, 64), 31 * TINY_TOKEN),
    planted(
        "R21",
        "tiny decode, 5 in 8",
        lambda: tiny_padded_batch(5, 8),
        3 * (TINY_TOKEN + TINY_SEQUENCE),
    ),
    healthy("R21", "tiny prefill, 64 in 64", lambda: tiny_padded_rows(64, 64)),
    healthy("R21", "tiny decode, 8 in 8", lambda: tiny_padded_batch(8, 8)),
    planted(
        "R23",
        "tiny decode, int8 down_proj",
        lambda: tiny_quantised(torch.int8),
        2 * 64 * 160 * (1 + 2 + 2 + 2),
    ),
    planted(
        "R23",
        "tiny decode, fp8 down_proj",
        lambda: tiny_quantised(torch.float8_e4m3fn),
        2 * 64 * 160 * (1 + 2 + 2 + 2),
    ),
    healthy("R23", "tiny decode, int8 product", lambda: tiny_quantised(torch.int8, fused=True)),
    healthy("R23", "tiny decode in bf16", tiny_decode),
    planted("R26", "experts in a loop, decode", lambda: tiny_moe("eager", 1)),
    planted("R26", "experts in a loop, 48 tokens", lambda: tiny_moe("eager", 48)),
    healthy("R26", "grouped experts", lambda: tiny_moe("grouped_mm", 1)),
    healthy("R26", "no experts", tiny_decode),
    # Two experts a token: gate_up 64x64 and down 64x32, written; read at most once each.
    planted("R27", "gathered experts, decode", lambda: tiny_moe("batched_mm", 1), 2 * 6144 * 4),
    planted(
        "R27",
        "gathered experts, 48 tokens",
        lambda: tiny_moe("batched_mm", 48),
        48 * 2 * 6144 * 2 + 8 * 6144 * 2,
    ),
    healthy("R27", "grouped experts", lambda: tiny_moe("grouped_mm", 48)),
    healthy("R27", "experts in a loop", lambda: tiny_moe("eager", 1)),
    # A 64x8 and B 8x64, their inputs and outputs, the sum (and the scaling).
    planted(
        "R28",
        "tiny decode, rank 8 on q_proj",
        lambda: tiny_adapted(None, 1),
        2 * 2 * (2 * 64 * 8 + 64 + 8 + 8 + 64 + 3 * 64),
    ),
    planted(
        "R28",
        "tiny chunk of 16, scaled",
        lambda: tiny_adapted(2.0, 16),
        2 * 2 * (2 * 64 * 8 + 16 * (64 + 8 + 8 + 64 + 2 * 64 + 3 * 64)),
    ),
    healthy("R28", "tiny decode, merged", tiny_decode),
    healthy("R28", "tiny decode, factored o_proj", tiny_low_rank),
    planted("R29", "generate, top-p", top_p_by_generate, sort_bytes(512)),
    planted(
        "R29", "tiny decode, top-p by sort", lambda: tiny_then("top-p by sort"), sort_bytes(512)
    ),
    healthy("R29", "generate, top-k", top_k_by_generate),
    healthy("R29", "tiny decode, argmax", lambda: tiny_then("argmax")),
    planted("R34", "tiny, 49 tokens for one", lambda: tiny_uncached(48, 1), 48 * TINY_TOKEN),
    planted("R34", "7B, 512 tokens for one", lambda: big_uncached(511, 1), 511 * BIG_TOKEN),
    healthy("R34", "tiny decode with a cache", tiny_decode),
    healthy("R34", "tiny prefill", tiny_prefill),
    planted("R35", "tiny, 48 tokens for 17", lambda: tiny_uncached(31, 17), 31 * TINY_TOKEN),
    planted("R35", "7B, 1024 tokens for 256", lambda: big_uncached(768, 256), 768 * BIG_TOKEN),
    healthy("R35", "7B chunk of 512 on 1536", big_chunk),
    healthy("R35", "tiny prefill", tiny_prefill),
)
