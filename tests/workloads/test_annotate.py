"""NVTX ranges around steps, layers, modules and ops."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from rooflens.workloads.annotate import Ranges, annotate_modules


class Recorded(Ranges):
    """Ranges that keep what they are told instead of calling NVTX."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[str, ...]] = []
        self.stack: list[str] = []

    def push(self, name: str) -> None:
        self.stack.append(name)
        self.opened.append(tuple(self.stack))

    def pop(self) -> None:
        self.stack.pop()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"proj": nn.Linear(4, 4)}) for _ in range(2)
        )  # fmt: skip
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer["proj"](x)  # type: ignore[index]
        return torch.as_tensor(self.head(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.proj(x))


def test_modules_open_ranges_inside_their_layer_and_step() -> None:
    model = nn.Sequential()
    model.add_module("layers", nn.Sequential(Layer(), Layer()))
    ranges = Recorded()
    with annotate_modules(model, ranges), ranges.step():
        model(torch.zeros(1, 4))
    assert ranges.opened[:4] == [
        ("step",),
        ("step", "layers"),
        ("step", "layers", "layer 0"),
        ("step", "layers", "layer 0", "layers.0.proj"),
    ]
    assert ranges.stack == []


def test_ranges_close_when_a_module_fails() -> None:
    model = Model()
    ranges = Recorded()
    with pytest.raises(RuntimeError), annotate_modules(model, ranges), ranges.step():
        model(torch.zeros(1, 5))
    assert ranges.stack == []
    assert all(not module._forward_hooks for module in model.modules())


def test_op_ranges_name_the_index_and_the_operator() -> None:
    ranges = Recorded()
    with ranges.op(217, "aten.addmm"):
        assert ranges.stack == ["op 217 aten.addmm"]


def test_real_ranges_do_nothing_without_a_profiler() -> None:
    ranges = Ranges()
    with ranges.step(), ranges.range("layer 0"):
        pass
    assert ranges.available


def test_without_the_nvtx_package_ranges_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Any = None
    monkeypatch.setitem(sys.modules, "nvtx", missing)
    ranges = Ranges()
    with ranges.step():
        pass
    assert not ranges.available
