"""The gap, split by who has to fix it."""

from __future__ import annotations

import pytest

from rooflens.model import Roof, Run, StepTime, Timeline, known
from rooflens.reports.findings.gap import amplification_text, operator_gaps, step_gap
from tests import builders

ROOF = Roof(
    name="this GPU",
    kind="data sheet",
    peak_flops_per_s=1e14,
    bandwidth_bytes_per_s=1e12,
    dtype="bfloat16",
    source="this test",
)


def measured() -> Run:
    """A step that asks for 1.5 times its minimum, moves 0.8 of that, and idles for a quarter."""
    step = StepTime(
        index=0, start_ns=0, wall_ns=8e6, busy_ns=6e6, idle_ns=2e6, launches=10, kernels=10
    )
    totals = builders.totals(
        minimum_bytes=known(1_000_000_000, "byte", "theory"),
        requested_bytes=known(1_500_000_000, "byte", "counted"),
        moved_bytes=known(1_200_000_000, "byte", "counters"),
        minimum_flops=known(10**10, "flop", "theory"),
        requested_flops=known(2 * 10**10, "flop", "counted"),
        step_time_ns=known(8e6, "ns", "timeline"),
        floor_ns=known(1e6, "ns", "theory"),
    )
    rows = (
        builders.operator(
            "norm",
            minimum_bytes=known(100, "byte", "theory"),
            requested_bytes=known(900, "byte", "counted"),
        ),
        builders.operator(
            "norm",
            part="cast",
            minimum_bytes=known(1, "byte", "theory"),
            requested_bytes=known(500, "byte", "counted"),
        ),
        builders.operator(
            "attention",
            minimum_bytes=known(1_000, "byte", "theory"),
            requested_bytes=known(9_000, "byte", "counted"),
        ),
        builders.operator(
            "mask",
            minimum_bytes=known(0, "byte", "theory"),
            requested_bytes=known(64_000, "byte", "counted"),
        ),
    )
    return builders.run(
        roofs=(ROOF,),
        totals=totals,
        operators=rows,
        timeline=Timeline(source="nsys", steps=(step,), representative_step=0),
    )


def test_each_part_is_a_ratio_with_its_source_and_its_owner() -> None:
    gap = step_gap(measured())
    software = gap.part("software amplification")
    assert (software.ratio.value, software.ratio.source) == (1.5, "counted")
    assert "1.500× the minimum, 500.0 MB too much" in software.sentence
    assert "the program" in software.sentence
    hardware = gap.part("hardware amplification")
    assert (hardware.ratio.value, hardware.ratio.source) == (0.8, "counters")
    assert "L2 absorbs" in hardware.sentence
    flops = gap.part("FLOP waste")
    assert flops.ratio.value == 2.0
    assert "2.00× the FLOPs it needs, 10.00 GFLOP too much" in flops.sentence
    assert gap.part("efficiency").ratio.value == pytest.approx(1 / 8)
    assert gap.part("idle").ratio.value == 0.25
    assert "host" in gap.part("idle").sentence


def test_missing_evidence_is_absent_with_its_reason() -> None:
    gap = step_gap(builders.run())
    for part in gap.parts:
        assert part.ratio.value is None
        assert part.ratio.absent
        assert part.sentence == ""


def test_a_predicted_roof_gives_no_efficiency() -> None:
    run = measured()
    other = builders.run(
        roofs=(
            Roof(
                name="H200", kind="data sheet", peak_flops_per_s=1e15, bandwidth_bytes_per_s=4e12,
                dtype="bfloat16", source="test", prediction=True,
            ),
        ),
        totals=run.totals,
    )  # fmt: skip
    assert "H200" in (step_gap(other).part("efficiency").ratio.absent or "")


def test_operators_come_by_their_excess_and_parts_do_not_count_twice() -> None:
    gaps = operator_gaps(measured())
    assert [gap.op_class for gap in gaps] == ["mask", "attention", "norm"]
    assert gaps[1].part("software amplification").ratio.value == 9.0
    mask = gaps[0].part("software amplification")
    assert mask.ratio.value is None
    assert "an ideal step does not have" in mask.sentence


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.13602, "1.136×"), (4.4006, "4.40×"), (4.499, "4.50×")]
)
def test_amplification_is_said_as_people_say_it(ratio: float, text: str) -> None:
    assert amplification_text(ratio) == text
