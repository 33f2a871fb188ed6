"""Which tensors an operator reads and writes, and how many bytes of each.

The rule is the operator's own schema: every tensor argument is read, every new output is written,
an argument marked as mutated is read and written (`add_`), or only written (`out=`, `copy_`).
What the schema cannot say is in the tables below: operators that read only some rows of a table,
write only some rows of a destination, or use an argument for its shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from rooflens.harness.recorder.storage import view_of

ROWS_READ = {  # only as many elements of this argument are read as come out
    "aten.embedding": 0, "aten.index_select": 0, "aten.gather": 0, "aten.index": 0, "aten.take": 0,
    "aten._unsafe_index": 0, "aten.take_along_dim": 0,
}  # fmt: skip

BAGS = {"aten._embedding_bag", "aten._embedding_bag_forward_only", "aten.embedding_bag"}
"""These sum several rows of their first argument per output row."""

SCALED_ADDENDS = {"aten.addmm", "aten.baddbmm", "aten.addbmm", "aten.addmv"}
"""With beta=0 these ignore the memory of their first argument."""

GROUPED = {"aten._grouped_mm", "aten._scaled_grouped_mm"}
"""These multiply rows by the matrix of their expert: they read no more matrices than rows."""

ROWS_WRITTEN = {  # only as many elements of self are written as this argument has
    "aten.index_copy_": 3, "aten.scatter_": 2, "aten.scatter_add_": 2, "aten.index_add_": 3,
    "aten.scatter_reduce_": 2, "aten.index_fill_": None, "aten.index_put_": None,
    "aten._index_put_impl_": None, "aten._unsafe_index_put_": None,
}  # fmt: skip

ACCUMULATES = {"aten.scatter_add_", "aten.index_add_", "aten.scatter_reduce_"}
"""Row writers that read the rows first."""

WRITE_ONLY = {
    "aten.copy_", "aten.fill_", "aten.zero_", "aten.normal_", "aten.uniform_", "aten.random_",
    "aten.exponential_", "aten.bernoulli_", "aten.log_normal_", "aten.geometric_", "aten.cauchy_",
}  # fmt: skip

SHAPE_ONLY = {
    "aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.rand_like", "aten.randn_like",
    "aten.randint_like", "aten.new_zeros", "aten.new_ones", "aten.new_full",
}  # fmt: skip

NO_MEMORY = {
    "aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.resize_",
    "aten.new_empty_strided", "aten.lift_fresh", "aten.lift", "aten.set_", "aten.detach_",
    "aten._assert_async", "aten._assert_tensor_metadata", "aten.sym_size", "aten.sym_stride",
    "aten.sym_numel", "aten.is_same_size", "aten.unsqueeze_", "aten.squeeze_", "aten.transpose_",
    "aten.t_", "aten.as_strided_", "aten.resize_as_", "aten.record_stream",
}  # fmt: skip
"""Calls that touch no element."""

READS_BACK = {"aten._local_scalar_dense", "aten.equal", "aten.is_nonzero"}
"""Calls that return no tensor and still read memory (and stop the host until it is there)."""

OUTPUT_NAMES = ("out", "output", "result", "dst")
"""Names of mutated arguments of custom operators that are only written."""


@dataclass
class Accesses:
    """Tensors with the bytes of each that one call reads and writes."""

    reads: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    mutated: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    created: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    aliases_only: bool = False
    """Every output is a view of an input and nothing is written: no op, only a new shape."""


@dataclass(frozen=True)
class _Argument:
    name: str
    mutated: bool
    keyword_only: bool


@lru_cache(maxsize=4096)
def _schema_of(func: Any) -> tuple[_Argument, ...]:
    schema = getattr(func, "_schema", None)
    if schema is None:
        return ()
    return tuple(
        _Argument(
            argument.name,
            bool(argument.alias_info is not None and argument.alias_info.is_write),
            bool(argument.kwarg_only),
        )
        for argument in schema.arguments
    )


@lru_cache(maxsize=4096)
def packet_name(func: Any) -> str:
    """`aten.mm` for the overload `aten.mm.default`; a higher-order operator's own name."""
    packet = getattr(func, "overloadpacket", None)
    return str(packet) if packet is not None else str(func)


def accesses(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[torch.Tensor]
) -> Accesses:
    """Read and written tensors of one finished call, with the bytes touched of each."""
    name = packet_name(func)
    found = Accesses()
    inputs: list[torch.Tensor] = []
    for position, (argument, value) in enumerate(_bound(func, args, kwargs)):
        for tensor in _tensors(value):
            inputs.append(tensor)
            if not argument.mutated:
                ignored = position == 0 and name in SCALED_ADDENDS and kwargs.get("beta", 1) == 0
                if name not in SHAPE_ONLY and not ignored:
                    size = _bytes_read(name, position, tensor, args, outputs)
                    found.reads.append((tensor, size))
                continue
            _add_mutated(name, argument, tensor, args, found)
    known = {_storage_key(tensor) for tensor in inputs}
    fresh = [tensor for tensor in outputs if _storage_key(tensor) not in known]
    found.created.extend((tensor, view_of(tensor).touched) for tensor in fresh)
    found.aliases_only = bool(outputs) and not fresh and not found.mutated
    return found


def _bound(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[_Argument, Any]]:
    schema = _schema_of(func)
    for position, value in enumerate(args):
        argument = schema[position] if position < len(schema) else _Argument("", False, False)
        yield argument, value
    by_name = {argument.name: argument for argument in schema}
    for key, value in kwargs.items():
        yield by_name.get(key, _Argument(key, False, True)), value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _storage_key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)


def _bytes_read(
    name: str,
    position: int,
    tensor: torch.Tensor,
    args: tuple[Any, ...],
    outputs: list[torch.Tensor],
) -> int:
    touched = view_of(tensor).touched
    if ROWS_READ.get(name) == position and outputs:
        return min(touched, outputs[0].numel() * tensor.element_size())
    if name in GROUPED and position == 1 and args[0].ndim == 2 and tensor.ndim == 3:
        matrices = tensor.shape[0]
        return touched // max(1, matrices) * min(matrices, int(args[0].shape[0]))
    if name in BAGS and position == 0:
        return min(touched, int(args[1].numel()) * tensor.shape[-1] * tensor.element_size())
    return touched


def _add_mutated(
    name: str, argument: _Argument, tensor: torch.Tensor, args: tuple[Any, ...], found: Accesses
) -> None:
    whole = view_of(tensor).touched
    written = whole
    reads_first = not (argument.keyword_only or name in WRITE_ONLY)
    if name in ROWS_WRITTEN:
        written = min(whole, _elements_written(name, args) * tensor.element_size())
        reads_first = name in ACCUMULATES or (name.startswith("aten.") and _accumulate(name, args))
    elif not name.startswith("aten.") and argument.name in OUTPUT_NAMES:
        reads_first = False
    elif not name.startswith("aten.") and "cache" in argument.name:
        # A custom operator that appends to a cache writes what it was given, not the whole cache.
        given = [view_of(t).touched for v in args for t in _tensors(v) if t.dtype == tensor.dtype]
        written = min(whole, min(given, default=whole))
        reads_first = False
    if reads_first:
        found.reads.append((tensor, written))
    found.mutated.append((tensor, written))


def _accumulate(name: str, args: tuple[Any, ...]) -> bool:
    return "index_put" in name and len(args) > 3 and args[3] is True


def _elements_written(name: str, args: tuple[Any, ...]) -> int:
    position = ROWS_WRITTEN[name]
    if position is not None and len(args) > position:
        source = args[position]
        if isinstance(source, torch.Tensor):
            return source.numel()
    destination = args[0]
    if name == "aten.index_fill_":
        rows = args[2].numel()
        return int(destination.numel() // max(1, destination.shape[args[1]]) * rows)
    indices = [index for index in args[1] if isinstance(index, torch.Tensor)]
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        return int(max(destination.numel(), 1))
    shapes = [tuple(index.shape) for index in indices]
    picked = math.prod(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    others = [
        length
        for axis, length in enumerate(destination.shape)
        if axis >= len(args[1]) or args[1][axis] is None
    ]
    return int(picked * math.prod(others))
