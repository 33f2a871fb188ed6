"""Where the time (or, without times, the bytes) of a step goes; the floor on the same scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rooflens.model import OperatorRow, Quantity
from rooflens.reports.charts.bars import Bar, Segment, stacked_bars
from rooflens.reports.format import (
    NONE,
    bytes_text,
    percent_text,
    source_text,
    time_text,
)
from rooflens.reports.view.basis import GROUPS, REST, Basis, group_of, value
from rooflens.reports.view.cells import table
from rooflens.reports.view.families import family_chart
from rooflens.reports.view.page import Cell, Chart, Column, Table, Where

_Pick = Callable[[OperatorRow], Quantity]
_BYTE_BARS: tuple[tuple[str, str, _Pick], ...] = (
    ("Moved", "moved_bytes", lambda row: row.moved_bytes),
    ("Requested", "requested_bytes", lambda row: row.requested_bytes),
    ("Minimum", "minimum_bytes", lambda row: row.minimum_bytes),
)
READING = (
    "Read it from left to right: a bar's length is its total, and what the upper bar has more than "
    "the lower ones did not have to happen."
)


def where(basis: Basis) -> Where:
    """Draw the step's time by kind of work where it is known, and its bytes in any case."""
    charts = [chart for chart in (_time_chart(basis), _bytes_chart(basis)) if chart is not None]
    timed = bool(charts) and charts[0].drawing.id == "where-time"
    return Where(
        heading="Where the time goes" if timed else "Where the bytes go",
        charts=tuple(charts),
        sentences=tuple(line for line in _sentences(basis, timed) if line),
        empty=""
        if charts
        else "No operator of this run has a time or bytes: nothing can be split up. "
        "Make a run with `profile run`, or import a capture with counters.",
    )


def _sentences(basis: Basis, timed: bool) -> list[str]:
    lines = [_recorder_sentence(basis)] if timed else []
    if not timed and basis.classes:
        reason = basis.time.absent or _first_reason([row.time_ns for row in basis.classes])
        lines.append(
            f"There is no time per operator ({reason or 'not measured'}), so this is bytes."
        )
    coverage = basis.run.totals.coverage
    if coverage.value is not None and coverage.value < 1:
        rest = percent_text(1 - coverage.value)
        lines.append(f"{rest} of the requested bytes belong to no known class (shown as Other).")
    return lines


def _recorder_sentence(basis: Basis) -> str:
    """Say it when the operators' times add up to more than the step took."""
    spent = sum(value(row.time_ns) for row in basis.classes)
    step = float(basis.time.value or 0)
    if basis.per_capture:
        return "Times are added up over the whole capture, not per step."
    if not step or spent <= step:
        return ""
    return (
        f"The operators were timed one by one in a step of their own and add up to "
        f"{time_text(spent)}; the timed steps took {time_text(step)}. Take the shares, not the sum."
    )


def _first_reason(quantities: Sequence[Quantity]) -> str:
    return next((q.absent for q in quantities if q.absent), "")


def _groups(rows: Sequence[OperatorRow], pick: _Pick) -> dict[str, float]:
    sums = {css: 0.0 for css, _, _ in GROUPS} | {REST[0]: 0.0}
    for row in rows:
        sums[group_of(row.op_class)[0]] += max(value(pick(row)), 0.0)
    return sums


def _names() -> dict[str, str]:
    return {css: name for css, name, _ in GROUPS} | {REST[0]: REST[1]}


def _segments(sums: dict[str, float]) -> tuple[Segment, ...]:
    names = _names()
    return tuple(Segment(css, names[css], amount) for css, amount in sums.items() if amount > 0)


def _bytes_chart(basis: Basis) -> Chart | None:
    rows = basis.classes
    shown = [bar for bar in _BYTE_BARS if any(bar[2](row).value is not None for row in rows)]
    if not shown:
        return None
    sums = [_groups(rows, pick) for _, _, pick in shown]
    bars = [
        Bar(name, _segments(by_group), bytes_text(sum(by_group.values())))
        for (name, _, _), by_group in zip(shown, sums, strict=True)
    ]
    compulsory = basis.run.totals.compulsory_bytes
    if compulsory.value is not None:
        whole = Segment("floor", "weights, KV and logits only", float(compulsory.value))
        bars.append(Bar("Compulsory", (whole,), bytes_text(compulsory.value)))
    sources = [_source([pick(row) for row in rows]) for _, _, pick in shown]
    described = "; ".join(f"{bar.name} {bar.total_text}" for bar in bars)
    drawing = stacked_bars(
        "where-bytes", "Bytes of one step by kind of work", described, bars, bytes_text
    )
    columns = [
        Column(name, source=source) for (name, _, _), source in zip(shown, sources, strict=True)
    ]
    reading = READING if len(bars) > 1 else "A bar's length is its total."
    return Chart(drawing, reading, _twin("where-bytes-table", "Bytes of one step by kind of work",
                 columns, sums, bytes_text), _keys(sums))  # fmt: skip


def _time_chart(basis: Basis) -> Chart | None:
    rows = [row for row in basis.classes if row.time_ns.value is not None]
    sums = [_groups(rows, lambda row: row.time_ns)]
    if sums[0][REST[0]] * 2 > sum(sums[0].values()) or not rows:
        # Classes say little here (an imported capture, say): families of kernels say more.
        return family_chart(basis) or (_class_time_chart(basis, rows, sums) if rows else None)
    return _class_time_chart(basis, rows, sums)


def _class_time_chart(
    basis: Basis, rows: Sequence[OperatorRow], sums: list[dict[str, float]]
) -> Chart | None:
    spent = sum(sums[0].values())
    if not spent:
        return None
    step = 0.0 if basis.per_capture else float(basis.time.value or 0)
    segments = _segments(sums[0])
    outside = max(step - spent, 0.0)
    if outside > 0:
        segments += (Segment("idle", "Outside the operators", outside),)
    slower = step > 0 and spent > step
    first = "Its operators" if slower or not step else "This step"
    first = "The capture" if basis.per_capture else first
    bars = [Bar(first, segments, time_text(spent + outside))]
    columns = [Column(first, source=_source([row.time_ns for row in rows]))]
    with_floor = basis.same_device and not basis.per_capture
    if with_floor and any(row.floor_ns.value is not None for row in rows):
        sums.append(_groups(basis.classes, lambda row: row.floor_ns))
        bars.append(Bar("Operator floor", _segments(sums[1]), time_text(sum(sums[1].values()))))
        columns.append(Column("Operator floor", source="theory"))
        if basis.floor.value is not None:
            whole = Segment("floor", "perfect fusion", float(basis.floor.value))
            bars.append(Bar("Step floor", (whole,), time_text(basis.floor.value)))
    described = "; ".join(f"{bar.name} {bar.total_text}" for bar in bars)
    drawing = stacked_bars(
        "where-time", "Time of one step by kind of work", described, bars, time_text
    )
    made = _twin("where-time-table", "Time of one step by kind of work", columns, sums, time_text,
                 outside)  # fmt: skip
    return Chart(drawing, _time_reading(basis, len(bars) > 1), made, _keys(sums, outside > 0))


def _time_reading(basis: Basis, with_floor: bool) -> str:
    if with_floor:
        return READING
    if basis.roof is not None and not basis.same_device:
        return (
            "A bar's length is its total. The floor is not drawn here: it is a prediction for "
            f"{basis.roof.name}, and this time was taken on another device."
        )
    reason = "not for a whole capture" if basis.per_capture else basis.floor.absent or "no roof"
    return f"A bar's length is its total. There is no floor to compare with: {reason}."


def _source(quantities: Sequence[Quantity]) -> str:
    levels = dict.fromkeys(source_text(q) for q in quantities if q.value is not None)
    return " / ".join(levels)


def _keys(sums: Sequence[dict[str, float]], idle: bool = False) -> tuple[tuple[str, str], ...]:
    names = _names()
    used = [css for css in names if any(by_group[css] > 0 for by_group in sums)]
    keys = [(css, names[css]) for css in used]
    return (*keys, ("idle", "Outside the operators")) if idle else tuple(keys)


def _twin(
    id: str,
    caption: str,
    columns: Sequence[Column],
    sums: Sequence[dict[str, float]],
    text: Callable[[float], str],
    outside: float = 0.0,
) -> Table:
    """The same numbers as a table: a row a group, with its share of the first bar."""
    whole = (sum(sums[0].values()) + outside) or 1
    rows = []
    for css, name in _keys(sums):
        cells = [Cell(text(s[css]) if s[css] else NONE, sort=s[css]) for s in sums]
        rows.append([Cell(name), *cells, Cell(percent_text(sums[0][css] / whole))])
    if outside:
        blank = [Cell(NONE) for _ in sums[1:]]
        rows.append([Cell("Outside the operators"), Cell(text(outside), sort=outside), *blank,
                     Cell(percent_text(outside / whole))])  # fmt: skip
    heads = [
        Column("Kind of work", numeric=False),
        *columns,
        Column(f"Share of {columns[0].title}"),
    ]
    return table(id, caption, heads, rows)
