"""Splits the gap between a step and its ideal, and says who has to fix each part.

    software amplification   requested / minimum bytes    the program asks for more than it needs
    hardware amplification   moved / requested bytes      the kernels or the caches add or absorb
    FLOP waste               executed / minimum FLOPs     work that nobody needs
    efficiency               floor / time                 the kernels are slower than the roof
    idle                     idle / wall of the step      the device waits for the host

`step_gap(run)` is the whole step, `operator_gaps(run)` one per operator class. A part that the
evidence cannot show is absent with its reason; two sources are never mixed in silence (each part
names its own).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rooflens.model import OperatorRow, Quantity, Run, absent
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.r19_launch_gap import representative
from rooflens.reports.format import (
    bytes_text,
    flops_text,
    percent_text,
    significant_text,
    time_text,
)

PartName = Literal[
    "software amplification", "hardware amplification", "FLOP waste", "efficiency", "idle"
]


@dataclass(frozen=True)
class GapPart:
    """One part of the gap: a ratio and the sentence that says who has to fix it."""

    name: PartName
    ratio: Quantity
    sentence: str


@dataclass(frozen=True)
class GapSplit:
    """The gap of one operator class, or of the step (`op_class` empty)."""

    op_class: str
    parts: tuple[GapPart, ...]

    def part(self, name: PartName) -> GapPart:
        """The part by its name."""
        return next(part for part in self.parts if part.name == name)


def amplification_text(ratio: float) -> str:
    """A factor: `1.136×` below 2, where the third digit matters, else `4.40×`."""
    return f"{significant_text(ratio, 4 if ratio < 2 else 3)}×"


def step_gap(run: Run) -> GapSplit:
    """The gap of the whole step."""
    totals = run.totals
    return GapSplit(
        "",
        (
            _software("The step", totals.requested_bytes, totals.minimum_bytes),
            _hardware("The step", totals.moved_bytes, totals.requested_bytes),
            _flops("The step", totals.executed_flops, totals.requested_flops, totals.minimum_flops),
            _efficiency(run, "The step", totals.step_time_ns, totals.floor_ns),
            _idle(run),
        ),
    )


def operator_gaps(run: Run) -> tuple[GapSplit, ...]:
    """The gaps of the operator classes, largest excess of requested bytes first."""
    rows = [row for row in run.operators if row.part is None]
    rows.sort(key=_excess, reverse=True)
    return tuple(_operator_gap(run, row) for row in rows)


def _excess(row: OperatorRow) -> float:
    requested, minimum = row.requested_bytes.value, row.minimum_bytes.value
    return 0.0 if requested is None or minimum is None else requested - minimum


def _operator_gap(run: Run, row: OperatorRow) -> GapSplit:
    return GapSplit(
        row.op_class,
        (
            _software(row.op_class, row.requested_bytes, row.minimum_bytes),
            _hardware(row.op_class, row.moved_bytes, row.requested_bytes),
            _flops(row.op_class, row.executed_flops, row.requested_flops, row.minimum_flops),
            _efficiency(run, row.op_class, row.time_ns, row.floor_ns),
            GapPart("idle", absent("idle time belongs to the step, not to one operator"), ""),
        ),
    )


def _ratio(above: Quantity, below: Quantity, what: str) -> Quantity:
    """`above / below`, with the source of `above`; absent when either is missing or below is 0."""
    if above.value is None:
        return absent(above.absent or what)
    if below.value is None:
        return absent(below.absent or what)
    if not below.value:
        return absent(f"{what}: nothing to compare with, the minimum is 0")
    return Quantity(value=above.value / below.value, unit="1", source=above.source)


def _software(name: str, requested: Quantity, minimum: Quantity) -> GapPart:
    ratio = _ratio(requested, minimum, "requested over minimum bytes")
    if requested.value and minimum.value == 0:
        sentence = (
            f"{name} asks for {bytes_text(requested.value)} that an ideal step does not have: "
            "the program has to be changed"
        )
    elif ratio.value is None or requested.value is None or minimum.value is None:
        sentence = ""
    elif ratio.value <= 1.0005:
        sentence = f"{name} asks for no more than it needs"
    else:
        extra = bytes_text(requested.value - minimum.value)
        sentence = (
            f"{name} asks for {amplification_text(ratio.value)} the minimum, {extra} too much: "
            "the program (the model's code or its framework) has to be changed"
        )
    return GapPart("software amplification", ratio, sentence)


def _hardware(name: str, moved: Quantity, requested: Quantity) -> GapPart:
    ratio = _ratio(moved, requested, "moved over requested bytes")
    sentence = ""
    if ratio.value is not None and ratio.value > 1.05:
        sentence = (
            f"{name} moves {amplification_text(ratio.value)} what it asks for: partial sectors, "
            "re-reads or spills, the kernels have to be changed"
        )
    elif ratio.value is not None and ratio.value < 0.95:
        sentence = (
            f"{name} moves {amplification_text(ratio.value)} of what it asks for: L2 absorbs the "
            "rest, and saving those bytes saves less time than they suggest"
        )
    elif ratio.value is not None:
        sentence = f"{name} moves what it asks for: kernels and caches add nothing"
    return GapPart("hardware amplification", ratio, sentence)


def _flops(name: str, executed: Quantity, requested: Quantity, minimum: Quantity) -> GapPart:
    """Executed FLOPs where counters have them, else the requested ones."""
    done = executed if executed.value is not None else requested
    ratio = _ratio(done, minimum, "executed over minimum FLOPs")
    sentence = ""
    if ratio.value is not None and done.value is not None and minimum.value is not None:
        word = "executes" if executed.value is not None else "asks for"
        if ratio.value > 1.001:
            sentence = (
                f"{name} {word} {amplification_text(ratio.value)} the FLOPs it needs, "
                f"{flops_text(done.value - minimum.value)} too much: padding, recomputation or "
                "masked work, the program has to be changed"
            )
        else:
            sentence = f"{name} {word} no FLOPs beyond its minimum"
    return GapPart("FLOP waste", ratio, sentence)


def _efficiency(run: Run, name: str, time: Quantity, floor: Quantity) -> GapPart:
    if run.roofs and run.roofs[0].prediction:
        reason = f"the roof ({run.roofs[0].name}) is not of the device that was timed"
        return GapPart("efficiency", absent(reason), "")
    ratio = _ratio(floor, time, "floor over time")
    sentence = ""
    if ratio.value is not None and time.value is not None and floor.value is not None:
        sentence = (
            f"{name} takes {time_text(time.value)} where {time_text(floor.value)} is the floor "
            f"({percent_text(ratio.value)} of the roof)"
        )
        if ratio.value < 0.8:
            sentence += ": what extra bytes do not explain, the kernels or the host have to give"
    return GapPart("efficiency", ratio, sentence)


def _idle(run: Run) -> GapPart:
    step = representative(Evidence.of(run))
    if step is None or not step.wall_ns:
        return GapPart("idle", absent("not collected: no timeline in this run"), "")
    share = step.idle_ns / step.wall_ns
    sentence = (
        f"The device is idle {percent_text(share)} of the step "
        f"({time_text(step.idle_ns)} of {time_text(step.wall_ns)})"
    )
    sentence += ": the host or its launches have to be changed" if share > 0.05 else ""
    return GapPart("idle", Quantity(value=share, unit="1", source="timeline"), sentence)
