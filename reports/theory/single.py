"""The answer for attention outside a model: one layer's call with free head counts."""

from __future__ import annotations

from msgspec.structs import replace

from rooflens.errors import UsageError
from rooflens.model import Roof
from rooflens.reports.theory.answer import Answer, operators_answer
from rooflens.reports.theory.attention import Heads, Span, fused_attention, unfused_attention
from rooflens.reports.theory.crossover import attention_crossover_prompt
from rooflens.reports.theory.floor import printed_ridge
from rooflens.reports.theory.formats import Format, activation_format, number_format
from rooflens.reports.theory.gpus import Gpu

MOST_TOKENS = 2**40
"""Beyond this a crossover is none."""


def attention_answer(
    gpu: Gpu | None,
    *,
    batch: int,
    context: int,
    query_tokens: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    window: int | None = None,
    full: bool = False,
    unfused: bool = False,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    accumulate: str = "float32",
) -> Answer:
    """Attention of `query_tokens` new tokens over `context` cached ones.

    Raises UsageError when the heads do not divide or the options contradict each other.
    """
    if heads % kv_heads:
        raise UsageError(f"--kv-heads {kv_heads} does not divide --heads {heads}.")
    if full and window is not None:
        raise UsageError("--full attends every key: it has no --window.")
    if unfused and window is not None:
        raise UsageError("--unfused computes every pair: it has no --window.")
    dtype = dtype or "bfloat16"
    activation = activation_format(dtype)
    cache = number_format(kv_dtype or dtype, "--kv-dtype")
    spans = (Span(count=batch, query=query_tokens, context=context),)
    call = Heads(query_heads=heads, kv_heads=kv_heads, key_width=head_dim, value_width=head_dim)
    fused = fused_attention(
        spans, call, activation=activation, cache=cache, causal=not full, window=window
    )
    operators = (
        unfused_attention(spans, call, activation=activation, cache=cache) if unfused else (fused,)
    )
    answer = operators_answer(
        "attention",
        operators,
        gpu,
        dtype=dtype,
        compulsory_bytes=fused.bytes,
        accumulate=accumulate,
    )
    crossings: dict[str, float | None] = {}
    if answer.roof is not None and not unfused:
        crossings["attention"] = _crossover(
            answer.roof, spans[0], call, activation, cache, full, window
        )
    return replace(
        answer,
        crossover_tokens=crossings,
        batch=batch,
        context=context,
        query_tokens=query_tokens,
        kv_dtype=cache.name,
        totals=replace(
            answer.totals, kv_bytes_per_token=cache.vectors_bytes(2 * kv_heads, head_dim)
        ),
    )


def _crossover(
    roof: Roof, span: Span, heads: Heads, activation: Format, cache: Format, full: bool,
    window: int | None,
) -> float | None:  # fmt: skip
    """New tokens at which the call reaches the ridge: the formula for a prompt, else by halving."""
    at = printed_ridge(roof)
    if span.context == 0 and window is None and cache.bits == activation.bits:
        return attention_crossover_prompt(
            heads.query_heads, heads.kv_heads, at, element_bytes=activation.bits / 8,
            causal=not full,
        )  # fmt: skip

    def reached(query: int) -> bool:
        one = Span(count=1, query=query, context=span.context)
        call = fused_attention(
            (one,), heads, activation=activation, cache=cache, causal=not full, window=window
        )
        return call.intensity >= at

    low, high = 0, 1
    while not reached(high):
        if high > MOST_TOKENS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
