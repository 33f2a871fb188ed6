"""A roofline: FLOP per byte against FLOP per second, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.reports.charts.drawing import (
    WIDTH,
    Dot,
    Drawing,
    Line,
    Mark,
    label,
    line,
    rect,
    text_width,
)
from rooflens.reports.format import flop_rate_text, tick_text

HEIGHT = 460
LEFT, RIGHT, TOP, BOTTOM = 100, 20, 20, 400
MERGE = 9.0
"""Points closer than this (view-box units) share one label."""
LABEL_HEIGHT = 15.0
NAMES_IN_LABEL = 3


@dataclass(frozen=True)
class Ceiling:
    """A pair of roofs: peak (FLOP/s) and bandwidth (B/s), with their labels."""

    peak: float
    bandwidth: float
    peak_label: str
    bandwidth_label: str
    css: str = "roof"


@dataclass(frozen=True)
class Point:
    """One dot: intensity (FLOP/B), rate (FLOP/s). `weight` (0 to 1) sets its area."""

    name: str
    intensity: float
    rate: float
    css: str
    hollow: bool = False
    weight: float = 0.0
    square: bool = False
    labelled: bool = True
    tip: str = ""
    source: str = ""
    """Evidence of the numbers, for the table beside the picture."""


@dataclass(frozen=True)
class _Axes:
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.x_low) / (self.x_high - self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.y_low) / (self.y_high - self.y_low)
        return BOTTOM - share * (BOTTOM - TOP)


def roofline(
    id: str, title: str, description: str, ceilings: Sequence[Ceiling], points: Sequence[Point]
) -> Drawing:
    """Draw ceilings and points. Points must have positive intensity and rate."""
    axes = _axes(ceilings, points)
    marks: list[Mark] = _grid(axes)
    for number, ceiling in enumerate(ceilings):
        marks += _ceiling(axes, ceiling, number)
    for point in points:
        marks.append(_dot(axes, point))
    marks += _labels(axes, points)
    return Drawing(id, title, description, HEIGHT, tuple(marks))


def _axes(ceilings: Sequence[Ceiling], points: Sequence[Point]) -> _Axes:
    xs = [p.intensity for p in points] + [c.peak / c.bandwidth for c in ceilings]
    x_low, x_high = math.log10(min(xs)) - 0.5, math.log10(max(xs)) + 0.6
    # The sloped roof is part of the picture: the axis starts no higher than where it enters.
    ys = [p.rate for p in points] + [c.peak for c in ceilings]
    ys += [c.bandwidth * 10**x_low for c in ceilings[:1]]
    return _Axes(x_low, x_high, math.log10(min(ys)) - 0.2, math.log10(max(ys)) + 0.3)


def _grid(axes: _Axes) -> list[Mark]:
    marks: list[Mark] = []
    for value in _ticks(axes.x_low, axes.x_high):
        x = axes.x(value)
        marks.append(line("grid", x, TOP, x, BOTTOM))
        marks.append(label("tick", x, BOTTOM + 18, tick_text(value), "middle"))
    for value in _ticks(axes.y_low, axes.y_high):
        y = axes.y(value)
        marks.append(line("grid", LEFT, y, WIDTH - RIGHT, y))
        marks.append(label("tick", LEFT - 8, y + 4, _rate_tick(value), "end"))
    marks.append(line("axis", LEFT, BOTTOM, WIDTH - RIGHT, BOTTOM))
    marks.append(line("axis", LEFT, TOP, LEFT, BOTTOM))
    middle = (LEFT + WIDTH - RIGHT) / 2
    marks.append(label("tick", middle, BOTTOM + 42, "intensity (FLOP per byte)", "middle"))
    return marks


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two exponents; with 2 and 5 between them where there are few."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    tens = [10.0**exponent for exponent in decades if low <= exponent <= high]
    if len(tens) >= 3:
        return tens
    steps = [step * 10.0**exponent for exponent in decades for step in (1, 2, 5)]
    return [value for value in steps if low <= math.log10(value) <= high]


def _rate_tick(rate: float) -> str:
    number, unit = flop_rate_text(rate).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _ceiling(axes: _Axes, ceiling: Ceiling, number: int) -> list[Mark]:
    ridge = ceiling.peak / ceiling.bandwidth
    start = max(10**axes.x_low, 10**axes.y_low / ceiling.bandwidth)
    x0, y0 = axes.x(start), axes.y(ceiling.bandwidth * start)
    x1, y1 = axes.x(ridge), axes.y(ceiling.peak)
    right = WIDTH - RIGHT
    # Labels of the second roof go below the line, so that two close roofs stay readable.
    above = number == 0
    marks: list[Mark] = [
        line(ceiling.css, x0, y0, x1, y1),
        line(ceiling.css, x1, y1, right, y1),
        label("roof-name", right, y1 + (-7 if above else 16), ceiling.peak_label, "end"),
    ]
    # On the slope the free space is to the upper left of the line, or the lower right of a second.
    share = 0.72 if above else 0.86
    x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
    if above and x - 12 - text_width(ceiling.bandwidth_label) > LEFT:
        marks.append(label("roof-name", x - 12, y - 6, ceiling.bandwidth_label, "end"))
    else:
        marks.append(label("roof-name", x + 14, y + 16, ceiling.bandwidth_label))
    return marks


def _dot(axes: _Axes, point: Point) -> Mark:
    x, y = axes.x(point.intensity), axes.y(point.rate)
    radius = 4 + 10 * math.sqrt(min(max(point.weight, 0.0), 1.0))
    if point.square:
        return rect(point.css, x - 3.5, y - 3.5, 7, 7, point.tip)
    return Dot(point.css, round(x, 1), round(y, 1), round(radius, 1), point.hollow, point.tip)


def _labels(axes: _Axes, points: Sequence[Point]) -> list[Mark]:
    """Name the points: near ones together, each label where nothing else is."""
    clusters: list[tuple[float, float, list[str]]] = []
    for point in points:
        if not point.labelled:
            continue
        x, y = axes.x(point.intensity), axes.y(point.rate)
        for cx, cy, names in clusters:
            if abs(cx - x) < MERGE and abs(cy - y) < MERGE:
                names.append(point.name)
                break
        else:
            clusters.append((x, y, [point.name]))
    marks: list[Mark] = []
    taken = [(axes.x(p.intensity) - 8, axes.x(p.intensity) + 8, axes.y(p.rate) + 4) for p in points]
    for x, y, names in sorted(clusters, key=lambda cluster: (cluster[1], cluster[0])):
        text = ", ".join(names[:NAMES_IN_LABEL])
        if len(names) > NAMES_IN_LABEL:
            text += f" and {len(names) - NAMES_IN_LABEL} more"
        marks += _place(x, y, text, taken)
    return marks


def _place(x: float, y: float, text: str, taken: list[tuple[float, float, float]]) -> list[Mark]:
    width = text_width(text)
    at = x + 14
    if at + width > WIDTH - RIGHT:
        at = x - 14 - width
    row = y + 16
    while any(
        abs(row - other) < LABEL_HEIGHT and at < right and at + width > left
        for left, right, other in taken
    ):
        row += LABEL_HEIGHT
    taken.append((at, at + width, row))
    marks: list[Mark] = [label("name", at, row, text)]
    near = at - 2 if at > x else at + width + 2
    marks.append(Line("leader", round(x, 1), round(y, 1), round(near, 1), round(row - 4, 1)))
    return marks
