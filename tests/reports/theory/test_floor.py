"""Floors and bounds on a roof of round numbers: 1e15 FLOP/s, 1e12 B/s, ridge 1000."""

from __future__ import annotations

import pytest

from rooflens.model import Roof
from rooflens.reports.theory.floor import (
    bound,
    floor_ns,
    operator_floor_ns,
    printed_ridge,
    ridge,
    step_floor_ns,
    step_floors,
)
from rooflens.reports.theory.step import StepTheory

ROOF = Roof(
    name="round", kind="data sheet", peak_flops_per_s=1e15, bandwidth_bytes_per_s=1e12,
    dtype="bfloat16", source="this test",
)  # fmt: skip


@pytest.mark.parametrize(
    ("intensity", "word"),
    [
        (1, "memory"), (949, "memory"), (951, "at the ridge"), (1000, "at the ridge"),
        (1049, "at the ridge"), (1051, "compute"), (10**6, "compute"),
    ],
)  # fmt: skip
def test_bound_within_five_per_cent_is_no_verdict(intensity: int, word: str) -> None:
    assert bound(intensity * 10**6, 10**6, ROOF) == word


def test_bounds_without_roof_bytes_or_flops() -> None:
    assert bound(5, 5, None) == "none"
    assert bound(0, 5, ROOF) == "memory"
    assert bound(5, 0, ROOF) == "compute"
    assert bound(0, 0, ROOF) == "none"


def test_a_floor_is_the_larger_time() -> None:
    assert ridge(ROOF) == printed_ridge(ROOF) == 1000
    assert floor_ns(10**9, 10**9, ROOF) == pytest.approx(1e6)  # 1 GB at 1 TB/s
    assert floor_ns(10**15, 1, ROOF) == pytest.approx(1e9)


def test_floors_of_a_step(decode: StepTheory) -> None:
    floors = step_floors(decode, ROOF)
    assert floors.compute_ns == pytest.approx(decode.tensor_flops / 1e6)
    assert floors.compulsory_bytes_ns == pytest.approx(decode.compulsory_bytes / 1e3)
    assert floors.step_ns == step_floor_ns(decode, ROOF) == floors.compulsory_bytes_ns
    parts = sum(o.count * operator_floor_ns(o, ROOF) for o in decode.operators)
    assert floors.sum_of_operators_ns == pytest.approx(parts, rel=1e-15)
    assert floors.sum_of_operators_ns >= floors.ideal_bytes_ns * (1 - 1e-12)
    assert floors.ideal_bytes_ns > floors.step_ns
