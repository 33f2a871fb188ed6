"""One recorded call while the recording runs: operands by storage, before roles are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from rooflens.harness.recorder.storage import View, union_bytes

Attribute = str | int | float | bool


@dataclass
class Touched:
    """One operand before its role is known (a storage may turn out to be a cache later)."""

    id: int
    view: View
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    weight_name: str
    contiguous: bool
    expanded: bool
    fresh: bool


@dataclass
class Call:
    """What one op was and touched."""

    name: str
    module: str
    module_class: str
    inputs: list[Touched]
    outputs: list[Touched]
    flops: int
    elementwise_flops: int
    time_ns: float | None
    source_line: str
    attributes: dict[str, Attribute]


def unique_bytes(operands: Iterable[Touched]) -> int:
    """Distinct bytes over the operands; views of one storage are united, not added."""
    by_storage: dict[int, list[Touched]] = {}
    for operand in operands:
        by_storage.setdefault(operand.id, []).append(operand)
    total = 0
    for group in by_storage.values():
        total += _union(group) if len(group) > 1 else group[0].bytes
    return total


def _union(group: list[Touched]) -> int:
    partial = [t for t in group if t.bytes < t.view.touched]
    if partial:
        return max(t.bytes for t in group)
    return union_bytes(t.view for t in group)


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether the tensor lies in memory row by row, without gaps (True where it has no layout)."""
    try:
        return tensor.is_contiguous()
    except (NotImplementedError, RuntimeError):
        return True


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether some dimension repeats the same memory (stride 0)."""
    try:
        strides = tensor.stride()
    except (NotImplementedError, RuntimeError):
        return False
    return any(s == 0 and n > 1 for n, s in zip(tensor.shape, strides, strict=True))


def plain_arguments(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Attribute]:
    """Plain arguments that differ from their defaults: dim, dtype, scale, alpha, other ..."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return {}
    found: dict[str, Attribute] = {}
    names = {argument.name: argument for argument in schema.arguments}
    given = dict(zip(names, args, strict=False)) | kwargs
    for name, value in given.items():
        if name in names and names[name].has_default_value() and names[name].default_value == value:
            continue
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
        elif isinstance(value, (torch.dtype, torch.memory_format)):
            found[name] = str(value).removeprefix("torch.")
        elif isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
            found[name] = ",".join(map(str, value))
    return found
