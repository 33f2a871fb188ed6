"""Which memory a tensor is, and how much of that memory a view of it touches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class StorageIds:
    """Give every storage a small id that is never used again, not even after the memory is freed.

    A weak reference keeps the storage object (not its data) alive, so its address stays taken and a
    new storage can never be mistaken for a freed one. Works on meta, where all data pointers are 0.
    """

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        self._references: list[StorageWeakRef] = []
        self._without_storage: dict[int, tuple[int, torch.Tensor]] = {}

    def id_of(self, tensor: torch.Tensor) -> int:
        """The id of the tensor's storage; equal ids share memory."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return self._opaque(tensor)
        key = storage._cdata
        known = self._ids.get(key)
        if known is not None:
            return known
        self._references.append(StorageWeakRef(storage))  # type: ignore[no-untyped-call]
        self._ids[key] = len(self._ids) + len(self._without_storage)
        return self._ids[key]

    def _opaque(self, tensor: torch.Tensor) -> int:
        # Sparse and wrapper tensors have no storage of their own: the object is the identity, and
        # it is kept alive so that its `id()` stays taken.
        entry = self._without_storage.get(id(tensor))
        if entry is None:
            entry = (len(self._ids) + len(self._without_storage), tensor)
            self._without_storage[id(tensor)] = entry
        return entry[0]


@dataclass(frozen=True)
class View:
    """A strided window on a storage, in bytes: what one operand touches."""

    start: int
    span: int
    """From the first to one past the last byte."""
    touched: int
    """Distinct bytes inside the span that the view can reach."""
    geometry: tuple[int, ...] = ()
    """Lengths and strides of the dimensions that move; equal geometry means the same bytes."""


def view_of(tensor: torch.Tensor) -> View:
    """Describe the memory behind a tensor; expanded dimensions (stride 0) count once."""
    itemsize = tensor.element_size()
    if tensor.numel() == 0:
        return View(0, 0, 0)
    try:
        strides, offset = tensor.stride(), int(tensor.storage_offset())
    except (NotImplementedError, RuntimeError):
        size = tensor.numel() * itemsize
        return View(0, size, size, (tensor.numel(), itemsize))
    if tensor.is_contiguous():
        size = tensor.numel() * itemsize
        return View(offset * itemsize, size, size, (itemsize, tensor.numel()))
    dims = [(n, abs(s)) for n, s in zip(tensor.shape, strides, strict=True) if n > 1 and s]
    span = 1 + sum((length - 1) * stride for length, stride in dims)
    distinct = min(math.prod(length for length, _ in dims), span)
    geometry = (itemsize, *(number for pair in sorted(dims) for number in pair))
    return View(offset * itemsize, span * itemsize, distinct * itemsize, geometry)


def union_bytes(views: Iterable[View]) -> int:
    """Distinct bytes of one storage that several views touch together.

    Equal views count once and disjoint ones add up. Interleaved views (the two halves of a fused
    gate_up output) add up as well, and never to more than the memory that they span together.
    """
    distinct = sorted(set(views), key=lambda view: view.start)
    total, group, end = 0, 0, 0
    group_start = 0
    for view in distinct:
        if view.start >= end:
            total += min(group, end - group_start)
            group, group_start = 0, view.start
        group += view.touched
        end = max(end, view.start + view.span)
    return total + min(group, end - group_start)
