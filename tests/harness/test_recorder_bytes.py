"""What the recorder counts as read and written: storage touched, not shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from rooflens.harness.recorder import record
from rooflens.model import Op

ROW = 16 * 4
"""Bytes of a row of 16 float32 numbers."""


def ops_of(call: Callable[[], object]) -> dict[str, Op]:
    """Recorded ops by name (each name once)."""
    ops = record(call)
    assert len({op.name for op in ops}) == len(ops)
    return {op.name: op for op in ops}


def test_views_are_no_ops() -> None:
    x = torch.zeros(4, 16)
    recorded = record(
        lambda: (
            x.view(16, 4), x.t(), x[1:], x.unsqueeze(0).expand(3, 4, 16), x.chunk(2), x.detach(),
            x.reshape(64), x.contiguous(), x.to(torch.float32), torch.empty(9, 9),
        )
    )  # fmt: skip
    assert recorded == ()


def test_reshape_of_a_transposed_tensor_is_a_copy() -> None:
    x = torch.zeros(4, 16)
    copy = ops_of(lambda: x.t().reshape(64))["aten.clone"]
    assert (copy.bytes_in, copy.bytes_out) == (4 * ROW, 4 * ROW)


def test_expanded_input_counts_the_storage_it_touches() -> None:
    x = torch.zeros(1, 16).expand(7, 16)
    copy = ops_of(lambda: x.contiguous())["aten.clone"]
    assert (copy.bytes_in, copy.bytes_out) == (ROW, 7 * ROW)
    assert copy.inputs[0].expanded
    assert copy.inputs[0].bytes == ROW
    assert not copy.outputs[0].expanded


def test_strided_input_counts_its_elements() -> None:
    x = torch.zeros(8, 16)
    add = ops_of(lambda: x[:, ::4] + 1)["aten.add"]
    assert add.bytes_in == 8 * 4 * 4
    assert not add.inputs[0].contiguous


def test_overlapping_windows_count_the_memory_once() -> None:
    x = torch.zeros(20)
    add = ops_of(lambda: x.unfold(0, 5, 1) + 1)["aten.add"]
    assert add.bytes_in == 20 * 4
    assert add.bytes_out == 16 * 5 * 4


def test_a_tensor_read_twice_counts_once() -> None:
    x = torch.zeros(4, 16)
    assert ops_of(lambda: x * x)["aten.mul"].bytes_in == 4 * ROW
    assert ops_of(lambda: torch.cat((x, x)))["aten.cat"].bytes_in == 4 * ROW


def test_two_halves_of_one_storage_count_both() -> None:
    fused = torch.zeros(4, 32)
    gate, up = fused.chunk(2, dim=-1)
    multiply = ops_of(lambda: gate * up)["aten.mul"]
    assert multiply.inputs[0].id == multiply.inputs[1].id
    assert multiply.bytes_in == 4 * 32 * 4


def test_in_place_ops_read_and_write_their_tensor() -> None:
    x, y = torch.zeros(4, 16), torch.ones(4, 16)
    add = ops_of(lambda: x.add_(y))["aten.add_"]
    assert (add.bytes_in, add.bytes_out) == (8 * ROW, 4 * ROW)
    assert add.outputs[0].id == add.inputs[0].id


def test_out_is_written_and_not_read() -> None:
    x, out = torch.zeros(4, 16), torch.zeros(4, 16)
    add = ops_of(lambda: torch.add(x, 1, out=out))["aten.add"]
    assert (add.bytes_in, add.bytes_out) == (4 * ROW, 4 * ROW)
    assert [tensor.id for tensor in add.outputs] != [tensor.id for tensor in add.inputs]


def test_copy_and_fill_only_write() -> None:
    x, y = torch.zeros(4, 16), torch.ones(4, 16)
    copy = ops_of(lambda: x.copy_(y))["aten.copy_"]
    assert (copy.bytes_in, copy.bytes_out) == (4 * ROW, 4 * ROW)
    assert ops_of(lambda: x.zero_())["aten.zero_"].bytes_in == 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda table, ids: F.embedding(ids, table), "aten.embedding"),
        (lambda table, ids: table[ids], "aten.index"),
        (lambda table, ids: table.index_select(0, ids), "aten.index_select"),
    ],
)
def test_lookups_read_rows_and_not_the_table(
    call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], name: str
) -> None:
    table, ids = torch.zeros(1000, 16), torch.tensor([3, 9, 3])
    lookup = ops_of(lambda: call(table, ids))[name]
    assert lookup.bytes_in == 3 * 8 + 3 * ROW
    assert lookup.bytes_out == 3 * ROW


def test_gather_and_bags_read_what_they_pick() -> None:
    table = torch.zeros(1000, 16)
    picked = ops_of(lambda: table.gather(0, torch.zeros(2, 16, dtype=torch.long)))
    assert picked["aten.gather"].bytes_in == 2 * 16 * (8 + 4)
    bag = record(lambda: F.embedding_bag(torch.tensor([[1, 2, 3]]), table, mode="sum"))
    rows = next(op for op in bag if "embedding_bag" in op.name).inputs[0]
    assert rows.bytes == 3 * ROW


def test_a_lookup_never_reads_more_than_the_table() -> None:
    table, ids = torch.zeros(2, 16), torch.zeros(100, dtype=torch.long)
    assert ops_of(lambda: F.embedding(ids, table))["aten.embedding"].inputs[0].bytes == 2 * ROW


@pytest.mark.parametrize(("rows", "experts"), [(3, 3), (40, 8)])
def test_grouped_products_read_no_more_experts_than_rows(rows: int, experts: int) -> None:
    x = torch.zeros(rows, 32, dtype=torch.bfloat16, device="meta")
    weights = torch.zeros(8, 32, 16, dtype=torch.bfloat16, device="meta")
    ends = torch.zeros(8, dtype=torch.int32, device="meta")
    product = ops_of(lambda: torch._grouped_mm(x, weights, offs=ends))["aten._grouped_mm"]
    assert product.bytes_in == rows * 32 * 2 + experts * 32 * 16 * 2 + 8 * 4
    assert product.flops == 2 * rows * 32 * 16


def test_cache_writes_count_the_rows_written() -> None:
    cache, new = torch.zeros(1, 2, 64, 8), torch.ones(1, 2, 3, 8)
    rows = torch.tensor([4, 5, 6])
    write = ops_of(lambda: cache.index_copy_(2, rows, new))["aten.index_copy_"]
    assert write.bytes_out == 2 * 3 * 8 * 4
    assert write.bytes_in == 2 * 3 * 8 * 4 + 3 * 8
    put = ops_of(lambda: cache.__setitem__((slice(None), slice(None), rows), new))
    assert put["aten.index_put_"].bytes_out == 2 * 3 * 8 * 4
    assert put["aten.index_put_"].bytes_in == 2 * 3 * 8 * 4 + 3 * 8


def test_scatter_add_reads_the_rows_that_it_adds_to() -> None:
    total, index = torch.zeros(100, 16), torch.zeros(3, 16, dtype=torch.long)
    add = ops_of(lambda: total.scatter_add_(0, index, torch.ones(3, 16)))["aten.scatter_add_"]
    assert add.bytes_out == 3 * ROW
    assert add.bytes_in == 3 * ROW + 3 * 16 * 8 + 3 * ROW


def test_an_addend_of_weight_zero_is_not_read() -> None:
    x, addend = torch.zeros(4, 16), torch.zeros(4, 4)
    for beta, size in ((1, 4 * ROW + 4 * 4 * 4), (0, 4 * ROW)):
        (op,) = record(lambda beta=beta: torch.addmm(addend, x, x.t(), beta=beta))  # type: ignore[misc]
        assert op.bytes_in == size


def test_shape_donors_are_not_read() -> None:
    x = torch.zeros(4, 16)
    assert ops_of(lambda: torch.ones_like(x))["aten.ones_like"].bytes_in == 0


def test_item_is_an_op_because_it_stops_the_host() -> None:
    x = torch.zeros(1)
    assert ops_of(lambda: x.item())["aten._local_scalar_dense"].bytes_in == 4


def test_freed_memory_never_gives_its_id_to_a_new_tensor() -> None:
    def call() -> None:
        for _ in range(20):
            torch.zeros(1 << 16).add(1)

    ops = record(call)
    written = [tensor.id for op in ops for tensor in op.outputs]
    assert len(set(written)) == len(written) == 40


def test_meta_tensors_are_told_apart() -> None:
    def call() -> None:
        x = torch.zeros(8, device="meta")
        y = torch.zeros(8, device="meta")
        torch.add(x, y)

    add = record(call)[-1]
    assert add.inputs[0].id != add.inputs[1].id
    assert add.bytes_in == 64


def test_equal_ids_mean_shared_memory() -> None:
    x = torch.zeros(4, 16)
    first, second = record(lambda: (x[:2] + 1, x.t() * 2))
    assert first.inputs[0].id == second.inputs[0].id


def test_attributes_hold_the_arguments_that_differ_from_their_defaults() -> None:
    x = torch.zeros(4, 16)
    ops = ops_of(lambda: (x.to(torch.bfloat16), x.sum(-1, keepdim=True), x * 0.125))
    assert ops["aten._to_copy"].attributes == {"dtype": "bfloat16"}
    assert ops["aten.sum"].attributes == {"dim": "-1", "keepdim": True}
    assert ops["aten.mul"].attributes == {"other": 0.125}
