"""Finds the attention calls of a step by their dataflow: fused calls, and products around softmax.

A composite attention is a batched product whose result runs, element by element, through a softmax
into another batched product. Names and modules play no part, so hand-written attention is found
as well; a softmax over the vocabulary or over experts is not taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflens.model import Op, Tensor
from rooflens.reports.findings.dataflow import BATCHED_MATMULS, Flow, base_name, numel

if TYPE_CHECKING:
    from collections.abc import Sequence

SOFTMAXES = frozenset({"aten._softmax", "aten.softmax", "aten._safe_softmax"})
_EXPONENTIALS = SOFTMAXES | {"aten.exp", "aten.exp_"}
_FUSED_WORDS = ("scaled_dot_product", "flash_attn", "flash_attention", "sdpa", "paged_attention")


@dataclass(frozen=True)
class Composite:
    """One attention made of single ops: `scores` -> `between` (softmax in it) -> `values`."""

    scores: Op
    between: tuple[Op, ...]
    values: Op

    @property
    def safe_softmax(self) -> bool:
        """True for torch's own composite: only that uses `_safe_softmax`."""
        return any(base_name(op) == "aten._safe_softmax" for op in self.between)

    @property
    def rows(self) -> tuple[int, int]:
        """Queries and keys: the last two lengths of the scores."""
        shape = self.scores.outputs[0].shape
        return shape[-2], shape[-1]


@dataclass(frozen=True)
class Fused:
    """One fused attention call, by its shapes (batch, heads, tokens, head_dim)."""

    op: Op
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    key: Tensor
    value: Tensor
    mask: Tensor | None


def is_fused(op: Op) -> bool:
    """True for a fused attention call of any library."""
    if op.op_class == "attention" and op.part == "fused":
        return True
    name = op.name.lower()
    return any(word in name for word in _FUSED_WORDS)


def fused_calls(ops: Sequence[Op]) -> list[Fused]:
    """The fused attention calls whose first three tensors are 4-D queries, keys and values."""
    calls = []
    for op in ops:
        if not is_fused(op):
            continue
        tensors = [tensor for tensor in op.inputs if len(tensor.shape) == 4]
        if len(tensors) < 3:
            continue
        query, key, value = tensors[:3]
        token, head = (1, 2) if "flash_attn" in op.name else (2, 1)
        masks = [
            tensor
            for tensor in op.inputs
            if tensor.id not in {query.id, key.id, value.id}
            and len(tensor.shape) >= 2
            and tensor.shape[-1] == key.shape[token]
            and tensor.shape[-2] in {1, query.shape[token]}
        ]
        calls.append(
            Fused(
                op=op,
                batch=query.shape[0],
                heads=query.shape[head],
                kv_heads=key.shape[head],
                queries=query.shape[token],
                keys=key.shape[token],
                head_dim=query.shape[3],
                key=key,
                value=value,
                mask=masks[0] if masks else None,
            )
        )
    return calls


def composites(ops: Sequence[Op], flow: Flow) -> list[Composite]:
    """The attentions of the step that write their scores."""
    found = []
    for op in ops:
        if base_name(op) not in BATCHED_MATMULS or not op.outputs:
            continue
        count = numel(op.outputs[0])

        def keeps_scores(reader: Op, count: int = count) -> bool:
            return (
                base_name(reader) not in BATCHED_MATMULS
                and bool(reader.outputs)
                and numel(reader.outputs[0]) == count
            )

        between, ends = flow.reach(op, keeps_scores)
        values = [end for end in ends if base_name(end) in BATCHED_MATMULS]
        if values and any(base_name(step) in _EXPONENTIALS for step in between):
            found.append(Composite(op, _with_reductions(between, ends), values[0]))
    return found


def _with_reductions(between: list[Op], ends: list[Op]) -> tuple[Op, ...]:
    """Add the row maxima and sums of a hand-written softmax to its elementwise ops."""
    reductions = [end for end in ends if base_name(end) in {"aten.sum", "aten.amax", "aten.max"}]
    return tuple(sorted((*between, *reductions), key=lambda op: op.index))


def reads_as_keys(op: Op, tensor_id: int) -> bool:
    """True when `op` is an attention product or fused call that reads the tensor as K or V."""
    if is_fused(op):
        return any(tensor.id == tensor_id for tensor in op.inputs[1:])
    if base_name(op) in BATCHED_MATMULS:
        return len(op.inputs) > 1 and any(t.id == tensor_id for t in op.inputs[1:])
    return False
