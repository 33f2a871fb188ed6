"""Rows per operator class: counts beside theory."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.model import Op, OperatorRow, Roof
from rooflens.reports.join.counted import class_rows, operator_rows, times_by_class, totals
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from tests import builders

TINY = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320,
    "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
}  # fmt: skip

ROOF = Roof(
    name="test", kind="data sheet", peak_flops_per_s=1e12, bandwidth_bytes_per_s=1e9,
    dtype="bfloat16", source="this test",
)  # fmt: skip


@pytest.fixture(scope="module")
def theory() -> StepTheory:
    return step_theory(Architecture.from_config(TINY, "tiny"), StepShape(batch=1, context=9))


def op(index: int, op_class: str, part: str | None = None, **fields: Any) -> Op:
    fields = {"bytes_in": 10, "bytes_out": 5, "flops": 0} | fields
    return builders.op(index, "aten.x", op_class=op_class, part=part, **fields)


OPS = (
    op(0, "norm", "cast"),
    op(1, "norm", "scale", elementwise_flops=7),
    op(2, "q_proj", flops=100),
    op(3, "attention", "fused", flops=50),
    op(4, "kv_write", "copy"),
    op(5, "other"),
)


def by_key(rows: tuple[OperatorRow, ...]) -> dict[tuple[str, str | None], OperatorRow]:
    return {(row.op_class, row.part): row for row in rows}


def test_class_rows_sum_to_the_step(theory: StepTheory) -> None:
    rows = class_rows(operator_rows(OPS, theory, ROOF))
    assert sum(row.requested_bytes.value or 0 for row in rows) == 6 * 15
    assert sum(row.requested_flops.value or 0 for row in rows) == 150
    assert sum(row.minimum_bytes.value or 0 for row in rows) == theory.ideal_op_bytes
    assert sum(row.minimum_flops.value or 0 for row in rows) == theory.tensor_flops
    assert sum(row.count for row in rows) == len(OPS)


def test_parts_sum_to_their_class(theory: StepTheory) -> None:
    rows = by_key(operator_rows(OPS, theory))
    assert rows["norm", None].requested_bytes.value == 30
    assert rows["norm", "cast"].requested_bytes.value == 15
    assert rows["norm", "scale"].elementwise_flops.value == 7
    assert rows["norm", "cast"].minimum_bytes.absent


def test_minimum_comes_from_the_theory_of_the_whole_step(theory: StepTheory) -> None:
    rows = by_key(operator_rows(OPS, theory, ROOF))
    # two layers: 64 -> 64 with a bias, one row in, one row out, bfloat16
    assert rows["q_proj", None].minimum_bytes.value == 2 * 2 * (64 * 64 + 64 + 64 + 64)
    assert rows["q_proj", None].minimum_flops.value == 2 * 2 * 64 * 64
    assert rows["q_proj", None].floor_ns.value == pytest.approx(2 * 2 * (64 * 64 + 3 * 64))
    assert rows["q_proj", None].bound == "memory"
    assert rows["norm", None].minimum_flops.value == 0
    assert rows["norm", None].intensity_minimum.value == pytest.approx(4 * 64 / (2 * 3 * 64))


def test_what_an_ideal_step_does_not_need_has_a_minimum_of_zero(theory: StepTheory) -> None:
    row = by_key(operator_rows(OPS, theory))["kv_write", None]
    assert row.minimum_bytes.value == 0
    assert row.intensity_minimum.absent


def test_classes_without_ops_keep_their_theory(theory: StepTheory) -> None:
    row = by_key(operator_rows(OPS, theory))["down_proj", None]
    assert row.count == 0
    assert row.requested_bytes.absent
    assert row.minimum_flops.value == 2 * 2 * 160 * 64


def test_fused_projections_are_compared_with_what_they_serve(theory: StepTheory) -> None:
    rows = by_key(operator_rows((op(0, "qkv_proj"), op(1, "gate_up_proj")), theory))
    assert rows["qkv_proj", None].minimum_flops.value == 2 * 2 * 64 * (64 + 32 + 32)
    assert rows["gate_up_proj", None].minimum_flops.value == 2 * 2 * 64 * 320
    assert ("q_proj", None) not in rows
    everything = class_rows(operator_rows((op(0, "qkv_proj"),), theory))
    assert sum(row.minimum_bytes.value or 0 for row in everything) == theory.ideal_op_bytes


def test_rows_stand_in_the_order_of_a_step(theory: StepTheory) -> None:
    names = [row.op_class for row in class_rows(operator_rows(reversed(OPS), theory))]  # type: ignore[arg-type]
    assert names.index("norm") < names.index("q_proj") < names.index("attention")
    assert names[-1] == "other"


def test_without_theory_and_roof_the_reasons_are_given() -> None:
    rows = by_key(operator_rows(OPS))
    row = rows["q_proj", None]
    assert "no theory" in str(row.minimum_bytes.absent)
    assert row.floor_ns.absent
    assert row.bound == "none"
    assert row.time_ns.absent
    assert totals(OPS).minimum_bytes.absent
    assert "no roof" in str(totals(OPS, step_theory=None).floor_ns.absent) or totals(OPS).floor_ns


def test_a_roof_is_asked_for_when_only_it_is_missing(theory: StepTheory) -> None:
    assert "--gpu" in str(totals(OPS, theory).floor_ns.absent)
    assert "--gpu" in str(by_key(operator_rows(OPS, theory))["q_proj", None].floor_ns.absent)


def test_totals(theory: StepTheory) -> None:
    sums = totals(OPS, theory, ROOF)
    assert sums.requested_bytes.value == 90
    assert sums.requested_flops.value == 150
    assert sums.elementwise_flops.value == 7
    assert sums.coverage.value == pytest.approx(75 / 90)
    assert sums.minimum_bytes.value == theory.ideal_op_bytes
    assert sums.compulsory_bytes.value == theory.compulsory_bytes
    assert sums.floor_ns.value == pytest.approx(theory.compulsory_bytes)
    assert (sums.operator_floor_ns.value or 0) >= (sums.floor_ns.value or 0)
    assert totals((), theory).requested_bytes.absent


def test_times_of_ops_become_times_of_classes() -> None:
    timed = (op(0, "norm", "cast", time_ns=3.0), op(1, "norm", "scale", time_ns=4.0))
    rows = by_key(operator_rows(timed))
    assert rows["norm", None].time_ns.value == 7.0
    assert rows["norm", "cast"].time_ns.value == 3.0
    assert rows["norm", None].time_ns.source == "host"


def test_one_untimed_op_leaves_its_class_untimed() -> None:
    timed = (op(0, "norm", "cast", time_ns=3.0), op(1, "norm", "scale"))
    rows = by_key(operator_rows(timed))
    assert rows["norm", None].time_ns.absent
    assert rows["norm", "cast"].time_ns.value == 3.0


def test_times_of_some_layers_stand_for_all_of_them() -> None:
    timed = (
        op(0, "norm", "cast", layer=0, time_ns=3.0),
        op(1, "norm", "cast", layer=1, time_ns=5.0),
        op(2, "norm", "cast", time_ns=1.0),
    )
    time = times_by_class(timed, layers_model=28)["norm", None]
    assert time.value == 28 * 4.0 + 1.0
    assert time.extrapolated_from == (0, 1)
    assert times_by_class(timed, layers_model=2)["norm", None].extrapolated_from == ()
    assert times_by_class(timed)["norm", "cast"].value == 9.0
