"""The operators of a step: minimum, requested and moved bytes, FLOPs, intensity, bound, gap."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import OperatorRow, Quantity
from rooflens.reports.format import count_text, intensity_text, ratio_text, time_text
from rooflens.reports.view.basis import Basis, ratio
from rooflens.reports.view.cells import amount, derived, missing, table, words
from rooflens.reports.view.page import Cell, Column, Operators, Table
from rooflens.reports.view.where import LIMITED_RATIO, amplification_sentences

MAX_ROWS = 80
NO_OPERATORS = (
    "This run has no operators: nothing was counted, and no kernel could be matched to one. "
    "`profile run` counts them on any machine."
)
COLUMNS = (
    Column("Operator", numeric=False),
    Column("Ops"),
    Column("Minimum bytes", help="each input read once, each output written once"),
    Column("Requested bytes", help="from the tensors of the ops that ran"),
    Column("Moved bytes", help="DRAM counters"),
    Column("Requested / minimum", help="software amplification"),
    Column("Moved / requested", help="hardware amplification"),
    Column("FLOPs needed"),
    Column("FLOPs requested"),
    Column("FLOPs executed"),
    Column("Intensity, theory", help="FLOP per byte"),
    Column("Intensity, requested", help="FLOP per byte"),
    Column("Intensity, measured", help="FLOP per byte"),
    Column("Time"),
    Column("Floor"),
    Column("Gap", help="time minus floor"),
    Column("Bound", numeric=False),
    Column("Who can fix it", numeric=False),
)


def operators(basis: Basis) -> Operators:
    """Make the table of classes, the table of parts, and the sentences about both ratios."""
    if not basis.classes:
        return Operators(None, None, (), NO_OPERATORS)
    totals = basis.run.totals
    rows = [_row(basis, row, row.op_class) for row in basis.classes[:MAX_ROWS]]
    rows.append(_total_row(basis))
    parts = [row for row in basis.parts if row.part]
    return Operators(
        table=table("operators-table", "Operator classes of one step", COLUMNS, rows),
        parts=_parts_table(basis, parts) if parts else None,
        sentences=tuple(
            amplification_sentences(
                ratio(totals.requested_bytes, totals.minimum_bytes),
                ratio(totals.moved_bytes, totals.requested_bytes),
            )
            + _worst(basis.classes)
        ),
        empty="",
    )


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
        Cell(count_text(row.count), sort=row.count),
        amount(row.minimum_bytes),
        amount(row.requested_bytes),
        amount(row.moved_bytes),
        _ratio_cell(software, row.requested_bytes, row.minimum_bytes),
        _ratio_cell(hardware, row.moved_bytes, row.requested_bytes),
        amount(row.minimum_flops),
        amount(row.requested_flops),
        amount(row.executed_flops),
        amount(row.intensity_minimum),
        _intensity(row.requested_flops, row.requested_bytes),
        amount(row.intensity_measured),
        amount(row.time_ns),
        amount(row.floor_ns),
        _gap(basis, row.time_ns, row.floor_ns),
        words(row.bound),
        Cell(who_can_fix(software, hardware)),
    ]


def _total_row(basis: Basis) -> list[Cell]:
    totals = basis.run.totals
    software = ratio(totals.requested_bytes, totals.minimum_bytes)
    hardware = ratio(totals.moved_bytes, totals.requested_bytes)
    cells = [
        Cell("Whole step", css="sum"),
        Cell(count_text(sum(row.count for row in basis.classes))),
        amount(totals.minimum_bytes),
        amount(totals.requested_bytes),
        amount(totals.moved_bytes),
        _ratio_cell(software, totals.requested_bytes, totals.minimum_bytes),
        _ratio_cell(hardware, totals.moved_bytes, totals.requested_bytes),
        amount(totals.minimum_flops),
        amount(totals.requested_flops),
        amount(totals.executed_flops),
        _intensity(totals.minimum_flops, totals.minimum_bytes),
        _intensity(totals.requested_flops, totals.requested_bytes),
        _intensity(totals.executed_flops, totals.moved_bytes),
        amount(totals.step_time_ns),
        amount(totals.operator_floor_ns),
        _gap(basis, totals.step_time_ns, totals.operator_floor_ns),
        Cell(""),
        Cell(who_can_fix(software, hardware)),
    ]
    return [cells[0], *cells[1:]]


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
    if not basis.same_device:
        return missing("the roof is of another device than the time")
    gap = float(time.value) - float(floor.value)
    return derived(gap, time_text(gap), time, floor)


def who_can_fix(software: float | None, hardware: float | None) -> str:
    """The short answer of the table: the program, the kernel, both, or nobody."""
    answers = []
    if software is not None and software >= LIMITED_RATIO:
        answers.append("the program")
    if hardware is not None and hardware >= LIMITED_RATIO:
        answers.append("the kernel")
    if answers:
        return " and ".join(answers)
    return "nothing to fix in bytes" if software is not None else ""


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
