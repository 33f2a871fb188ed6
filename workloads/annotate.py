"""NVTX ranges for profilers: step, layer, module and op, in the domain `rooflens`.

    step                                  one range per step, the name of ncu's and nsys's filters
      layer 3                             a decoder layer
        model.layers.3.self_attn.q_proj   a module, by its path
          op 217 aten.addmm               one operator call; 217 is its index among the recorded ops

Light annotation (down to modules) costs a microsecond per range and is what a timeline capture
uses; op ranges need a recorder, and are for counter captures, where each kernel then names its op.
Without a profiler attached, or without the nvtx package, ranges do nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

DOMAIN = "rooflens"
STEP = "step"

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)$")


class Ranges:
    """Pushes and pops ranges of the domain; does nothing where the nvtx package is missing."""

    def __init__(self) -> None:
        try:
            import nvtx
        except ImportError:
            self._push: Callable[[str], Any] | None = None
            self._pop: Callable[[], Any] | None = None
        else:
            self._push, self._pop = _push_and_pop(nvtx)

    @property
    def available(self) -> bool:
        """Whether ranges reach a profiler that listens."""
        return self._push is not None

    def push(self, name: str) -> None:
        """Open a range."""
        if self._push is not None:
            self._push(name)

    def pop(self) -> None:
        """Close the innermost range."""
        if self._pop is not None:
            self._pop()

    @contextlib.contextmanager
    def range(self, name: str) -> Iterator[None]:
        """A range around a block."""
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    def step(self) -> AbstractContextManager[None]:
        """The range around one whole step."""
        return self.range(STEP)

    def op(self, index: int, name: str) -> AbstractContextManager[None]:
        """The range around one operator call, for `Recorder(op_range=ranges.op)`."""
        return self.range(f"op {index} {name}")


def _push_and_pop(nvtx: Any) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Push and pop in our domain, with the cheapest calls that this nvtx package has."""
    domain = nvtx.get_domain(DOMAIN)
    if not hasattr(domain, "push_range"):  # before 0.2.12
        return (
            lambda name: nvtx.push_range(message=name, domain=DOMAIN),
            lambda: nvtx.pop_range(domain=DOMAIN),
        )
    attributes: dict[str, Any] = {}

    def push(name: str) -> None:
        if name not in attributes:
            attributes[name] = domain.get_event_attributes(message=name)
        domain.push_range(attributes[name])

    return push, domain.pop_range


@contextlib.contextmanager
def annotate_modules(model: nn.Module, ranges: Ranges) -> Iterator[None]:
    """Open a range for every module of `model` (and every decoder layer) while the block runs."""
    handles: list[Any] = []
    try:
        for path, module in model.named_modules():
            if path:
                handles += _hook(module, path, ranges)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hook(module: nn.Module, path: str, ranges: Ranges) -> list[Any]:
    layer = _LAYER.search(path)
    name = f"layer {layer[1]}" if layer else path

    def enter(*_: Any) -> None:
        ranges.push(name)

    def leave(*_: Any) -> None:
        ranges.pop()

    return [
        module.register_forward_pre_hook(enter),
        module.register_forward_hook(leave, always_call=True),
    ]
