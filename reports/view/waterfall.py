"""The gap of a step: operator floor, extra bytes, low efficiency, idle, measured.

The parts add up to the measured time exactly: low efficiency is what is left of the busy time.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from rooflens.model import Run
from rooflens.reports.charts.waterfall import Stage, waterfall
from rooflens.reports.format import percent_text, time_text
from rooflens.reports.join.waterfall import waterfall as step_waterfall
from rooflens.reports.view.basis import Basis
from rooflens.reports.view.cells import table
from rooflens.reports.view.page import Cell, Chart, Column


@dataclass(frozen=True)
class GapParts:
    """The parts of a step's time in whole ns; their sum is exactly `measured_ns`."""

    floor_ns: int
    extra_bytes_ns: int
    inefficiency_ns: int
    idle_ns: int
    measured_ns: int
    extra_is_moved: bool
    idle_source: str


def gap_parts(basis: Basis) -> GapParts | None:
    """Split the measured time of a step, or None where time and floor may not be compared."""
    totals = basis.run.totals
    floor, measured = totals.operator_floor_ns.value, basis.time.value
    if (
        basis.per_capture
        or not basis.same_device
        or basis.roof is None
        or floor is None
        or measured is None
    ):
        return None
    idle, idle_source = _idle(basis)
    split = step_waterfall(basis.classes, floor, basis.roof, float(measured), idle)
    return GapParts(
        floor_ns=split.floor_ns,
        extra_bytes_ns=split.extra_bytes_ns,
        inefficiency_ns=split.low_efficiency_ns,
        idle_ns=split.idle_ns,
        measured_ns=split.measured_ns,
        extra_is_moved=split.moved,
        idle_source=idle_source,
    )


def _idle(basis: Basis) -> tuple[float, str]:
    """Time of the median step in which no operator ran."""
    measured = float(basis.time.value or 0)
    share = _device_idle_share(basis.run)
    if share is not None:
        return share * measured, "timeline"
    times = [row.time_ns.value for row in basis.classes if row.time_ns.value is not None]
    if not times:
        return 0.0, ""
    return max(measured - float(sum(times)), 0.0), "host clock"


def _device_idle_share(run: Run) -> float | None:
    if run.timeline is None:
        return None
    shares = [s.idle_ns / s.wall_ns for s in run.timeline.steps if s.wall_ns > 0 and s.busy_ns > 0]
    return statistics.median(shares) if shares else None


def why_no_waterfall(basis: Basis) -> str:
    """Say which of time and floor is missing, or why they may not be compared."""
    totals = basis.run.totals
    if basis.time.value is None:
        return f"There is no gap to split: {basis.time.absent or 'no step time'}."
    if basis.per_capture and totals.operator_floor_ns.value is not None:
        return "Kernel times are known over the whole capture only, not per step: no gap to split."
    if basis.roof is not None and not basis.same_device:
        return (
            f"The floor is a prediction for {basis.roof.name} and the time was taken on another "
            "device: the difference between them means nothing, so it is not split."
        )
    return f"There is no gap to split: {totals.operator_floor_ns.absent or 'no floor'}."


def waterfall_chart(basis: Basis) -> Chart | None:
    """Draw the gap, or None (then `why_no_waterfall` has the reason)."""
    parts = gap_parts(basis)
    if parts is None:
        return None
    kind = "moved" if parts.extra_is_moved else "requested"
    slow = "Low efficiency" if parts.inefficiency_ns >= 0 else "Faster than the floor"
    stages = [
        Stage("Operator floor", parts.floor_ns, "floor"),
        Stage(f"Extra bytes ({kind})", parts.extra_bytes_ns, "c0"),
        Stage(slow, parts.inefficiency_ns, "c1"),
        Stage("Idle", parts.idle_ns, "idle"),
        Stage("Measured", parts.measured_ns, "c4", whole=True),
    ]
    described = ", ".join(f"{stage.name} {time_text(stage.value)}" for stage in stages)
    drawing = waterfall("gap", "From the floor to the measured time", described, stages, time_text)
    rows = [
        [
            Cell(stage.name, css="sum" if stage.whole else ""),
            Cell(time_text(stage.value), exact=f"{stage.value:,.0f} ns", sort=stage.value),
            Cell(percent_text(stage.value / parts.measured_ns) if parts.measured_ns else ""),
            Cell(meaning),
        ]
        for stage, meaning in zip(stages, _meanings(parts), strict=True)
    ]
    columns = (
        Column("Part", numeric=False),
        Column("Time"),
        Column("Share of the step"),
        Column("What it is", numeric=False),
    )
    twin = table("gap-table", "From the floor to the measured time", columns, rows)
    return Chart(drawing, _reading(parts), twin)


def _meanings(parts: GapParts) -> tuple[str, ...]:
    bytes_word = "moved" if parts.extra_is_moved else "requested"
    fast = "less than the floor: a cache helped, or the roof is too low"
    return (
        "theory: every operator alone at the roof",
        f"bytes {bytes_word} beyond the minimum, at the roof's bandwidth",
        "what is left of the busy time" if parts.inefficiency_ns >= 0 else fast,
        f"no operator ran ({parts.idle_source})" if parts.idle_source else "not known: taken as 0",
        "the median step",
    )


def _reading(parts: GapParts) -> str:
    text = "Each row starts where the one above ends; together they are exactly the measured time."
    if not parts.extra_is_moved:
        text += " Without counters, extra bytes are what the program asked for beyond the minimum."
    return text
