"""A timeline strip: rows of shapes over one step, with the gaps hatched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rooflens.model import Gap, Shape
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
from rooflens.reports.format import time_text

MAX_SHAPES = 2000
MAX_ROWS = 14
DEVICE_KINDS = ("kernel", "copy", "memcpy", "memset", "communication", "graph")
"""Shapes in whose rows a gap is drawn."""
MAX_GAPS = 200
LEFT = 150
RIGHT = 14
ROW = 20
PITCH = 26
TOP = 10


def strip(
    id: str,
    title: str,
    description: str,
    length_ns: float,
    shapes: Sequence[Shape],
    gaps: Sequence[Gap],
    css: Mapping[str, str],
) -> Drawing:
    """Draw one step of `length_ns`. `css` maps a shape's kind to its colour class."""
    scale = (WIDTH - LEFT - RIGHT) / (length_ns or 1)
    rows = list(dict.fromkeys(shape.row for shape in shapes))[:MAX_ROWS]
    marks: list[Mark] = []
    for index, row in enumerate(rows):
        y = TOP + index * PITCH
        marks.append(label("name", LEFT - 8, y + 14, row[:22], "end"))
        marks.append(line("grid", LEFT, y + ROW + 2, WIDTH - RIGHT, y + ROW + 2))
    device = [i for i, row in enumerate(rows) if _on_device(row, shapes)] or list(range(len(rows)))
    top, last = TOP + device[0] * PITCH if rows else TOP, device[-1] if rows else 0
    for gap in sorted(gaps, key=lambda gap: -gap.duration_ns)[:MAX_GAPS]:
        x = LEFT + gap.start_ns * scale
        tip = f"idle {time_text(gap.duration_ns)}: {gap.cause}"
        height = TOP + last * PITCH + ROW - top
        marks.append(stripes(x, top, max(gap.duration_ns * scale, 0.6), height, tip))
    for shape in merged([shape for shape in shapes if shape.row in rows], length_ns):
        y = TOP + rows.index(shape.row) * PITCH
        x, width = LEFT + shape.start_ns * scale, max(shape.duration_ns * scale, 0.4)
        colour = css.get(shape.kind, "rest")
        tip = f"{shape.label[:80]}: {time_text(shape.duration_ns)}" if width > 1.5 else ""
        marks.append(rect(colour, x, y, width, ROW, tip))
        if text_width(shape.label, 11) + 6 < width:
            marks.append(label(f"on-{colour} small", x + 3, y + 14, shape.label))
    bottom = TOP + len(rows) * PITCH + 4
    marks += _time_axis(length_ns, scale, bottom)
    return Drawing(id, title, description, bottom + 26, tuple(marks))


def _on_device(row: str, shapes: Sequence[Shape]) -> bool:
    return any(shape.row == row and shape.kind in DEVICE_KINDS for shape in shapes)


def merged(shapes: Sequence[Shape], length_ns: float) -> list[Shape]:
    """Join neighbours of one row and kind until at most 2,000 shapes are left.

    Shapes nearer than a growing fraction of the step become one; the longest label stays.
    """
    made = list(shapes)
    near = length_ns / 4000
    while len(made) > MAX_SHAPES:
        made = _join(shapes, near)
        near *= 2
    return made


def _join(shapes: Sequence[Shape], near: float) -> list[Shape]:
    made: list[Shape] = []
    last: dict[tuple[str, str], int] = {}
    for shape in sorted(shapes, key=lambda shape: shape.start_ns):
        key = (shape.row, shape.kind)
        index = last.get(key)
        if index is not None:
            before = made[index]
            end = before.start_ns + before.duration_ns
            if shape.start_ns - end <= near:
                stop = max(end, shape.start_ns + shape.duration_ns)
                longer = before if before.duration_ns >= shape.duration_ns else shape
                made[index] = Shape(
                    row=shape.row,
                    kind=shape.kind,
                    label=longer.label,
                    start_ns=before.start_ns,
                    duration_ns=stop - before.start_ns,
                )
                continue
        last[key] = len(made)
        made.append(shape)
    return made


def _time_axis(length_ns: float, scale: float, y: float) -> list[Mark]:
    marks: list[Mark] = [line("axis", LEFT, y, WIDTH - RIGHT, y)]
    for part in range(5):
        at = length_ns * part / 4
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        x = LEFT + at * scale
        marks.append(line("axis", x, y, x, y + 5))
        marks.append(label("tick", x, y + 19, time_text(at), anchor))
    return marks
