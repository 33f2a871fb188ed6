"""R01 to R05, R22, R31: attention, cache and masks, planted in Qwen2 steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflens.model import Run
from tests.defects.case import Case, healthy, planted
from tests.defects.steps import (
    TINY,
    as_run,
    built,
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
def tiny_prefill(attention: str = "sdpa") -> Run:
    return tiny_step(0, 48, attention=attention)


@cache
def tiny_decode(attention: str = "sdpa") -> Run:
    return tiny_step(48, 1, attention=attention)


@cache
def big_decode(attention: str = "sdpa", batch: int = 1) -> Run:
    return seven_b_step(2047, 1, attention=attention, batch=batch)


@cache
def big_prefill(attention: str = "sdpa") -> Run:
    return seven_b_step(0, 2048, attention=attention)


@cache
def big_chunk() -> Run:
    """512 new tokens on 1536 cached."""
    return seven_b_step(1536, 512)


def hand_written_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **_: Any
) -> tuple[torch.Tensor, None]:
    """Attention as people write it: scores, softmax by exp and sum, values."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = weights / weights.sum(-1, keepdim=True)
    return (weights @ value).transpose(1, 2).contiguous(), None


@cache
def tiny_hand_written() -> Run:
    """Hand-written eager attention in a model that says it runs something else."""
    from transformers import AttentionInterface

    AttentionInterface.register("sdpa_by_hand", hand_written_attention)
    return tiny_step(48, 1, attention="sdpa_by_hand")


@cache
def tiny_math() -> Run:
    with sdpa_kernel(SDPBackend.MATH):
        return tiny_step(0, 48)


@cache
def big_math() -> Run:
    with sdpa_kernel(SDPBackend.MATH):
        return seven_b_step(0, 512)


def _padding(tokens: int) -> torch.Tensor:
    mask = torch.ones(2, tokens, dtype=torch.long)
    mask[0, :5] = 0
    return mask


@cache
def tiny_padded_prefill() -> Run:
    return tiny_step(0, 48, batch=2, attention_mask=_padding(48))


@cache
def tiny_padded_decode() -> Run:
    return tiny_step(48, 1, batch=2, attention_mask=_padding(49))


@cache
def big_padded_prefill() -> Run:
    """A prebuilt 4-D mask of a batch of two."""
    mask = torch.empty((2, 1, 1024, 1024), dtype=torch.bool, device="meta")
    return seven_b_step(0, 1024, batch=2, attention_mask=mask)


@cache
def tiny_static(size: int) -> Run:
    """48 tokens in a StaticCache of `size`, one new."""
    model = tiny()
    held = filled_cache(model, 48, kind="static", size=size)
    ops = recorded(lambda: model(ids(1), cache=held, logits_to_keep=1), model, held)
    return tiny_run(ops, shape_of(48, 1))


@cache
def big_static() -> Run:
    """2047 tokens in a StaticCache of 8192."""
    model = seven_b()
    held = filled_cache(model, 2047, kind="static", size=8192)
    ops = recorded(lambda: model(ids(1, 1, "meta"), cache=held, logits_to_keep=1), model, held)
    return seven_b_run(ops, shape_of(2047, 1))


@cache
def tiny_group_of_one() -> Run:
    """Eager attention with as many KV heads as query heads."""
    values = {**TINY, "num_key_value_heads": 4}
    model = built(values, "eager")
    held = filled_cache(model, 48)
    ops = recorded(lambda: model(ids(1), cache=held, logits_to_keep=1), model, held)
    return as_run(ops, values, shape_of(48, 1))


@cache
def tiny_mask_rebuilt() -> Run:
    """A decode that builds a causal mask over 512 positions first."""
    model, held = tiny(), filled_cache(tiny(), 48)

    def step() -> None:
        torch.full((512, 512), float("-inf")).triu(1)
        model(ids(1), cache=held, logits_to_keep=1)

    return tiny_run(recorded(step, model, held), shape_of(48, 1))


@cache
def big_mask_rebuilt() -> Run:
    """A decode that builds a causal bool mask over 16384 positions first."""
    model, held = seven_b(), filled_cache(seven_b(), 2047)

    def step() -> None:
        torch.ones((16384, 16384), dtype=torch.bool, device="meta").tril()
        model(ids(1, 1, "meta"), cache=held, logits_to_keep=1)

    return seven_b_run(recorded(step, model, held), shape_of(2047, 1))


# Hand counts. Eager, per score: scale 2+2, mask 2+2, cast 2+4, softmax 4+4, cast 4+2 = 28 bytes,
# and each layer reads the mask (queries x keys x 2) once.
BIG_SCORES = 28 * (28 * 2048 * 2048 * 28 + 2048 * 2048 * 2)
BIG_DECODE_SCORES = 28 * (28 * 1 * 2048 * 28 + 2048 * 2)
TINY_SCORES = 2 * (4 * 48 * 48 * 28 + 48 * 48 * 2)
# By hand in bf16: scale r+w, amax r, subtract r+w, exp r+w, sum r, divide r+w (2 bytes each); the
# row results are small.
TINY_BY_HAND = 2 * (4 * 49) * 2 * 10
# K and V of 2048 tokens, 4 heads of 128: read once, written seven times.
BIG_KV = 2048 * 4 * 128 * 2
BIG_EXPAND = 28 * 2 * (1 + 7) * BIG_KV
TINY_KV = 2 * 16 * 2
"""One token of K of the tiny model."""
# The composite in fp32, per score: mask 4+4, softmax 4+4, cast 4+2 = 22 bytes and the mask itself;
# per element of q: cast 2+4, scale 4+4; of expanded k (all heads): scale 4+4; k and v: cast 2+4;
# the result: cast 4+2; the mask: 1 written, 1+1 by tril, 1+4 by where.


def composite_bytes(layers: int, tokens: int, heads: int, kv_heads: int, size: int) -> int:
    """Bytes of torch's composite beyond its two products and the expansion (R03)."""
    scores = heads * tokens**2 * 22 + tokens**2 * 4
    q, kv = heads * tokens * size, kv_heads * tokens * size
    return layers * (scores + q * (6 + 8) + q * 8 + 2 * kv * 6 + q * 6 + tokens**2 * 8)


CASES: tuple[Case, ...] = (
    planted("R01", "7B prefill of 2048, eager", lambda: big_prefill("eager"), BIG_SCORES),
    planted("R01", "7B decode, eager", lambda: big_decode("eager"), BIG_DECODE_SCORES),
    planted("R01", "tiny prefill, eager", lambda: tiny_prefill("eager"), TINY_SCORES),
    planted("R01", "tiny decode, attention by hand", tiny_hand_written, TINY_BY_HAND),
    healthy("R01", "7B prefill, sdpa", big_prefill),
    healthy("R01", "tiny prefill, sdpa", tiny_prefill),
    healthy("R01", "tiny prefill, torch's composite", tiny_math),
    planted("R02", "tiny prefill, MATH", tiny_math, composite_bytes(2, 48, 4, 2, 16)),
    planted("R02", "7B prefill of 512, MATH", big_math, composite_bytes(28, 512, 28, 4, 128)),
    healthy("R02", "tiny prefill, sdpa", tiny_prefill),
    healthy("R02", "7B prefill, eager", lambda: big_prefill("eager")),
    planted("R03", "7B decode, eager", lambda: big_decode("eager"), BIG_EXPAND),
    planted("R03", "7B chunked prefill, sdpa", big_chunk, BIG_EXPAND),
    planted(
        "R03", "tiny decode, eager", lambda: tiny_decode("eager"), 2 * 2 * (1 + 2) * 49 * TINY_KV
    ),
    planted(
        "R03", "tiny padded prefill, sdpa", tiny_padded_prefill, 2 * 2 * (1 + 2) * 2 * 48 * TINY_KV
    ),
    healthy("R03", "7B decode, sdpa", big_decode),
    healthy("R03", "tiny padded decode, sdpa", tiny_padded_decode),
    healthy("R03", "tiny decode, eager, one head a group", tiny_group_of_one),
    planted("R04", "7B decode, DynamicCache", big_decode, 28 * 2 * 2 * 2047 * 4 * 128 * 2),
    planted("R04", "tiny decode, DynamicCache", tiny_decode, 2 * 2 * 2 * 48 * TINY_KV),
    planted("R04", "7B chunk of 512 on 1536", big_chunk, 28 * 2 * 2 * 1536 * 4 * 128 * 2),
    healthy("R04", "tiny decode, StaticCache", lambda: tiny_static(256)),
    healthy("R04", "tiny prefill, empty cache", tiny_prefill),
    # Empty slots of K and V, and of the bf16 mask.
    planted("R05", "tiny, 49 of 256", lambda: tiny_static(256), 2 * (256 - 49) * (2 * TINY_KV + 2)),
    planted("R05", "7B, 2048 of 8192", big_static, 28 * (8192 - 2048) * (2 * 4 * 128 * 2 + 2)),
    healthy("R05", "tiny, 49 of 49", lambda: tiny_static(49)),
    healthy("R05", "tiny decode, DynamicCache", tiny_decode),
    # The caller's bool mask; each layer converts it (where reads 1 and writes 2 bytes) and reads 2.
    planted(
        "R22", "7B padded prefill, 4-D mask", big_padded_prefill, 28 * 2 * 1024**2 * (1 + 2 + 2)
    ),
    # The same in each layer of the tiny model,
    # and the mask is built from positions once: le, and, index, and.
    planted(
        "R22",
        "tiny padded prefill",
        tiny_padded_prefill,
        2 * 2 * 48**2 * (1 + 2 + 2) + 48**2 * (1 + 2 + 1) + 2 * 48**2,
    ),
    healthy("R22", "tiny prefill, no mask", tiny_prefill),
    healthy(
        "R22",
        "tiny prefill, nothing padded",
        lambda: tiny_step(0, 48, batch=2, attention_mask=torch.ones(2, 48, dtype=torch.long)),
    ),
    planted("R31", "tiny decode, mask over 512", tiny_mask_rebuilt, 512**2 * 4 * 3),
    planted("R31", "7B decode, mask over 16384", big_mask_rebuilt, 16384**2 * 3),
    healthy("R31", "tiny decode, no mask", tiny_decode),
    healthy("R31", "7B prefill, eager: the mask it needs", lambda: big_prefill("eager")),
)
