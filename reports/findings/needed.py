"""What the step had to compute, read back from theory's minimum beside the counts.

A prefill and a decode without a cache are the same ops; only the minimum (one new token, or all)
tells them apart. Theory's rows give the tokens that had to pass through the projections and the
keys that had to be attended; the ops give those that did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflens.reports.findings.attention import Composite, Fused
from rooflens.reports.findings.dataflow import numel

if TYPE_CHECKING:
    from rooflens.reports.findings.evidence import Evidence

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")
"""Those of attention: every token passes through them, whatever the MLP routes to experts."""


@dataclass(frozen=True)
class AttentionShape:
    """One attention call by its numbers; `row_bytes` is one token of K (all KV heads)."""

    batch: int
    queries: int
    keys: int
    query_row_bytes: int
    row_bytes: int


@dataclass(frozen=True)
class Work:
    """Tokens computed and keys attended per step, all sequences together."""

    batch: int
    rows: int
    rows_needed: float
    keys: int
    keys_needed: float

    @property
    def recomputes_all_keys(self) -> bool:
        """Every key of the sequence is computed in this step, though some were known before."""
        return (
            self.rows >= self.keys * 0.999
            and self.rows > self.rows_needed * 1.001
            and abs(self.keys - self.keys_needed) <= max(self.batch, 0.001 * self.keys)
        )


def attention_shape(evidence: Evidence) -> AttentionShape | None:
    """The shape of the step's first attention call."""
    if evidence.fused:
        return _of_fused(evidence.fused[0])
    if evidence.composites:
        return _of_composite(evidence.composites[0])
    return None


def _of_fused(call: Fused) -> AttentionShape:
    size = call.key.bytes // max(1, numel(call.key))
    return AttentionShape(
        batch=call.batch,
        queries=call.queries,
        keys=call.keys,
        query_row_bytes=call.heads * call.head_dim * size,
        row_bytes=call.kv_heads * call.head_dim * size,
    )


def _of_composite(call: Composite) -> AttentionShape | None:
    """Only when the composite's tensors are 4-D somewhere: the batch cannot be guessed."""
    shapes = [op.outputs[0].shape for op in call.between if len(op.outputs[0].shape) == 4]
    if not shapes or call.values.inputs[-1].bytes == 0:
        return None
    batch, heads = shapes[0][0], shapes[0][1]
    queries, keys = call.rows
    head_bytes = call.values.outputs[0].bytes // max(1, batch * heads * queries)
    return AttentionShape(batch, queries, keys, heads * head_bytes, 0)


def work(evidence: Evidence) -> Work | None:
    """Executed against needed work, or None where theory or attention is missing."""
    shape = attention_shape(evidence)
    rows = [
        (row.minimum_flops.value, row.requested_flops.value)
        for row in evidence.operators
        if row.op_class in _PROJECTIONS and row.part is None
    ]
    both = [(least, asked) for least, asked in rows if least and asked]
    minimum = sum(least for least, _ in both)
    requested = sum(asked for _, asked in both)
    if shape is None or not minimum or not requested:
        return None
    executed = shape.batch * shape.queries
    needed = executed * minimum / requested
    keys = _keys_needed(evidence, shape, needed)
    if keys is None:
        return None
    return Work(shape.batch, executed, needed, shape.batch * shape.keys, keys)


def _keys_needed(evidence: Evidence, shape: AttentionShape, rows_needed: float) -> float | None:
    """Invert theory's attention bytes: queries and outputs once, K and V once."""
    calls = len(evidence.fused) or len(evidence.composites)
    minimum = sum(
        row.minimum_bytes.value or 0
        for row in evidence.operators
        if row.op_class == "attention" and row.part is None
    )
    row_bytes = shape.row_bytes or _appended_row_bytes(evidence)
    if not minimum or not row_bytes:
        return None
    kv_bytes = minimum / calls - 2 * rows_needed * shape.query_row_bytes
    return kv_bytes / (2 * row_bytes)


def _appended_row_bytes(evidence: Evidence) -> int:
    """Bytes of one token of K, from the projection that makes it."""
    for op in evidence.of_class("k_proj"):
        if op.flops and op.outputs:
            output = op.outputs[0]
            return output.bytes // max(1, numel(output) // output.shape[-1])
    return 0
