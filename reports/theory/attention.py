"""Attention as formulas: which (query, key) pairs exist, what they cost, which keys are read.

A sequence has `context` tokens in its cache and `query` new ones; query i (from 0) sits at position
context + i. Causal, it attends the context + i + 1 keys up to itself; with a sliding window w only
the last w of them. Not causal, it attends all context + query keys.

    pairs      sum over the queries of attended keys
    keys read  union of attended keys: context + query, or the last query + w - 1 of them
    FLOPs      QK^T is 2*d per pair and head, PV is 2*d_v: 4*n_q*d*pairs when both are d wide

Softmax (about 5 FLOP per pair) is left out of a fused kernel's FLOPs: they are no matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.quantity import Record
from rooflens.reports.theory.formats import Format
from rooflens.reports.theory.operators import OperatorTheory


class Span(Record, frozen=True, kw_only=True):
    """`count` sequences alike: `query` new tokens each over `context` cached ones."""

    count: int
    query: int
    context: int

    @property
    def keys(self) -> int:
        """Keys of one sequence after the step."""
        return self.context + self.query


class Heads(Record, frozen=True, kw_only=True):
    """Heads and widths of one attention call (of one tensor-parallel rank)."""

    query_heads: int
    kv_heads: int
    key_width: int
    value_width: int
    shared_latent: bool = False
    """Values are a part of the cached key vector (MLA, absorbed): the cache is read once."""
    shared_key_width: int = 0
    """Part of the key that all heads share (MLA's rotary key), read once."""


def pairs(span: Span, causal: bool = True, window: int | None = None) -> int:
    """(query, key) pairs of one sequence.

    Causal without window: q*c + q(q+1)/2, which is S(S+1)/2 for a prefill of S.
    """
    q, c = span.query, span.context
    if not causal:
        return q * (c + q)
    if window is None or window >= c + q:
        return q * c + q * (q + 1) // 2
    growing = min(q, max(0, window - c))  # queries that still see every key before them
    return growing * c + growing * (growing + 1) // 2 + (q - growing) * window


def tiled_pairs(span: Span, tile: int = 128) -> int:
    """Pairs that a causal kernel computes when it skips whole tiles of `tile` x `tile` only.

    For a prefill of 2048 and tiles of 128 that is 53.1 % of all pairs.
    """
    total = 0
    for first in range(0, span.query, tile):
        rows = min(tile, span.query - first)
        last_key = span.context + first + rows
        total += rows * min(span.keys, -(-last_key // tile) * tile)
    return total


def keys_read(span: Span, window: int | None = None) -> int:
    """Distinct keys that the queries of one sequence attend."""
    if window is None:
        return span.keys
    return min(span.keys, span.query + window - 1)


def past_keys_read(span: Span, window: int | None = None) -> int:
    """Those of the attended keys that were in the cache before the step."""
    return max(0, keys_read(span, window) - span.query)


def fused_attention(
    spans: Sequence[Span], heads: Heads, *, activation: Format, cache: Format, causal: bool = True,
    window: int | None = None, cached: bool = True,
) -> OperatorTheory:  # fmt: skip
    """One kernel per layer; scores never leave the chip.

    Read: q, and the attended keys and values in the cache's format (`cached=False`: in the
    activations' format, as when MLA has just decompressed them); written: the output.
    For one sequence, full: (2/b) n_q q L / (n_kv L + n_q q) FLOP per byte.
    """
    tokens = sum(s.count * s.query for s in spans)
    all_pairs = sum(s.count * pairs(s, causal, window) for s in spans)
    rows = sum(s.count * keys_read(s, window) for s in spans)
    storage = cache if cached else Format(name=activation.name, bits=activation.bits)
    widths = heads.key_width + heads.value_width
    return OperatorTheory(
        name="attention",
        detail="fused",
        shape=_shape(spans),
        flops=2 * heads.query_heads * widths * all_pairs,
        bytes_in=activation.plain_bytes(tokens * heads.query_heads * heads.key_width)
        + kv_bytes(rows, heads, storage),
        bytes_out=activation.plain_bytes(tokens * heads.query_heads * heads.value_width),
        tensor=True,
    )


def unfused_attention(
    spans: Sequence[Span], heads: Heads, *, activation: Format, cache: Format,
) -> tuple[OperatorTheory, OperatorTheory, OperatorTheory]:  # fmt: skip
    """QK^T, softmax and PV as three kernels that pass the scores through memory.

    All query x key pairs are computed (a matrix product cannot skip the masked ones) and written
    once, read and written by softmax, read by PV: four passes over n_q*q*L elements.
    """
    tokens = sum(s.count * s.query for s in spans)
    rows = sum(s.count * s.keys for s in spans)
    scores = heads.query_heads * sum(s.count * s.query * s.keys for s in spans)
    score_bytes = activation.plain_bytes(scores)
    shape = _shape(spans)
    queries = activation.plain_bytes(tokens * heads.query_heads * heads.key_width)
    output = activation.plain_bytes(tokens * heads.query_heads * heads.value_width)
    keys, values = (
        cache.vectors_bytes(rows * heads.kv_heads, width)
        for width in (heads.key_width, heads.value_width)
    )
    return (
        OperatorTheory(
            name="attention", detail="scores", shape=shape, tensor=True,
            flops=2 * heads.key_width * scores, bytes_in=queries + keys, bytes_out=score_bytes,
        ),
        OperatorTheory(
            name="attention", detail="softmax", shape=shape,
            flops=5 * scores, bytes_in=score_bytes, bytes_out=score_bytes,
        ),
        OperatorTheory(
            name="attention", detail="values", shape=shape, tensor=True,
            flops=2 * heads.value_width * scores, bytes_in=score_bytes + values, bytes_out=output,
        ),
    )  # fmt: skip


def kv_bytes(rows: int, heads: Heads, storage: Format) -> int:
    """Bytes of the keys and values of `rows` tokens, as attention reads them."""
    if heads.shared_latent:
        return storage.vectors_bytes(rows * heads.kv_heads, heads.key_width)
    own_key = heads.key_width - heads.shared_key_width
    own = storage.vectors_bytes(rows * heads.kv_heads, own_key)
    own += storage.vectors_bytes(rows * heads.kv_heads, heads.value_width)
    if heads.shared_key_width:
        own += storage.vectors_bytes(rows, heads.shared_key_width)
    return own


def _shape(spans: Sequence[Span]) -> str:
    count = sum(s.count for s in spans)
    queries = sorted({s.query for s in spans})
    keys = sorted({s.keys for s in spans})
    return f"q={_span_text(queries)} L={_span_text(keys)} B={count}"


def _span_text(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}..{values[-1]}"
