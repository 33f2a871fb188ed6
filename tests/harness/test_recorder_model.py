"""Where in the model an op is, and whose memory it touches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rooflens.harness.recorder import Recorder, record
from rooflens.model import Op


class Block(nn.Module):
    """A linear through its module, and one through its weight alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.bare = nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.inner(x), self.bare.weight)


class Stack(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def weights_of(op: Op) -> list[str]:
    return [tensor.name for tensor in op.inputs if tensor.role == "weight"]


def test_ops_know_their_module_and_their_weights() -> None:
    model = Stack()
    ops = record(lambda: model(torch.zeros(3, 8)), model)
    products = [op for op in ops if op.flops]
    assert [op.module for op in products] == [
        "layers.0.inner", "layers.0", "layers.1.inner", "layers.1",
    ]  # fmt: skip
    assert products[0].module_class == "Linear"
    assert products[1].module_class == "Block"
    assert weights_of(products[0]) == ["layers.0.inner.bias", "layers.0.inner.weight"]
    assert weights_of(products[3]) == ["layers.1.bare.weight"]


def test_without_a_model_the_first_module_that_is_called_is_the_model() -> None:
    model = Stack()
    with_model = record(lambda: model(torch.zeros(3, 8)), model)
    without = record(lambda: model(torch.zeros(3, 8)))
    assert [(op.name, op.module) for op in without] == [(op.name, op.module) for op in with_model]
    assert weights_of(without[-1]) == ["layers.1.bare.weight"]


def test_a_second_model_is_followed_under_its_class_name() -> None:
    class Sampler(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, logits: torch.Tensor) -> torch.Tensor:
            return (logits + self.bias).argmax(-1)

    model, sampler, x = Stack(), Sampler(), torch.zeros(3, 8)
    for known in (model, None):
        ops = record(lambda: sampler(model(x)), known)
        assert [op.module for op in ops[-2:]] == ["Sampler", "Sampler"]
        assert weights_of(ops[-2]) == ["Sampler.bias"]
        assert ops[0].module == "layers.0.inner"
    assert not sampler._forward_pre_hooks


def test_layers_that_share_storage_keep_their_own_names() -> None:
    model = Stack()
    for layer in list(model.layers)[1:]:
        layer.load_state_dict(model.layers[0].state_dict(), assign=True)
    ops = [op for op in record(lambda: model(torch.zeros(3, 8)), model) if op.flops]
    assert weights_of(ops[1]) == ["layers.0.bare.weight"]
    assert weights_of(ops[3]) == ["layers.1.bare.weight"]
    assert ops[1].inputs[1].id == ops[3].inputs[1].id


def test_parts_of_one_arena_are_told_apart_by_where_they_lie() -> None:
    arena = torch.zeros(2, 8, 8)
    model = Block()
    model.inner = nn.Linear(8, 8, bias=False)
    model.inner.weight = nn.Parameter(arena[0])
    model.bare.weight = nn.Parameter(arena[1])
    ops = record(lambda: model(torch.zeros(3, 8)), model)
    assert [weights_of(op) for op in ops if op.flops] == [["inner.weight"], ["bare.weight"]]


def test_roles_of_inputs_activations_and_weights() -> None:
    model, x = nn.Linear(8, 8, bias=False), torch.zeros(3, 8)
    first, second = record(lambda: F.relu(model(x)), model)
    assert [tensor.role for tensor in first.inputs] == ["input", "weight"]
    assert [tensor.role for tensor in second.inputs] == ["activation"]
    assert first.outputs[0].role == "activation"


def test_a_tuple_of_past_keys_is_recognised_as_cache() -> None:
    class Legacy(nn.Module):
        def forward(
            self, x: torch.Tensor, past_key_values: tuple[tuple[torch.Tensor, torch.Tensor], ...]
        ) -> torch.Tensor:
            return torch.cat((past_key_values[0][0], x), dim=2)

    past = ((torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 4)),)
    model, new = Legacy(), torch.ones(1, 2, 1, 4)
    (cat,) = record(lambda: model(new, past_key_values=past), model)
    assert [tensor.role for tensor in cat.inputs] == ["cache", "input"]
    assert cat.outputs[0].role == "cache"


def test_an_unnamed_buffer_that_is_appended_to_is_a_cache() -> None:
    keys, new = torch.zeros(1, 2, 16, 4), torch.ones(1, 2, 1, 4)
    write, read = record(lambda: (keys[:, :, 3:4].copy_(new * 2), keys[:, :, :4] + 1))[1:]
    assert write.outputs[0].role == "cache"
    assert read.inputs[0].role == "cache"
    assert write.outputs[0].bytes == 2 * 4 * 4


def test_one_planted_copy_costs_exactly_its_bytes() -> None:
    class Copying(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(self.inner(x).t().contiguous().t(), self.bare.weight)

    torch.manual_seed(0)
    plain, copying = Block(), Copying()
    before = record(lambda: plain(torch.zeros(3, 8)), plain)
    after = record(lambda: copying(torch.zeros(3, 8)), copying)
    assert sum(op.bytes_in + op.bytes_out for op in after) - sum(
        op.bytes_in + op.bytes_out for op in before
    ) == 2 * (3 * 8 * 4)
    (extra,) = [op for op in after if op.name == "aten.clone"]
    assert "in forward" in extra.source_line


def test_source_line_is_the_innermost_line_outside_torch() -> None:
    model = Stack()
    ops = record(lambda: model(torch.zeros(3, 8)), model)
    products = [op for op in ops if op.flops]
    assert products[0].source_line.endswith("in forward")
    assert "test_recorder_model.py:" in products[0].source_line
    assert not any("/home/" in op.source_line or op.source_line[:1] == "/" for op in ops)
    lines = {op.source_line.split(":")[0].rsplit("/", 1)[-1] for op in ops}
    assert lines == {"test_recorder_model.py"}


def test_recording_leaves_the_model_as_it_was() -> None:
    model = Stack()
    with pytest.raises(RuntimeError):
        record(lambda: model(torch.zeros(3, 9)), model)
    for module in model.modules():
        assert not module._forward_pre_hooks
        assert not module._forward_hooks
    x = torch.zeros(3, 8)
    assert len(record(lambda: model(x), model)) == 4


def test_inference_mode_inside_the_call_hides_nothing() -> None:
    model = Stack()

    def under_inference_mode() -> None:
        with torch.inference_mode():
            model(torch.zeros(2, 3, 8))

    hidden = record(under_inference_mode, model)
    plain = record(lambda: model(torch.zeros(2, 3, 8)), model)
    assert sum(op.flops for op in plain) == 4 * 2 * 6 * 8 * 8
    assert [(op.name, op.bytes_in, op.bytes_out, op.flops) for op in hidden] == [
        (op.name, op.bytes_in, op.bytes_out, op.flops) for op in plain
    ]


class Packed(torch.Tensor):
    """A weight kept as int8, unpacked by every operator that reads it (as torchao does)."""

    data8: torch.Tensor

    @staticmethod
    def __new__(cls, data8: torch.Tensor) -> Packed:
        return torch.Tensor._make_wrapper_subclass(cls, data8.shape, dtype=torch.float32)

    def __init__(self, data8: torch.Tensor) -> None:
        self.data8 = data8

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data8"], None

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        plain = [a.data8.to(torch.float32) if isinstance(a, Packed) else a for a in args]
        return func(*plain, **(kwargs or {}))


def test_tensor_subclasses_are_counted_by_the_memory_inside() -> None:
    model = nn.Linear(8, 16, bias=False)
    model.weight = nn.Parameter(Packed(torch.ones(16, 8, dtype=torch.int8)), requires_grad=False)
    x = torch.zeros(3, 8)
    ops = record(lambda: model(x), model)
    assert [op.name for op in ops] == ["aten._to_copy", "aten.mm"]
    assert (ops[0].bytes_in, ops[0].bytes_out) == (16 * 8, 16 * 8 * 4)
    assert weights_of(ops[0]) == ["weight"]


def test_op_ranges_carry_the_index_of_the_op() -> None:
    opened: list[tuple[int, str]] = []

    class Range:
        def __init__(self, index: int, name: str) -> None:
            opened.append((index, name))

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    model = Block()
    with torch.no_grad(), Recorder(model, op_range=Range) as recorder:
        model(torch.zeros(3, 8))
    for op in recorder.ops:
        assert (op.index, op.name) in opened


def test_host_times_are_taken_only_when_asked_for() -> None:
    model = Block()
    timed = record(lambda: model(torch.zeros(3, 8)), model, timed=True)
    assert all(op.time_ns is not None and op.time_ns > 0 for op in timed)
    assert all(op.time_ns is None for op in record(lambda: model(torch.zeros(3, 8)), model))
