"""A waterfall: a floor, the losses on top of it one after the other, and the measured total."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rooflens.reports.charts.drawing import WIDTH, Drawing, Mark, label, line, rect, stripes

LEFT = 210
RIGHT = 130
BAR = 26
PITCH = 38
TOP = 8


@dataclass(frozen=True)
class Stage:
    """One row: `value` starts where the last one ended; a `whole` row starts at zero."""

    name: str
    value: float
    css: str
    whole: bool = False


def waterfall(
    id: str, title: str, description: str, stages: Sequence[Stage], text: Callable[[float], str]
) -> Drawing:
    """Draw stages on one scale. A negative stage runs backwards."""
    ends: list[tuple[float, float]] = []
    level = 0.0
    for stage in stages:
        start = 0.0 if stage.whole else level
        level = start + stage.value
        ends.append((min(start, level), max(start, level)))
    low = min([0.0, *(start for start, _ in ends)])
    scale = (WIDTH - LEFT - RIGHT) / ((max(end for _, end in ends) - low) or 1)
    marks: list[Mark] = []
    for index, (stage, (start, end)) in enumerate(zip(stages, ends, strict=True)):
        y = TOP + index * PITCH
        x = LEFT + (start - low) * scale
        width = max((end - start) * scale, 1.0)
        tip = f"{stage.name}: {text(stage.value)}"
        bar = stripes(x, y, width, BAR, tip) if stage.css == "idle" else rect(
            stage.css, x, y, width, BAR, tip)  # fmt: skip
        marks.append(bar)
        marks.append(label("name", LEFT - 10, y + BAR / 2 + 4, stage.name, "end"))
        marks.append(label("total", x + width + 8, y + BAR / 2 + 4, text(stage.value)))
    bottom = TOP + len(stages) * PITCH
    axis = LEFT - low * scale
    marks.append(line("axis", axis, TOP - 4, axis, bottom - 8))
    return Drawing(id, title, description, bottom, tuple(marks))
