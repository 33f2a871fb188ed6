"""Horizontal stacked bars on one scale: where the time or the bytes go, with the floor below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rooflens.reports.charts.drawing import (
    WIDTH,
    Drawing,
    Mark,
    label,
    line,
    rect,
    stripes,
    text_width,
)

LEFT = 130
RIGHT = 100
BAR = 34
PITCH = 56
TOP = 10


@dataclass(frozen=True)
class Segment:
    """A piece of a bar. `css` "idle" is drawn as stripes."""

    css: str
    name: str
    value: float


@dataclass(frozen=True)
class Bar:
    """A bar with its name at the left and its total at the right."""

    name: str
    segments: tuple[Segment, ...]
    total_text: str


def stacked_bars(
    id: str, title: str, description: str, bars: Sequence[Bar], text: Callable[[float], str]
) -> Drawing:
    """Draw bars from zero on one scale; `text` prints a segment's value."""
    longest = max((sum(s.value for s in bar.segments) for bar in bars), default=0) or 1
    scale = (WIDTH - LEFT - RIGHT) / longest
    marks: list[Mark] = []
    for index, bar in enumerate(bars):
        y = TOP + index * PITCH
        marks.append(label("name", LEFT - 10, y + BAR / 2 + 4, bar.name, "end"))
        end = _bar(marks, bar, y, scale, text)
        marks.append(label("total", end + 8, y + BAR / 2 + 4, bar.total_text))
    bottom = TOP + len(bars) * PITCH - (PITCH - BAR)
    marks.append(line("axis", LEFT, TOP - 4, LEFT, bottom + 4))
    return Drawing(id, title, description, bottom + 14, tuple(marks))


def _bar(
    marks: list[Mark], bar: Bar, y: float, scale: float, text: Callable[[float], str]
) -> float:
    x = float(LEFT)
    for segment in bar.segments:
        width = segment.value * scale
        tip = f"{segment.name}: {text(segment.value)}"
        # One unit of the background between two segments keeps them apart without an outline.
        inner = max(width - 1, 0.4)
        if segment.css == "idle":
            marks.append(stripes(x, y, inner, BAR, tip))
        else:
            marks.append(rect(segment.css, x, y, inner, BAR, tip))
        if text_width(segment.name, 12) + 8 < width:
            css = "on-idle" if segment.css == "idle" else f"on-{segment.css}"
            marks.append(label(css, x + 6, y + BAR / 2 + 4, segment.name))
        x += width
    return x
