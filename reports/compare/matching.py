"""Pair the ops and kernels of two runs: what is the same thing, renamed, substituted, new or gone.

Ops match by module path and class; what is left by layer, class and shapes; what is still left by
layer and shapes alone (a renamed module may have lost its class with its name). Kernels match by
full identity, then by name where the launch shape changed, then by operator class, NVTX path,
family and launches, and at last by operator class and NVTX path alone: another kernel of another
family that does the same op is a substitution as well (rule R32). Every pass is a dictionary of
lists, so matching takes time in proportion to the rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from rooflens.model import KernelRow, Op

T = TypeVar("T")
_LAYER = re.compile(r"(?<![A-Za-z0-9_])\d+(?![A-Za-z0-9_])")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class OpGroup:
    """All ops of one module and class, in order."""

    module: str
    op_class: str
    layer: int | None
    ops: tuple[Op, ...]

    @property
    def bytes(self) -> int:
        return sum(op.bytes_in + op.bytes_out for op in self.ops)

    @property
    def flops(self) -> int:
        return sum(op.flops for op in self.ops)

    @property
    def elementwise_flops(self) -> int:
        return sum(op.elementwise_flops for op in self.ops)

    def signature(self) -> tuple[Hashable, ...]:
        """What was done, whatever it is called: op names, shapes, dtypes and bytes."""
        return tuple((op.name, _shapes(op), op.bytes_in, op.bytes_out, op.flops) for op in self.ops)


@dataclass(frozen=True)
class Pairs(Generic[T]):
    """The result of matching: pairs, and what only one side has."""

    both: list[tuple[T, T]] = field(default_factory=list)
    gone: list[T] = field(default_factory=list)
    new: list[T] = field(default_factory=list)


def match_ops(base: Sequence[Op], head: Sequence[Op]) -> Pairs[OpGroup]:
    """Match the op groups of one step of each side."""
    passes: list[Callable[[OpGroup], Hashable]] = [
        lambda group: (group.module, group.op_class),
        lambda group: (group.layer, group.op_class, group.signature()),
        lambda group: (group.layer, group.op_class, _group_shapes(group)),
        lambda group: (group.layer, group.signature()),
    ]
    return _match(op_groups(base), op_groups(head), passes)


def match_kernels(base: Sequence[KernelRow], head: Sequence[KernelRow]) -> Pairs[KernelRow]:
    """Match the kernel rows of two sides."""
    passes: list[Callable[[KernelRow], Hashable]] = [
        lambda row: (row.name, row.grid, row.block, row.nvtx, row.op_class, row.device),
        lambda row: (row.name, row.grid, row.block, _path(row), row.op_class),
        lambda row: (row.name, _path(row), row.op_class),
        lambda row: (row.short_name, row.op_class, _path(row), row.count),
        lambda row: (row.op_class, _path(row), row.family, row.count, _total_bytes(row)),
        lambda row: (row.op_class, _path(row), row.family, row.count),
        lambda row: (row.op_class, row.family, row.count, _total_bytes(row)),
        lambda row: (row.op_class, _path(row), row.count) if _is_named(row) else id(row),
        lambda row: (row.op_class, _path(row)) if _is_named(row) else id(row),
    ]
    return _match(list(base), list(head), passes)


def _match(base: list[T], head: list[T], passes: Iterable[Callable[[T], Hashable]]) -> Pairs[T]:
    result: Pairs[T] = Pairs()
    for key_of in passes:
        waiting: dict[Hashable, list[T]] = defaultdict(list)
        for item in reversed(head):
            waiting[key_of(item)].append(item)
        taken: set[int] = set()
        left: list[T] = []
        for item in base:
            candidates = waiting.get(key_of(item))
            if candidates:
                partner = candidates.pop()
                taken.add(id(partner))
                result.both.append((item, partner))
            else:
                left.append(item)
        head = [item for item in head if id(item) not in taken]
        base = left
        if not base or not head:
            break
    result.gone.extend(base)
    result.new.extend(head)
    return result


def op_groups(ops: Sequence[Op]) -> list[OpGroup]:
    """Group the ops of a step by module path and class, in order of first appearance."""
    groups: dict[tuple[str, str], list[Op]] = defaultdict(list)
    for op in ops:
        groups[(op.module, op.op_class)].append(op)
    return [
        OpGroup(module, op_class, members[0].layer, tuple(members))
        for (module, op_class), members in groups.items()
    ]


def module_pattern(module: str) -> str:
    """The module path with its layer number as `*`: `model.layers.*.self_attn`."""
    return _LAYER.sub("*", module)


def ops_text(group: OpGroup | None) -> str:
    """What a group does, in words: `bmm ×2, _softmax, clone ×2`; empty for no group."""
    if group is None:
        return ""
    counts: dict[str, int] = {}
    for op in group.ops:
        name = op.name.removeprefix("aten.").removesuffix(".default")
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def _shapes(op: Op) -> Hashable:
    return (
        tuple((tensor.shape, tensor.dtype) for tensor in op.inputs),
        tuple((tensor.shape, tensor.dtype) for tensor in op.outputs),
    )


def _group_shapes(group: OpGroup) -> Hashable:
    return tuple(_shapes(op) for op in group.ops)


def _path(row: KernelRow) -> tuple[str, ...]:
    """NVTX path without numbers, so that op ids and layers do not keep rows apart."""
    return _without_digits(row.nvtx)


@lru_cache(maxsize=65536)
def _without_digits(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_DIGITS.sub("#", part) for part in path)


def _total_bytes(row: KernelRow) -> Hashable:
    """DRAM bytes to about 1 %: two kernels that move the same fall into one bucket mostly."""
    value = row.dram_bytes.value
    if not value or value <= 0:
        return None
    return float(f"{value * row.count:.2g}")


def _is_named(row: KernelRow) -> bool:
    """The row says where it belongs: a substitution can be told from an unrelated kernel."""
    return row.op_class != "other" or bool(row.nvtx)
