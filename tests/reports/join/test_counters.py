"""Measured bytes and FLOPs in operator rows: sums, absences, sampled layers."""

from __future__ import annotations

from rooflens.model import Launch, Op, OperatorRow, known
from rooflens.reports.join.counted import operator_rows, totals
from rooflens.reports.join.counters import (
    NO_KERNEL,
    rows_of_kernels,
    with_counter_totals,
    with_counters,
)
from rooflens.reports.join.kernels import join_launches
from tests import builders
from tests.builders import launch

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(int)"


def by_class(rows: tuple[OperatorRow, ...]) -> dict[str, OperatorRow]:
    return {row.op_class: row for row in rows if row.part is None}


def layer_ops(layers: int) -> list[Op]:
    """up_proj and norm of every layer, then lm_head."""
    made: list[Op] = []
    for layer in range(layers):
        path = f"model.layers.{layer}"
        made.append(builders.op(len(made), "aten.rms_norm", op_class="norm", layer=layer,
                                module=f"{path}.norm"))  # fmt: skip
        made.append(builders.op(len(made), "aten.mm", op_class="up_proj", layer=layer, flops=7,
                                module=f"{path}.mlp.up_proj"))  # fmt: skip
    made.append(builders.op(len(made), "aten.mm", op_class="lm_head", module="lm_head", flops=9))
    return made


def captured(ops: list[Op], moved: int = 10) -> list[Launch]:
    """One launch per op, each with its op id."""
    return [
        launch(i, NORM if op.op_class == "norm" else GEMM, dram_bytes=moved + i, flops=100,
               nvtx=(f"op {op.index} {op.name}",))
        for i, op in enumerate(ops)
    ]  # fmt: skip


def test_rows_hold_the_sums_of_their_kernels() -> None:
    ops = layer_ops(2)
    launches = captured(ops)
    rows = by_class(with_counters(operator_rows(ops), launches, join_launches(launches, ops)))
    assert rows["up_proj"].moved_bytes.value == 11 + 13
    assert rows["up_proj"].executed_flops.value == 200
    assert rows["up_proj"].intensity_measured.value == 200 / 24
    assert rows["lm_head"].moved_bytes.value == 14
    assert rows["lm_head"].moved_bytes.source == "counters"


def test_norms_execute_elementwise_flops_only() -> None:
    launches = [launch(0, NORM, dram_bytes=10, flops=40)]
    (row,) = rows_of_kernels(launches, join_launches(launches))
    assert row.op_class == "norm"
    assert row.executed_flops.value == 0
    assert row.elementwise_flops.value == 40
    assert row.intensity_measured.value == 4


def test_softmax_inside_a_fused_kernel_is_elementwise() -> None:
    """Products ran on tensor cores; what SASS counters add is not part of them."""
    name = "void pytorch_flash::flash_fwd_kernel<int>(int)"
    tensor = {"tensor_flops": known(1000, "flop", "counters")}
    launches = [launch(0, name, dram_bytes=10, flops=1030, metrics=tensor)]
    (row,) = rows_of_kernels(launches, join_launches(launches))
    assert (row.executed_flops.value, row.elementwise_flops.value) == (1000, 30)
    assert row.intensity_measured.value == 103


def test_split_kernels_are_summed() -> None:
    ops = layer_ops(1)[-1:]
    launches = [
        launch(0, GEMM, dram_bytes=100, flops=9, nvtx=(f"op {ops[0].index} x",)),
        launch(1, SPLIT, dram_bytes=20, flops=1, nvtx=(f"op {ops[0].index} x",)),
    ]
    (row,) = with_counters(operator_rows(ops), launches, join_launches(launches, ops))
    assert row.moved_bytes.value == 120
    assert row.executed_flops.value == 10


def test_one_kernel_without_bytes_makes_the_sum_absent() -> None:
    launches = [launch(0, NORM, dram_bytes=10), launch(1, NORM)]
    (row,) = rows_of_kernels(launches, join_launches(launches))
    assert row.moved_bytes.value is None
    assert row.moved_bytes.absent == "missing for 1 of 2 kernels: not measured in this test"
    summed = with_counter_totals(totals(()), (row,))
    assert summed.moved_bytes.absent == "missing for 1 of 2 kernels: not measured in this test"


def test_sampled_layers_are_extrapolated_and_marked() -> None:
    ops = layer_ops(4)
    sampled = [op for op in ops if op.layer in (0, 1) or op.layer is None]
    launches = captured(sampled)
    made = with_counters(operator_rows(ops), launches, join_launches(launches, ops), layers_model=4)
    rows = by_class(made)
    assert rows["up_proj"].moved_bytes.value == (11 + 13) / 2 * 4
    assert rows["up_proj"].moved_bytes.extrapolated_from == (0, 1)
    assert rows["lm_head"].moved_bytes.value == 14
    assert rows["lm_head"].moved_bytes.extrapolated_from == ()
    whole = with_counter_totals(totals(ops), made)
    assert whole.moved_bytes.value == ((10 + 12) + (11 + 13)) / 2 * 4 + 14
    assert whole.moved_bytes.extrapolated_from == (0, 1)


def test_layers_that_differ_are_not_extrapolated() -> None:
    ops = layer_ops(4)
    sampled = [op for op in ops if op.layer in (0, 1)]
    extra = launch(9, GEMM, dram_bytes=5, flops=5, nvtx=(f"op {sampled[0].index} x",))
    launches = [*captured(sampled), extra]
    rows = by_class(
        with_counters(operator_rows(ops), launches, join_launches(launches, ops), layers_model=4)
    )
    assert rows["up_proj"].moved_bytes.value is None
    assert rows["up_proj"].moved_bytes.absent == (
        "not extrapolated: layers 0 and 1 of the capture have 3 and 2 launches"
    )


def test_other_grids_are_not_extrapolated() -> None:
    ops = layer_ops(3)
    sampled = [op for op in ops if op.layer in (0, 1) and op.op_class == "up_proj"]
    launches = [
        launch(i, GEMM, grid=(i + 1, 1, 1), dram_bytes=5, flops=5, nvtx=(f"op {op.index} x",))
        for i, op in enumerate(sampled)
    ]
    rows = by_class(
        with_counters(operator_rows(ops), launches, join_launches(launches, ops), layers_model=3)
    )
    assert "other kernels or grids" in (rows["up_proj"].moved_bytes.absent or "")


def test_classes_without_a_kernel_say_so() -> None:
    ops = layer_ops(1)
    launches = captured(ops[:1])
    rows = by_class(with_counters(operator_rows(ops), launches, join_launches(launches, ops)))
    assert rows["lm_head"].moved_bytes == NO_KERNEL
    assert with_counter_totals(totals(ops), tuple(rows.values())).moved_bytes.value == 10


def test_steps_divide_the_sums() -> None:
    launches = [launch(i, NORM, dram_bytes=10, flops=4) for i in range(6)]
    (row,) = rows_of_kernels(launches, join_launches(launches), steps=3)
    assert row.moved_bytes.value == 20
