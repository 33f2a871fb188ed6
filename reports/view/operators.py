"""The operators of a step: minimum, requested and moved bytes, FLOPs, intensity, bound, gap."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import OperatorRow, Quantity, Run
from rooflens.reports.findings.gap import step_gap
from rooflens.reports.format import NONE, count_text, intensity_text, ratio_text, time_text
from rooflens.reports.join.counters import measured_flops
from rooflens.reports.view.basis import Basis, ratio, total
from rooflens.reports.view.cells import amount, derived, missing, table, words
from rooflens.reports.view.page import Cell, Column, Operators, Table

MAX_ROWS = 80
LIMITED_RATIO = 1.05
"""From 5 % on an amplification is somebody's to fix."""
NO_OPERATORS = (
    "This run has no operators: nothing was counted, and no kernel could be matched to one. "
    "`profile run` counts them on any machine."
)
COLUMNS = (
    Column("Operator", numeric=False),
    Column("Ops"),
    Column("Minimum bytes"),
    Column("Requested bytes"),
    Column("Moved bytes"),
    Column("Requested / minimum"),
    Column("Moved / requested"),
    Column("To fix in", numeric=False),
    Column("Time"),
    Column("Floor"),
    Column("Gap"),
    Column("Bound", numeric=False),
    Column("Intensity, theory"),
    Column("Intensity, requested"),
    Column("Intensity, measured"),
    Column("FLOPs needed"),
    Column("FLOPs requested"),
    Column("FLOPs executed"),
)


def operators(basis: Basis) -> Operators:
    """Make the table of classes, the table of parts, and the sentences about both ratios."""
    if not basis.classes:
        return Operators(None, None, (), NO_OPERATORS)
    rows = [_row(basis, row, row.op_class) for row in basis.classes[:MAX_ROWS]]
    rows.append(_total_row(basis))
    parts = [row for row in basis.parts if row.part]
    return Operators(
        table=table("operators-table", _caption(basis), COLUMNS, rows),
        parts=_parts_table(basis, parts) if parts else None,
        sentences=(*gap_sentences(basis.run), *_worst(basis.classes)),
        empty="",
    )


def _caption(basis: Basis) -> str:
    caption = f"Operator classes of {'the capture' if basis.per_capture else 'one step'}."
    if any(row.intensity_minimum.value is not None for row in basis.classes):
        caption += " Intensity is FLOP per byte."
    if basis.run.totals.operator_floor_ns.value is not None:
        caption += (
            " Gap is time minus floor; the floor of the whole step is here the sum of the "
            "operators' floors."
        )
    return caption


def gap_sentences(run: Run) -> tuple[str, ...]:
    """Who has to fix which part of the gap between the step and its ideal."""
    return tuple(f"{part.sentence}." for part in step_gap(run).parts if part.sentence)


def _worst(rows: Sequence[OperatorRow]) -> list[str]:
    """Name the class that asks for most bytes beyond its minimum."""
    extra = [
        (float(row.requested_bytes.value) - float(row.minimum_bytes.value), row)
        for row in rows
        if row.requested_bytes.value is not None and row.minimum_bytes.value is not None
    ]
    if not extra:
        return []
    most, row = max(extra, key=lambda pair: pair[0])
    everything = sum(max(amount_, 0.0) for amount_, _ in extra)
    times = ratio(row.requested_bytes, row.minimum_bytes)
    if most <= 0 or times is None or times < LIMITED_RATIO:
        return []
    return [
        f"Most extra bytes are asked for in {row.op_class}: {ratio_text(times)} its minimum, "
        f"{100 * most / everything:.0f} % of all extra bytes."
    ]


def _row(basis: Basis, row: OperatorRow, name: str) -> list[Cell]:
    software = ratio(row.requested_bytes, row.minimum_bytes)
    hardware = ratio(row.moved_bytes, row.requested_bytes)
    return [
        words(name),
        _ops(row.count),
        amount(row.minimum_bytes),
        amount(row.requested_bytes),
        amount(row.moved_bytes),
        _ratio_cell(software, row.requested_bytes, row.minimum_bytes),
        _ratio_cell(hardware, row.moved_bytes, row.requested_bytes),
        Cell(who_can_fix(software, hardware, _avoidable(row))),
        amount(row.time_ns),
        amount(row.floor_ns),
        _gap(basis, row.time_ns, row.floor_ns),
        words(NONE if row.bound == "none" else row.bound),
        amount(row.intensity_minimum),
        _intensity(total((row.requested_flops, row.elementwise_flops)), row.requested_bytes),
        amount(row.intensity_measured),
        amount(row.minimum_flops),
        amount(row.requested_flops),
        amount(row.executed_flops),
    ]


def _total_row(basis: Basis) -> list[Cell]:
    totals = basis.run.totals
    software = ratio(totals.requested_bytes, totals.minimum_bytes)
    hardware = ratio(totals.moved_bytes, totals.requested_bytes)
    time = totals.step_time_ns
    timed = [row.time_ns for row in basis.classes if row.time_ns.value is not None]
    if basis.per_capture and timed:
        time = total(timed)
    cells = [
        Cell("Whole capture" if basis.per_capture else "Whole step", css="sum"),
        _ops(sum(row.count for row in basis.classes)),
        amount(totals.minimum_bytes),
        amount(totals.requested_bytes),
        amount(totals.moved_bytes),
        _ratio_cell(software, totals.requested_bytes, totals.minimum_bytes),
        _ratio_cell(hardware, totals.moved_bytes, totals.requested_bytes),
        Cell(who_can_fix(software, hardware)),
        amount(time),
        amount(totals.operator_floor_ns),
        _gap(basis, time, totals.operator_floor_ns),
        Cell(""),
        _intensity(_theory_flops(basis), totals.minimum_bytes),
        _intensity(
            total((totals.requested_flops, totals.elementwise_flops)), totals.requested_bytes
        ),
        _intensity(measured_flops(basis.classes), totals.moved_bytes),
        amount(totals.minimum_flops),
        amount(totals.requested_flops),
        amount(totals.executed_flops),
    ]
    return [cells[0], *cells[1:]]


def _ops(count: int) -> Cell:
    if not count:
        return missing("no op was recorded")
    return Cell(count_text(count), sort=count)


def _ratio_cell(times: float | None, over: Quantity, under: Quantity) -> Cell:
    if times is None:
        reason = over.absent or under.absent or "the minimum is 0: this need not move anything"
        return missing(reason)
    cell = derived(times, ratio_text(times), over, under)
    return Cell(cell.text, cell.source, sort=times, css="worse" if times >= LIMITED_RATIO else "")


def _intensity(flops: Quantity, nbytes: Quantity) -> Cell:
    intensity = ratio(flops, nbytes)
    if intensity is None:
        return missing(flops.absent or nbytes.absent or "no bytes")
    return derived(intensity, intensity_text(intensity), flops, nbytes)


def _gap(basis: Basis, time: Quantity, floor: Quantity) -> Cell:
    if time.value is None or floor.value is None:
        return missing(time.absent or floor.absent or "")
    if basis.per_capture:
        return missing("times are of the whole capture, floors of a step")
    if not basis.same_device:
        return missing("the roof is of another device than the time")
    gap = float(time.value) - float(floor.value)
    return derived(gap, time_text(gap), time, floor)


def _theory_flops(basis: Basis) -> Quantity:
    """All FLOPs of the theory, elementwise ones included: what the step's intensity is made of."""
    totals = basis.run.totals
    if totals.intensity.value is None or totals.compulsory_bytes.value is None:
        return totals.minimum_flops
    flops = round(totals.intensity.value * totals.compulsory_bytes.value)
    return Quantity(value=flops, unit="flop", source="theory")


def _avoidable(row: OperatorRow) -> bool:
    """Bytes of a class that an ideal step does not have at all."""
    return row.minimum_bytes.value == 0 and bool(row.requested_bytes.value)


def who_can_fix(software: float | None, hardware: float | None, avoidable: bool = False) -> str:
    """The short answer of the table: the program, the kernel, both, or nothing to fix."""
    program = avoidable or (software is not None and software >= LIMITED_RATIO)
    kernel = hardware is not None and hardware >= LIMITED_RATIO
    if program and kernel:
        return "both"
    return "program" if program else "kernel" if kernel else NONE


def _parts_table(basis: Basis, rows: Sequence[OperatorRow]) -> Table:
    columns = (
        Column("Operator and part", numeric=False),
        Column("Ops"),
        Column("Minimum bytes"),
        Column("Requested bytes"),
        Column("Moved bytes"),
        Column("FLOPs requested"),
        Column("Time"),
    )
    ordered = sorted(
        rows, key=lambda row: -float(row.requested_bytes.value or row.moved_bytes.value or 0)
    )
    cells = [
        [
            words(f"{row.op_class}: {row.part}"),
            Cell(count_text(row.count), sort=row.count),
            amount(row.minimum_bytes),
            amount(row.requested_bytes),
            amount(row.moved_bytes),
            amount(row.requested_flops),
            amount(row.time_ns),
        ]
        for row in ordered[:MAX_ROWS]
    ]
    return table("parts-table", "Parts of the operator classes, most bytes first", columns, cells)
