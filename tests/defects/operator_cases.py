"""R08 to R14, R18 to R35: logits, dtypes, unfused operators, projections, experts, sampling."""

from __future__ import annotations

import torch

from tests.defects.attention_cases import (
    big_chunk,
    big_decode,
    big_prefill,
    tiny_decode,
    tiny_math,
    tiny_prefill,
)
from tests.defects.case import Case, healthy, planted
from tests.defects.operator_steps import (
    big_adapted,
    big_fp32_logits,
    big_fused,
    big_quantised,
    big_uncached,
    tiny_adapted,
    tiny_contiguous,
    tiny_fp32,
    tiny_fused,
    tiny_low_rank,
    tiny_moe,
    tiny_padded_batch,
    tiny_padded_rows,
    tiny_phi,
    tiny_quantised,
    tiny_then,
    tiny_uncached,
    top_k_by_generate,
    top_p_by_generate,
)
from tests.defects.steps import seven_b_step, tiny_step


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
    planted("R20", "tiny decode, top-p on the host", lambda: tiny_then("top-p on the host")),
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
    planted("R23", "7B decode, int8 down_proj", big_quantised, 28 * 3584 * 18944 * (1 + 2 + 2 + 2)),
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
    planted(
        "R28",
        "7B decode, rank 16 on q_proj, scaled",
        big_adapted,
        28 * 2 * (2 * 3584 * 16 + 3584 + 16 + 16 + 3584 + 2 * 3584 + 3 * 3584),
    ),
    healthy("R28", "tiny decode, merged", tiny_decode),
    healthy("R28", "tiny decode, factored o_proj", tiny_low_rank),
    planted("R29", "generate, top-p", top_p_by_generate, sort_bytes(512)),
    planted(
        "R29", "tiny decode, top-p by sort", lambda: tiny_then("top-p by sort"), sort_bytes(512)
    ),
    planted(
        "R29",
        "tiny decode, top-p on the host",
        lambda: tiny_then("top-p on the host"),
        sort_bytes(512),
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
