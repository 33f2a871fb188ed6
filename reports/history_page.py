"""A history written down: a table for the terminal, CSV, JSON, or one self-contained HTML page."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rooflens.model import Quantity
from rooflens.reports.charts.drawing import WIDTH, Dot, Drawing, Mark, label, line
from rooflens.reports.compare.deltas import METRIC_NAMES, change_text
from rooflens.reports.compare.renderers.text import MARKS
from rooflens.reports.format import exact_text, plural, quantity_text
from rooflens.reports.history import Change, Series
from rooflens.reports.view.cells import amount, clean, table, words
from rooflens.reports.view.page import Cell, Column, Table

MAX_POINTS = 400
"""Points of one picture and rows of one table on the page; the newest are kept."""
_LEFT, _RIGHT, _TOP, _HEIGHT = 90.0, 20.0, 24.0, 220.0


@dataclass(frozen=True)
class SeriesView:
    """One series on the page."""

    heading: str
    sentence: str
    drawing: Drawing | None
    table: Table


def metric_name(series: Series) -> str:
    """What is followed, in words."""
    name = METRIC_NAMES.get(series.metric, series.metric.replace("_", " "))
    return f"{series.operator} {name}" if series.operator else name


def change_sentence(series: Series, change: Change) -> str:
    """`2026-01-02 (1a2b3c): requested bytes +1.696 GB (+12 %): attention ▲ worse`."""
    point = series.points[change.index]
    at = f"{point.created_at[:10]} ({clean(point.label or point.name, 60)})"
    who = f": {', '.join(change.operators)}" if change.operators else ""
    p = f" (p={change.p:.3f})" if change.p is not None else ""
    return f"{at}: {metric_name(series)} {change_text(change.delta)}{p}{who}"


def render_text(all_series: Sequence[Series]) -> str:
    """Print every series as a table; changes stand in the row where they begin."""
    lines = []
    for series in all_series:
        lines += [f"{metric_name(series)}: {clean(series.key)}", ""]
        changes = {change.index: change for change in series.changes}
        rows = []
        for index, point in enumerate(series.points):
            change = changes.get(index)
            note = ""
            if change is not None:
                who = f" {', '.join(change.operators)}" if change.operators else ""
                note = f"{change_text(change.delta)} {MARKS[change.delta.verdict]}{who}".strip()
            rows.append(
                [
                    point.created_at[:19].replace("T", " "),
                    clean(point.label or point.name, 40),
                    quantity_text(point.value),
                    note or (clean(point.value.absent, 60) if point.value.absent else ""),
                ]
            )
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2])]
            lines.append("  " + "  ".join([*cells, row[3]]).rstrip())
        lines += ["", f"  {_summary(series)}", ""]
    return "\n".join(lines)


def _summary(series: Series) -> str:
    count = plural(len(series.points), "run")
    if not series.changes:
        return f"{count}, no change."
    return f"{count}, {plural(len(series.changes), 'change')}."


def render_csv(all_series: Sequence[Series]) -> str:
    """One row a run, numbers unrounded and in base units."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["series", "created_at", "run", "label", "metric", "value", "unit", "source", "change",
         "operators", "absent"]
    )  # fmt: skip
    for series in all_series:
        changes = {change.index: change for change in series.changes}
        for index, point in enumerate(series.points):
            change = changes.get(index)
            row = [
                series.key, point.created_at, point.name, point.label,
                f"{series.operator}:{series.metric}" if series.operator else series.metric,
                "" if point.value.value is None else repr(point.value.value),
                point.value.unit or "", point.value.source or "",
                "" if change is None else repr(change.delta.change),
                "" if change is None else "; ".join(change.operators),
                point.value.absent or "",
            ]  # fmt: skip
            writer.writerow([_inert(cell) for cell in row])
    return out.getvalue()


def _inert(cell: str) -> str:
    """A spreadsheet must not take a foreign text for a formula; numbers stay numbers."""
    if cell[:1] in ("=", "@", "+", "-") and not _is_number(cell):
        return "'" + cell
    return cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def render_json(all_series: Sequence[Series]) -> str:
    """Every series with its points and changes."""
    import msgspec

    return json.dumps(msgspec.to_builtins(list(all_series)), indent=1) + "\n"


def render_html(all_series: Sequence[Series]) -> str:
    """One page without script or request: a picture and a table for every series."""
    from rooflens.reports.theory.rendering.page import environment

    views = [_view(series, number) for number, series in enumerate(all_series)]
    style = environment().get_template("assets/page.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = f"History of {metric_name(all_series[0])}" if all_series else "History"
    return (
        environment()
        .get_template("history.html.j2")
        .render(title=title, series=views, style_hash=f"sha256-{digest}")
    )


def _view(series: Series, number: int) -> SeriesView:
    first = max(0, len(series.points) - MAX_POINTS)
    changes = {change.index: change for change in series.changes}
    rows = []
    for index in range(first, len(series.points)):
        point, change = series.points[index], changes.get(index)
        rows.append(
            [
                words(clean(point.label or point.name, 80)),
                words(point.created_at[:19].replace("T", " ")),
                amount(point.value),
                Cell("" if change is None else change_text(change.delta)),
                words("" if change is None else ", ".join(change.operators)),
            ]
        )
    columns = (
        Column("Run", numeric=False),
        Column("Made (UTC)", numeric=False),
        Column(metric_name(series)),
        Column("Change", numeric=False),
        Column("Operators", numeric=False),
    )
    notes = (
        [f"Only the newest {MAX_POINTS} of {len(series.points)} runs are shown."] if first else []
    )
    sentences = [change_sentence(series, change) for change in series.changes[-3:]]
    return SeriesView(
        heading=clean(series.key, 200),
        sentence=_summary(series) + ("" if not sentences else " Latest: " + "; ".join(sentences)),
        drawing=_drawing(series, first, number),
        table=table(
            f"history-{number}", f"{metric_name(series)} of every run", columns, rows, notes
        ),
    )


def _drawing(series: Series, first: int, number: int) -> Drawing | None:
    """Points over runs on a linear axis from zero; a change is a vertical line with its size."""
    values = [
        (index, float(point.value.value))
        for index, point in enumerate(series.points)
        if index >= first and point.value.value is not None
    ]
    if not values:
        return None
    highest = max(value for _, value in values) or 1.0
    step = (WIDTH - _LEFT - _RIGHT) / max(len(series.points) - first - 1, 1)

    def x(index: int) -> float:
        return _LEFT + (index - first) * step

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - value / (highest * 1.1))

    marks = _axis(series, highest, y)
    for (before, one), (after, other) in pairwise(values):
        marks.append(line("axis", x(before), y(one), x(after), y(other)))
    changes = {change.index: change for change in series.changes}
    for index, value in values:
        point = series.points[index]
        tip = f"{clean(point.label or point.name, 80)}: {exact_text(point.value)}"
        css = "c1" if index in changes else "c0"
        marks.append(Dot(css, round(x(index), 1), round(y(value), 1), 5.0, False, tip))
    for index, change in changes.items():
        if index < first:
            continue
        text = change_text(change.delta)
        at_right = x(index) > WIDTH * 0.7
        marks.append(line("leader", x(index), _TOP, x(index), _TOP + _HEIGHT))
        anchor = "end" if at_right else "start"
        marks.append(label("total", x(index) + (-6 if at_right else 6), _TOP + 10, text, anchor))
    return Drawing(
        f"history-picture-{number}",
        f"{metric_name(series)} over {plural(len(values), 'run')}",
        f"{_summary(series)} The table below has the same numbers.",
        int(_TOP + _HEIGHT + 30),
        tuple(marks),
    )


def _axis(series: Series, highest: float, y: Callable[[float], float]) -> list[Mark]:
    sample = next(point.value for point in series.points if point.value.value is not None)
    marks: list[Mark] = []
    for tick in _ticks(highest):
        at = y(tick)
        text = quantity_text(Quantity(value=tick, unit=sample.unit, source=sample.source))
        marks.append(line("grid", _LEFT, at, WIDTH - _RIGHT, at))
        marks.append(label("tick", _LEFT - 8, at + 4, text, "end"))
    bottom = _TOP + _HEIGHT
    oldest, newest = series.points[0].created_at[:10], series.points[-1].created_at[:10]
    marks.append(label("tick", _LEFT, bottom + 20, oldest))
    marks.append(label("tick", WIDTH - _RIGHT, bottom + 20, newest, "end"))
    return marks


def _ticks(highest: float) -> list[float]:
    """Three to six round values from zero."""
    rough = highest / 4
    power = 10 ** math.floor(math.log10(rough))
    unit = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [unit * step for step in range(int(highest / unit) + 1)]
