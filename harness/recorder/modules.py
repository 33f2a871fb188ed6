"""Follow a model's modules as they run, and know its weights and caches by their storage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rooflens.harness.recorder.storage import StorageIds, View, view_of

CACHE_ARGUMENTS = (
    "cache", "past_key_values", "past_key_value", "kv_cache", "kv_caches", "layer_past", "past",
)  # fmt: skip
"""Names under which models take a key/value cache."""

_MAX_DEPTH = 6


class ModuleTracker:
    """Know the module path of every call, from forward hooks on all modules of one model.

    Without a model, the first module that is called becomes the model. Any further module that is
    called outside it (a sampler, a draft model) is followed under its class name.
    """

    def __init__(self, ids: StorageIds, model: nn.Module | None) -> None:
        self.stack: list[tuple[str, str]] = []
        self.cache_ids: set[int] = set()
        self._ids = ids
        self._model = model
        self._root_class = ""
        self._known: set[int] = set()
        self._holders: dict[int, object] = {}
        self._handles: list[Any] = []
        self._weights: dict[int, list[tuple[str, View]]] = defaultdict(list)

    def start(self) -> None:
        """Attach the hooks."""
        if self._model is not None:
            self._attach(self._model, "")
        self._handles.append(register_module_forward_pre_hook(self._another_module))

    def stop(self) -> None:
        """Remove every hook again, and see which tensors the caches have got meanwhile."""
        for holder in tuple(self._holders.values()):
            self.note_cache(holder)
        self._holders.clear()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.stack.clear()

    def current(self) -> tuple[str, str]:
        """Path and class name of the innermost running module."""
        return self.stack[-1] if self.stack else ("", self._root_class)

    def weight_name(self, storage_id: int, tensor: torch.Tensor, path: str) -> str:
        """The parameter or buffer that a tensor is (part of), or empty.

        Several parameters may share one storage (tied embeddings, layers that share weights, fused
        arenas): the one that covers the view wins, then the one nearest to the running module.
        """
        candidates = self._weights.get(storage_id)
        if not candidates:
            return ""
        if len(candidates) == 1:
            return candidates[0][0]
        view = view_of(tensor)
        covering = [
            name
            for name, whole in candidates
            if whole.start <= view.start and view.start + view.span <= whole.start + whole.span
        ]
        names = covering or [name for name, _ in candidates]
        return max(names, key=lambda name: _shared_length(f"{path}.", name))

    def is_weight(self, storage_id: int) -> bool:
        """Whether the storage holds a parameter or buffer of the model."""
        return storage_id in self._weights

    def _attach(self, model: nn.Module, prefix: str) -> None:
        if not prefix:
            self._root_class = type(model).__name__
        for name, tensor in (*_named(model, "named_parameters"), *_named(model, "named_buffers")):
            for part in _plain_tensors(tensor):
                self._weights[self._ids.id_of(part)].append((_join(prefix, name), view_of(part)))
        for path, module in model.named_modules():
            self._known.add(id(module))
            enter = self._entering(_join(prefix, path), type(module).__name__)
            self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._left, always_call=True))

    def _entering(self, path: str, class_name: str) -> Any:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.stack.append((path, class_name))
            self._look_at(args, kwargs)

        return enter

    def _left(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.stack:
            self.stack.pop()

    def _another_module(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.stack or id(module) in self._known:
            return
        prefix = "" if self._model is None else type(module).__name__
        if self._model is None:
            self._model = module
        self._attach(module, prefix)
        # The hooks of this call were collected before ours were added: enter by hand, and leave
        # when the call ends (the forward hook is looked up then).
        self.stack.append((prefix, type(module).__name__))
        self._look_at(args, {})

    def _look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in kwargs.items():
            if name in CACHE_ARGUMENTS:
                self.note_cache(value)
        for value in args:
            if hasattr(value, "get_seq_length") or hasattr(value, "key_cache"):
                self.note_cache(value)

    def note_cache(self, holder: object) -> None:
        """Remember every tensor inside a cache object as key/value cache."""
        self._holders[id(holder)] = holder
        for tensor in tensors_in(holder):
            if tensor.ndim >= 3 and not self.is_weight(self._ids.id_of(tensor)):
                self.cache_ids.add(self._ids.id_of(tensor))


def _plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that hold a parameter's data: itself, or those inside a tensor subclass."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten()[0]:
        yield from _plain_tensors(getattr(tensor, name))


def _join(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path else prefix or path


def _shared_length(path: str, name: str) -> int:
    """Characters that two dotted paths have in common from the start."""
    different = (i for i, (a, b) in enumerate(zip(path, name, strict=False)) if a != b)
    return next(different, min(len(path), len(name)))


def _named(model: nn.Module, method: str) -> Iterable[tuple[str, torch.Tensor]]:
    named: Iterable[tuple[str, torch.Tensor]] = getattr(model, method)(remove_duplicate=False)
    return named


def tensors_in(holder: object, depth: int = 0) -> Iterator[torch.Tensor]:
    """Every tensor in nested lists, tuples, dictionaries and attributes of plain objects."""
    if isinstance(holder, torch.Tensor):
        yield holder
    elif depth >= _MAX_DEPTH or isinstance(holder, (nn.Module, str, int, float, type(None))):
        return
    elif isinstance(holder, dict):
        for value in holder.values():
            yield from tensors_in(value, depth + 1)
    elif isinstance(holder, (list, tuple)):
        for value in holder:
            yield from tensors_in(value, depth + 1)
    elif hasattr(holder, "__dict__"):
        for value in vars(holder).values():
            yield from tensors_in(value, depth + 1)
