"""Curves over logarithmic axes, drawn with the marks of reports/charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rooflens.reports.charts.drawing import (
    WIDTH,
    Dot,
    Drawing,
    Mark,
    label,
    line,
    rect,
)

HEIGHT = 440
LEFT, RIGHT, TOP, BOTTOM = 84, 210, 20, 380
LABEL_HEIGHT = 14.0


@dataclass(frozen=True)
class Curve:
    """One line through points (x, y), both above 0; its name stands at its right end."""

    name: str
    css: str
    points: tuple[tuple[float, float], ...]
    thin: bool = False
    """A reference line, such as a ridge."""


@dataclass(frozen=True)
class Ring:
    """A place on a curve that matters, such as a crossing."""

    x: float
    y: float
    tip: str


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def curves(
    id: str,
    title: str,
    description: str,
    *,
    lines: Sequence[Curve],
    rings: Sequence[Ring] = (),
    measured: Sequence[Ring] = (),
    x_title: str,
    y_text: Callable[[float], str],
    x_ticks: Sequence[float],
) -> Drawing:
    """Draw curves, rings at crossings and squares at measured points."""
    xs = [x for curve in lines for x, _ in curve.points]
    ys = [y for curve in lines for _, y in curve.points] + [m.y for m in measured]
    x_axis = _axis(xs, LEFT, WIDTH - RIGHT, 0.02)
    y_axis = _axis(ys, BOTTOM, TOP, 0.08)
    marks = [*_grid(x_axis, y_axis, x_title, y_text, x_ticks)]
    for curve in lines:
        css = f"curve {curve.css}" + (" thin" if curve.thin else "")
        at = [(x_axis(x), y_axis(y)) for x, y in curve.points]
        marks += [line(css, x1, y1, x2, y2) for (x1, y1), (x2, y2) in pairwise(at)]
        if len(at) == 1:
            marks.append(Dot(curve.css, round(at[0][0], 1), round(at[0][1], 1), 3.5))
    for ring in rings:
        x, y = round(x_axis(ring.x), 1), round(y_axis(ring.y), 1)
        marks.append(Dot("crossing", x, y, 6, tip=ring.tip))
    for point in measured:
        x, y = x_axis(point.x), y_axis(point.y)
        marks.append(rect("step", x - 4, y - 4, 8, 8, point.tip))
    marks += _names(lines, x_axis, y_axis)
    return Drawing(id, title, description, HEIGHT, tuple(marks))


def _axis(values: Sequence[float], start: float, end: float, margin: float) -> _Axis:
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 0.3:
        low, high = low - 0.15, high + 0.15
    room = margin * (high - low)
    return _Axis(low - room, high + room, start, end)


def _grid(
    x_axis: _Axis, y_axis: _Axis, x_title: str, y_text: Callable[[float], str],
    x_ticks: Sequence[float],
) -> list[Mark]:  # fmt: skip
    marks: list[Mark] = []
    free = -math.inf
    for value in x_ticks:
        x, text = x_axis(value), f"{value:,.0f}"
        if x - 4 * len(text) > free:  # leave out a tick whose label would touch the one before
            marks.append(line("grid", x, TOP, x, BOTTOM))
            marks.append(label("tick", x, BOTTOM + 18, text, "middle"))
            free = x + 4 * len(text)
    for value in _ticks(y_axis):
        y = y_axis(value)
        marks.append(line("grid", LEFT, y, WIDTH - RIGHT, y))
        marks.append(label("tick", LEFT - 8, y + 4, y_text(value), "end"))
    marks.append(line("axis", LEFT, BOTTOM, WIDTH - RIGHT, BOTTOM))
    marks.append(line("axis", LEFT, TOP, LEFT, BOTTOM))
    marks.append(label("tick", (LEFT + WIDTH - RIGHT) / 2, BOTTOM + 42, x_title, "middle"))
    return marks


def _ticks(axis: _Axis) -> list[float]:
    """Powers of ten; with 2 and 5 between where there are few."""
    decades = range(math.floor(axis.low), math.ceil(axis.high) + 1)
    steps = (1,) if axis.high - axis.low > 2.5 else (1, 2, 5)
    values = [step * 10.0**exponent for exponent in decades for step in steps]
    return [v for v in values if axis.low <= math.log10(v) <= axis.high]


def _names(lines: Sequence[Curve], x_axis: _Axis, y_axis: _Axis) -> list[Mark]:
    """Each curve's name at its right end, pushed apart where they would overlap."""
    ends = sorted((y_axis(c.points[-1][1]), x_axis(c.points[-1][0]), c.name) for c in lines)
    marks: list[Mark] = []
    rows: list[float] = []
    for y, _, _ in ends:
        rows.append(max(y, rows[-1] + LABEL_HEIGHT) if rows else y)
    overflow = rows[-1] - (BOTTOM + 8) if rows else 0
    if overflow > 0:  # too low: push the last ones up again
        limit = BOTTOM + 8.0
        for i in range(len(rows) - 1, -1, -1):
            rows[i] = min(rows[i], limit)
            limit = rows[i] - LABEL_HEIGHT
    for (y, x, name), row in zip(ends, rows, strict=True):
        marks.append(line("leader", x + 2, y, WIDTH - RIGHT + 12, row))
        marks.append(label("name", WIDTH - RIGHT + 16, row + 4, name))
    return marks
