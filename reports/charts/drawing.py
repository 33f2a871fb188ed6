"""The marks a picture is made of. Coordinates are in view-box units, y grows downwards.

Colours are CSS classes of the page (`c0` to `c4` for groups, `rest`, `idle`), so that light, dark
and print need no second drawing. `idle` is drawn as stripes: it reads without colour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

WIDTH = 960
"""Width of every picture; the page scales it to the column."""


@dataclass(frozen=True)
class Rect:
    """A filled box; `tip` is shown on hover."""

    kind: ClassVar[str] = "rect"
    css: str
    x: float
    y: float
    width: float
    height: float
    tip: str = ""


@dataclass(frozen=True)
class Line:
    """A straight line; with `thickness` a bar of stripes (for idle time)."""

    kind: ClassVar[str] = "line"
    css: str
    x1: float
    y1: float
    x2: float
    y2: float
    thickness: float = 0
    tip: str = ""


@dataclass(frozen=True)
class Dot:
    """A point of a scatter plot; `hollow` for predicted or theoretical places."""

    kind: ClassVar[str] = "dot"
    css: str
    x: float
    y: float
    radius: float
    hollow: bool = False
    tip: str = ""


@dataclass(frozen=True)
class Label:
    """Text at a point; `anchor` is start, middle or end."""

    kind: ClassVar[str] = "label"
    css: str
    x: float
    y: float
    text: str
    anchor: str = "start"


Mark = Rect | Line | Dot | Label


@dataclass(frozen=True)
class Drawing:
    """A picture with its text alternative; `id` is unique on the page."""

    id: str
    title: str
    description: str
    height: int
    marks: tuple[Mark, ...]
    width: int = field(default=WIDTH)


def rect(css: str, x: float, y: float, width: float, height: float, tip: str = "") -> Rect:
    """A box with coordinates rounded to a tenth (keeps the page small)."""
    return Rect(css, round(x, 1), round(y, 1), round(max(width, 0.0), 1), round(height, 1), tip)


def stripes(x: float, y: float, width: float, height: float, tip: str = "") -> Line:
    """A box of stripes from `x` on: time in which nothing ran."""
    middle = round(y + height / 2, 1)
    return Line("idle", round(x, 1), middle, round(x + width, 1), middle, round(height, 1), tip)


def line(css: str, x1: float, y1: float, x2: float, y2: float) -> Line:
    """A thin line."""
    return Line(css, round(x1, 1), round(y1, 1), round(x2, 1), round(y2, 1))


def label(css: str, x: float, y: float, text: str, anchor: str = "start") -> Label:
    """Text at a point."""
    return Label(css, round(x, 1), round(y, 1), text, anchor)


def text_width(text: str, size: float = 12) -> float:
    """Estimate how wide text prints in a system sans-serif font (0.56 em a character)."""
    return 0.56 * size * len(text)
