"""Attention by dataflow: from the projections through rope and cache to the output projection.

An attention core is a fused call, or a product of two activations (scores) whose result reaches
another such product (values) without a projection in between. Walking back from its operands finds
rope, cache writes, expansions and the projections; walking forward finds what belongs to it before
the output projection; what else flows in is the mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rooflens.model import Op
from rooflens.reports.classify.flow import Flow
from rooflens.reports.classify.names import is_cast, is_copy, makes_only_indices

_TABLE_OPS = frozenset({"aten.cos", "aten.sin", "aten.polar"})
_TABLE_WORDS = ("cos", "sin", "freqs", "rotary", "rope", "inv_freq")
_SOFTMAX_OPS = frozenset(
    {
        "aten._softmax", "aten._safe_softmax", "aten.exp", "aten.exp_", "aten.exp2", "aten.amax",
        "aten.max", "aten.sum", "aten.logsumexp", "aten._log_softmax",
    }
)  # fmt: skip
_CACHE_WRITERS = frozenset(
    {
        "aten.cat", "aten.index_copy_", "aten.copy_", "aten.index_put_", "aten._index_put_impl_",
        "aten.scatter_", "aten.slice_scatter", "aten.index_copy", "aten.index_put",
        "aten.select_scatter",
    }
)  # fmt: skip


@dataclass
class _Core:
    """One attention: the ops that start it and what each operand comes from."""

    scores: int
    values: int
    fused: bool
    operands: dict[str, list[int]] = field(default_factory=dict)
    """q, k, v -> ops that wrote the operand."""


def classify_attention(flow: Flow) -> None:
    """Set classes of everything between the projections and the output projection."""
    _cache_writes(flow)
    tables = _rope_tables(flow)
    for core in _cores(flow):
        before = _before(flow, core)
        after = _after(flow, core)
        _rope(flow, before, tables)
        _inside(flow, core, before, after)
        _projections(flow, core, after)
        _mask(flow, core, before, after)


def _cache_writes(flow: Flow) -> None:
    for index, op in enumerate(flow.ops):
        if not any(tensor.role == "cache" for tensor in op.outputs):
            continue
        if op.name in _CACHE_WRITERS:
            flow.set(index, "kv_write", "copy" if op.name == "aten.cat" else "append")
        elif not op.inputs:
            flow.set(index, "kv_write", "append")  # a buffer that is cleared before its first use


def _rope_tables(flow: Flow) -> set[int]:
    """Ops that make cos and sin (or complex factors), which rope is recognised by."""
    tables: set[int] = set()
    for index, op in enumerate(flow.ops):
        producers = flow.producers(index)
        from_tables = bool(producers) and all(p in tables for p in producers)
        if flow.classes[index] == "rope" and flow.parts[index] == "tables":
            tables.add(index)
            continue
        selects = from_tables and _reads_only_tables(op)
        looks_up = not producers and _is_table_lookup(op)
        if op.name in _TABLE_OPS or selects or looks_up:
            tables.add(index)
            flow.set(index, "rope", "tables")
    return tables


def _reads_only_tables(op: Op) -> bool:
    """Nothing but table values and indices: a selection or cast of cos and sin."""
    return not op.flops and all(
        tensor.role == "activation" or "int" in tensor.dtype for tensor in op.inputs
    )


def _is_table_lookup(op: Op) -> bool:
    names = [tensor.name.rsplit(".", 1)[-1].lower() for tensor in op.inputs if tensor.name]
    return bool(names) and all(any(word in name for word in _TABLE_WORDS) for name in names)


def _cores(flow: Flow) -> list[_Core]:
    cores = []
    for index, op in enumerate(flow.ops):
        if flow.classes[index] == "attention" and flow.parts[index] == "fused":
            floats = [t for t in op.inputs if "int" not in t.dtype and t.dtype != "bool"][:3]
            names = ("q", "k", "v") if len(floats) == 3 else ("qkv",) * len(floats)
            core = _Core(index, index, fused=True)
            for name, tensor in zip(names, floats, strict=True):
                core.operands.setdefault(name, []).extend(flow.producers_of(index, tensor))
            cores.append(core)
        elif flow.classes[index] is None and flow.is_product(index) and len(op.inputs) >= 2:
            core_or_none = _unfused_core(flow, index)
            if core_or_none is not None:
                cores.append(core_or_none)
    return cores


def _unfused_core(flow: Flow, scores: int) -> _Core | None:
    """Pair a product of activations with the product that its result reaches, if any."""

    def stop(index: int) -> bool:
        return index != scores and bool(flow.ops[index].flops)

    reached = [
        index
        for index in flow.downstream([scores], stop)
        if index != scores and flow.is_product(index)
    ]
    if not reached:
        return None
    values = reached[0]
    core = _Core(scores, values, fused=False)
    left, right = flow.ops[scores].inputs[-2:]
    core.operands["q"] = list(flow.producers_of(scores, left))
    core.operands["k"] = list(flow.producers_of(scores, right))
    from_scores = set(flow.downstream([scores], stop))
    core.operands["v"] = [
        producer
        for tensor in flow.ops[values].inputs
        for producer in flow.producers_of(values, tensor)
        if producer not in from_scores
    ]
    return core


def _before(flow: Flow, core: _Core) -> list[int]:
    """Ops between the projections and the core (both excluded)."""

    def stop(index: int) -> bool:
        if flow.classes[index] == "rope" and flow.parts[index] == "tables":
            return True
        return flow.is_linear(index) or flow.classes[index] in ("embedding", "residual")

    start = [index for group in core.operands.values() for index in group]
    reached = flow.upstream(start, stop)
    return [i for i in reached if not stop(i) and not makes_only_indices(flow.ops[i])]


def _after(flow: Flow, core: _Core) -> list[int]:
    """Ops from the core to the output projection (excluded)."""
    seen = flow.downstream([core.scores], flow.is_linear)
    start = [index for index in seen if not flow.is_linear(index)]
    width = _context_width(flow, core)
    kept = []
    for index in start:
        if index <= core.values or _keeps_size(flow, index, width):
            kept.append(index)
        else:
            break
    return kept


def _context_width(flow: Flow, core: _Core) -> int:
    shape = flow.ops[core.values].outputs[0].shape if flow.ops[core.values].outputs else ()
    total = 1
    for length in shape:
        total *= length
    return total


def _keeps_size(flow: Flow, index: int, numbers: int) -> bool:
    """A copy or cast of the attention's result; anything else after the values is not attention."""
    op = flow.ops[index]
    total = 1
    for length in op.outputs[0].shape if op.outputs else ():
        total *= length
    return (is_copy(op) or is_cast(op)) and total == numbers


def _rope(flow: Flow, before: list[int], tables: set[int]) -> None:
    """Ops that rotate: those that read a table, what feeds them, and what joins their results."""
    region = set(before)
    reading = {
        index
        for index in before
        if index not in tables
        and flow.classes[index] is None
        and (any(p in tables for p in flow.producers(index)) or _reads_table(flow.ops[index]))
    }
    if not reading:
        return
    rotating = set(reading)
    for index in reversed(before):
        feeds = any(consumer in rotating for consumer in flow.consumers[index])
        if feeds and index not in tables and flow.classes[index] is None:
            rotating.add(index)
    for index in before:
        if flow.classes[index] is None and index not in tables and index not in rotating:
            from_rotating = [p for p in flow.producers(index) if p in rotating]
            if from_rotating and _joins(flow, index, rotating):
                rotating.add(index)
    for index in sorted(rotating & region):
        flow.set(index, "rope", _rope_part(flow.ops[index]))


def _reads_table(op: Op) -> bool:
    named = [t.name.rsplit(".", 1)[-1].lower() for t in op.inputs if t.role == "weight"]
    by_name = any(any(word in name for word in _TABLE_WORDS) for name in named)
    return by_name or (op.name == "aten.mul" and any("complex" in t.dtype for t in op.inputs))


def _joins(flow: Flow, index: int, rotating: set[int]) -> bool:
    """Adds or joins rotated halves, or casts back to the dtype that entered the rotation."""
    op = flow.ops[index]
    base = op.name.split(".", 1)[-1].rstrip("_")
    if base in ("add", "sub", "cat", "stack", "neg", "addcmul", "view_as_real"):
        return len(op.inputs) > 1 or base in ("neg", "view_as_real")
    if not is_cast(op):
        return False
    entered = {
        tensor.dtype
        for rotated in rotating
        for tensor in flow.ops[rotated].inputs
        if not any(writer in rotating for writer in flow.producers_of(rotated, tensor))
    }
    return op.outputs[0].dtype in entered


def _rope_part(op: Op) -> str:
    if is_cast(op):
        return "cast"
    return "layout" if op.name == "aten.clone" else "rotate"


def _inside(flow: Flow, core: _Core, before: list[int], after: list[int]) -> None:
    for index in before:
        flow.set(index, "attention", _part_before(flow, index))
    softmax_done = False
    for index in after:
        op = flow.ops[index]
        if core.fused:
            flow.set(index, "attention", "cast" if is_cast(op) else "layout")
            continue
        softmax_done = softmax_done or op.name in _SOFTMAX_OPS
        flow.set(index, "attention", _part_after(op, index, core, softmax_done))


def _part_before(flow: Flow, index: int) -> str:
    op = flow.ops[index]
    if is_cast(op):
        return "cast"
    grows = op.bytes_out > op.bytes_in and op.bytes_in > 0
    if (is_copy(op) or "repeat" in op.name) and (
        any(tensor.expanded for tensor in op.inputs) or grows
    ):
        return "expand"
    return "layout" if is_copy(op) else "scores"


def _part_after(op: Op, index: int, core: _Core, softmax_done: bool) -> str:
    if index == core.scores:
        return "scores"
    if index == core.values:
        return "values"
    if is_cast(op):
        return "cast"
    if index > core.values:
        return "layout"
    if is_copy(op):
        return "layout"
    return "softmax" if softmax_done else "scores"


def _projections(flow: Flow, core: _Core, after: list[int]) -> None:
    """Name the projections that names did not: by the operand that they feed."""
    fed: dict[int, set[str]] = {}
    for operand, start in core.operands.items():
        for index in flow.upstream(start, flow.is_linear):
            if flow.is_linear(index):
                fed.setdefault(index, set()).add(operand)
    for index, operands in fed.items():
        flow.set(index, _fused_name(operands))
    for index in after:
        for consumer in flow.consumers[index]:
            if flow.is_linear(consumer):
                flow.set(consumer, "o_proj")


def _fused_name(operands: Iterable[str]) -> str:
    names = set(operands)
    if names == {"k", "v"}:
        return "kv_proj"
    if len(names) > 1 or "qkv" in names:
        return "qkv_proj"
    return f"{names.pop()}_proj"


def _mask(flow: Flow, core: _Core, before: list[int], after: list[int]) -> None:
    """What flows into the core and comes from no projection: masks and biases."""
    known = {*before, *after}
    start = [
        producer
        for index in (*after, core.scores)
        for producer in flow.producers(index)
        if producer not in known and flow.classes[producer] is None
    ]
    for index in flow.upstream(start, lambda i: flow.classes[i] is not None or flow.is_linear(i)):
        if not flow.is_linear(index):
            flow.set(index, "mask")
