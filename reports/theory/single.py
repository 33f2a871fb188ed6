"""The answer for attention outside a model: one layer's call with free head counts."""

from __future__ import annotations

from msgspec.structs import replace

from rooflens.errors import UsageError
from rooflens.reports.theory.answer import Answer, operators_answer
from rooflens.reports.theory.attention import Heads, Span, fused_attention, unfused_attention
from rooflens.reports.theory.formats import activation_format, number_format
from rooflens.reports.theory.gpus import Gpu


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
    return replace(
        answer,
        batch=batch,
        context=context,
        query_tokens=query_tokens,
        kv_dtype=cache.name,
        totals=replace(
            answer.totals, kv_bytes_per_token=cache.vectors_bytes(2 * kv_heads, head_dim)
        ),
    )
