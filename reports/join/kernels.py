"""Join kernel launches to the ops that caused them, and say how far to trust each join.

In this order, per launch:

    op id        an NVTX range `op 217 aten.addmm` (or `op:217`) encloses it: 217 is the index of
                 the op in the run. A fused call that serves several ops is `op 217-221 name`.
    nvtx path    the innermost module range is the module path of recorded ops
    order        matrix products and attention of the capture are those of the recording, in order;
                 what lies between two of them belongs to the ops between them
    name class   the kernel's name alone says its operator class
    none         the class is unknown, and is shown as unknown

Several launches may join one op (split-K and its reduction, flash attention and its combine): they
are summed. One launch may join several ops (a fused kernel).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rooflens.model import Join, KernelRow, Launch, Op
from rooflens.parsers.kernels import UNKNOWN, classify_name
from rooflens.quantity import Confidence
from rooflens.reports.join.sequence import align
from rooflens.vocabulary import FUSED_CLASSES

Measured = Launch | KernelRow
Method = Literal["op id", "nvtx path", "order", "name class", "none"]

_OP_RANGE = re.compile(r"^op[ :](\d{1,9})(?:-(\d{1,9}))?(?:[ :].*)?$")
_LAYER_RANGE = re.compile(r"^layer (\d{1,5})$")
_LAYER_PATH = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d{1,5})(?:\.|$)")
MAX_SERVED = 256
"""More ops than this in one range is no fused kernel but a wrong range."""


@dataclass(frozen=True)
class Joined:
    """What a launch was found to be for."""

    join: Join
    op_class: str
    part: str | None = None
    layer: int | None = None


def join_launches(launches: Sequence[Measured], ops: Sequence[Op] = ()) -> tuple[Joined, ...]:
    """Join every launch, in the order given. `ops` are those of one step, in recorded order.

    Without ops the class comes from the NVTX path or the name.
    """
    by_index = {op.index: op for op in ops}
    by_module = _ops_by_module(ops)
    found = [_by_range(launch, by_index, by_module) for launch in launches]
    loose = [place for place, joined in enumerate(found) if joined is None]
    if ops and loose and len(loose) == len(launches):
        by_order = align([classify_name(_name(launch)).family for launch in launches], ops)
        for place, match in by_order.items():
            found[place] = _joined("order", match.ops, match.confidence)
    return tuple(
        joined if joined is not None else _by_name(launch)
        for joined, launch in zip(found, launches, strict=True)
    )


def _name(launch: Measured) -> str:
    return (launch.demangled if isinstance(launch, Launch) else "") or launch.name


def op_indices(ranges: Iterable[str]) -> tuple[int, ...]:
    """Op indices that the innermost op range of an NVTX path names; empty when there is none."""
    for name in reversed(tuple(ranges)):
        match = _OP_RANGE.match(name)
        if match:
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            if first <= last < first + MAX_SERVED:
                return tuple(range(first, last + 1))
    return ()


def layer_of(ranges: Iterable[str]) -> int | None:
    """The decoder layer that an NVTX path names."""
    for name in reversed(tuple(ranges)):
        match = _LAYER_RANGE.match(name) or _LAYER_PATH.search(name)
        if match:
            return int(match[1])
    return None


def _ops_by_module(ops: Sequence[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in ops:
        if op.module:
            found.setdefault(op.module, []).append(op)
    return found


def _by_range(
    launch: Measured, by_index: Mapping[int, Op], by_module: Mapping[str, list[Op]]
) -> Joined | None:
    indices = op_indices(launch.nvtx)
    known = [by_index[index] for index in indices if index in by_index]
    if known and len(known) == len(indices):
        return _joined("op id", known, "high")
    for name in reversed(launch.nvtx):
        ops = by_module.get(name)
        if ops:
            return _in_module(launch, ops)
    return None


def _in_module(launch: Measured, ops: Sequence[Op]) -> Joined:
    """The ops of a module: all when they share a class, else those of the kernel's own class."""
    classes = {op.op_class for op in ops}
    if len(classes) == 1:
        return _joined("nvtx path", ops, "high" if len(ops) == 1 else "medium")
    kernel = classify_name(_name(launch))
    same = [op for op in ops if op.op_class == kernel.op_class]
    if same:
        return _joined("nvtx path", same, "medium")
    layer = layer_of(launch.nvtx)
    join = Join(method="nvtx path", confidence="low", ops=tuple(op.index for op in ops))
    return Joined(join, "other", None, layer)


def _joined(method: Method, ops: Sequence[Op], confidence: Confidence) -> Joined:
    classes = list(dict.fromkeys(op.op_class for op in ops))
    parts = {op.part for op in ops}
    layers = {op.layer for op in ops}
    return Joined(
        Join(method=method, confidence=confidence, ops=tuple(op.index for op in ops)),
        _one_class(classes),
        parts.pop() if len(parts) == 1 and len(classes) == 1 else None,
        layers.pop() if len(layers) == 1 else None,
    )


def _one_class(classes: Sequence[str]) -> str:
    """The class of a kernel that serves several: a fused name where the vocabulary has one."""
    if len(classes) == 1:
        return classes[0]
    for name, members in FUSED_CLASSES.items():
        if set(classes) <= set(members):
            return name
    return "other"


def _by_name(launch: Measured) -> Joined:
    kernel = classify_name(_name(launch))
    layer = layer_of(launch.nvtx)
    if kernel.family == UNKNOWN or kernel.op_class == "other":
        return Joined(Join(method="none", confidence="low"), "other", None, layer)
    return Joined(Join(method="name class", confidence="low"), kernel.op_class, None, layer)
