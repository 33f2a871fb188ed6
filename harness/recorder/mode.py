"""The dispatch mode that turns every operator call of a step into one `Op`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rooflens.harness.recorder import accesses as access
from rooflens.harness.recorder.attention import FUSED_NAME, FusedCall, FusedOnMeta, fused_call
from rooflens.harness.recorder.calls import (
    Attribute,
    Call,
    Touched,
    is_contiguous,
    is_expanded,
    plain_arguments,
    unique_bytes,
)
from rooflens.harness.recorder.elementwise import elementwise_flops
from rooflens.harness.recorder.flops import attention_flops, attention_pairs, matrix_flops
from rooflens.harness.recorder.modules import ModuleTracker
from rooflens.harness.recorder.source import calling_line
from rooflens.harness.recorder.storage import StorageIds, view_of
from rooflens.model import Op, Tensor

Role = Literal["weight", "cache", "input", "activation"]
OpRange = Callable[[int, str], AbstractContextManager[object]]
"""Opens an annotation range around a call, given the op id that it will have and its name."""

_CACHE_WRITERS = {"aten.copy_", *access.ROWS_WRITTEN}
_PLAIN = (torch.Tensor, nn.Parameter, FakeTensor)


def record(
    call: Callable[[], object],
    model: nn.Module | None = None,
    *,
    cache: object = None,
    timed: bool = False,
    op_range: OpRange | None = None,
) -> tuple[Op, ...]:
    """Run any torch callable once under `no_grad` and return every operator call it made.

    `model` gives module paths and parameter names (without it, the first module that is called is
    the model); `cache` is anything that holds key/value tensors, where the model is not handed its
    cache by one of the usual names. `timed` also takes the host time of every call, which says how
    long the work took on a CPU only.
    """
    with torch.no_grad(), Recorder(model, cache=cache, timed=timed, op_range=op_range) as recorder:
        call()
    return recorder.ops


class Recorder:
    """Record operator calls inside a `with` block; `ops` holds them afterwards, unclassified."""

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        cache: object = None,
        timed: bool = False,
        op_range: OpRange | None = None,
    ) -> None:
        self._ids = StorageIds()
        self._modules = ModuleTracker(self._ids, model)
        self._modules.note_cache(cache)
        self._timed = timed
        self._op_range = op_range
        self._calls: list[Call] = []
        self._produced: set[int] = set()
        self._stack: contextlib.ExitStack | None = None

    def __enter__(self) -> Recorder:
        with contextlib.ExitStack() as stack:
            self._modules.start()
            stack.callback(self._modules.stop)
            stack.enter_context(FusedOnMeta(self._add_fused))
            stack.enter_context(_Dispatch(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._stack is not None
        self._stack.__exit__(kind, error, trace)

    @property
    def ops(self) -> tuple[Op, ...]:
        """The recorded ops in order; index is the op id that annotation ranges carry."""
        return tuple(self._op(index, call) for index, call in enumerate(self._calls))

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator and record it, unless it is a view or touches no memory."""
        name = access.packet_name(func)
        started = time.perf_counter_ns() if self._timed else 0
        if self._op_range is None:
            output = func(*args, **kwargs)
        else:
            with self._op_range(len(self._calls), name):
                output = func(*args, **kwargs)
        elapsed = float(time.perf_counter_ns() - started) if self._timed else None
        if name in access.NO_MEMORY:
            self._note_produced(func, output)
            return output
        fused = fused_call(name, func, args, kwargs, output)
        if fused is not None:
            self._add_fused(fused, elapsed)
            return output
        self._add(func, name, args, kwargs, output, elapsed)
        return output

    def _note_produced(self, func: Any, output: Any) -> None:
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and "empty" in access.packet_name(func):
                self._produced.add(self._ids.id_of(tensor))

    def _add(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
        elapsed: float | None,
    ) -> None:
        results = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        found = access.accesses(func, args, kwargs, results)
        if found.aliases_only or not (found.mutated or found.created or name in access.READS_BACK):
            return
        written = [tensor for tensor, _ in (*found.mutated, *found.created)]
        flops, modelled = matrix_flops(func, name, args, kwargs, output, written)
        attributes = plain_arguments(func, args, kwargs)
        if modelled:
            attributes["modelled" if flops else "flops_unknown"] = True
        self._append(
            name, found, flops,
            0 if flops else elementwise_flops(name, args, output, written), elapsed, attributes,
        )  # fmt: skip

    def _add_fused(self, call: FusedCall, elapsed: float | None = None) -> None:
        tensors = [call.query, call.key, call.value]
        if call.mask is not None:
            tensors.append(call.mask)
        pairs = attention_pairs(
            call.query.shape[-2], call.key.shape[-2], call.causal,
            bottom_right=call.bottom_right, window=call.window,
        )  # fmt: skip
        heads = call.query.numel() // max(1, call.query.shape[-2] * call.query.shape[-1])
        attributes: dict[str, Attribute] = {
            "is_causal": call.causal, "enable_gqa": call.grouped, "backend": call.backend,
        }  # fmt: skip
        if call.scale is not None:
            attributes["scale"] = float(call.scale)
        if call.window is not None:
            attributes["window"] = call.window
        if call.modelled:
            attributes["modelled"] = True
        self._append(
            FUSED_NAME,
            access.Accesses(
                reads=[(tensor, view_of(tensor).touched) for tensor in tensors],
                created=[(call.output, view_of(call.output).touched)],
            ),
            attention_flops(
                tuple(call.query.shape), tuple(call.key.shape), tuple(call.value.shape), pairs
            ),
            5 * heads * pairs,
            elapsed,
            attributes,
        )

    def _append(
        self,
        name: str,
        found: access.Accesses,
        flops: int,
        arithmetic: int,
        elapsed: float | None,
        attributes: dict[str, Attribute],
    ) -> None:
        path, class_name = self._modules.current()
        inputs = [self._touched(tensor, size, path) for tensor, size in found.reads]
        self._produced.update(self._ids.id_of(tensor) for tensor, _ in found.created)
        outputs = [
            self._touched(tensor, size, path) for tensor, size in (*found.mutated, *found.created)
        ]
        self._note_caches(name, inputs, outputs)
        self._calls.append(
            Call(
                name, path, class_name, inputs, outputs, flops, arithmetic, elapsed,
                calling_line(2), attributes,
            )
        )  # fmt: skip

    def _touched(self, tensor: torch.Tensor, size: int, path: str) -> Touched:
        storage_id = self._ids.id_of(tensor)
        view = view_of(tensor)
        shape = tuple(int(length) for length in tensor.shape)
        return Touched(
            id=storage_id,
            view=view,
            shape=shape,
            dtype=str(tensor.dtype).removeprefix("torch."),
            bytes=size,
            weight_name=self._modules.weight_name(storage_id, tensor, path),
            contiguous=is_contiguous(tensor),
            expanded=is_expanded(tensor),
            fresh=storage_id in self._produced,
        )

    def _note_caches(self, name: str, inputs: list[Touched], outputs: list[Touched]) -> None:
        """Recognise a cache that nobody named: old memory that a new tensor is appended to."""
        caches = self._modules.cache_ids
        if name == "aten.cat":
            old = [t for t in inputs if not t.fresh and not t.weight_name and len(t.shape) >= 3]
            if any(t.id in caches for t in inputs):
                caches.update(t.id for t in outputs)
            elif old and any(t.fresh for t in inputs) and len(inputs) == 2:
                caches.update((*(t.id for t in old), *(t.id for t in outputs)))
            elif any(t.shape == (0,) for t in inputs) and len(inputs) == 2:
                caches.update(t.id for t in outputs)  # the first append to an empty DynamicCache
        elif name in _CACHE_WRITERS or (not name.startswith("aten.") and "cache" in name):
            caches.update(
                t.id for t in outputs if not t.fresh and not t.weight_name and len(t.shape) >= 3
            )

    def _op(self, index: int, call: Call) -> Op:
        return Op(
            index=index,
            name=call.name,
            module=call.module,
            module_class=call.module_class,
            inputs=tuple(self._tensor(touched) for touched in call.inputs),
            outputs=tuple(self._tensor(touched) for touched in call.outputs),
            bytes_in=unique_bytes(call.inputs),
            bytes_out=unique_bytes(call.outputs),
            flops=call.flops,
            elementwise_flops=call.elementwise_flops,
            time_ns=call.time_ns,
            source_line=call.source_line,
            attributes=call.attributes,
        )

    def _tensor(self, touched: Touched) -> Tensor:
        role: Role = "activation" if touched.fresh else "input"
        if touched.weight_name:
            role = "weight"
        elif touched.id in self._modules.cache_ids:
            role = "cache"
        return Tensor(
            id=touched.id,
            shape=touched.shape,
            dtype=touched.dtype,
            bytes=touched.bytes,
            role=role,
            name=touched.weight_name,
            expanded=touched.expanded,
            contiguous=touched.contiguous,
        )


class _Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if any(kind not in _PLAIN for kind in types):
            # A tensor subclass (quantised weights, DTensor) takes the call apart itself; what it
            # then asks for comes back here with plain tensors.
            return NotImplemented
        if _is_composite(func):
            # Only inference_mode hands composites (linear, matmul) to a mode undivided, which
            # would hide their products; take them apart here.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        return self._recorder.run(func, args, kwargs)


@lru_cache(maxsize=4096)
def _is_composite(func: Any) -> bool:
    if not isinstance(func, torch._ops.OpOverload):
        return False
    name = func._schema.name + (
        f".{func._schema.overload_name}" if func._schema.overload_name else ""
    )
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))
