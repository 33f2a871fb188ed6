"""Pictures keep their proportions and stay inside their frame."""

from __future__ import annotations

import math

import pytest

from rooflens.model import Gap, Shape
from rooflens.reports.charts.bars import Bar, Segment, stacked_bars
from rooflens.reports.charts.drawing import Dot, Drawing, Label, Line, Rect
from rooflens.reports.charts.roofline import Ceiling, Point, roofline
from rooflens.reports.charts.strip import MAX_SHAPES, merged, strip
from rooflens.reports.charts.waterfall import Stage, waterfall
from rooflens.reports.format import bytes_text, time_text


def inside(drawing: Drawing) -> None:
    for mark in drawing.marks:
        if isinstance(mark, Rect):
            assert 0 <= mark.x <= mark.x + mark.width <= drawing.width
            assert 0 <= mark.y <= mark.y + mark.height <= drawing.height
        if isinstance(mark, Line):
            assert all(0 <= x <= drawing.width for x in (mark.x1, mark.x2))
            assert all(0 <= y <= drawing.height for y in (mark.y1, mark.y2))
        if isinstance(mark, Dot | Label):
            assert 0 <= mark.x <= drawing.width
            assert 0 <= mark.y <= drawing.height


def test_bars_share_one_scale() -> None:
    bars = [
        Bar("a", (Segment("c0", "x", 300), Segment("idle", "y", 100)), "400"),
        Bar("b", (Segment("c0", "x", 200),), "200"),
    ]
    drawing = stacked_bars("id", "t", "d", bars, bytes_text)
    inside(drawing)
    first, second = (mark for mark in drawing.marks if isinstance(mark, Rect))
    assert (first.width + 1) / (second.width + 1) == pytest.approx(1.5, rel=1e-2)
    idle = next(mark for mark in drawing.marks if isinstance(mark, Line) and mark.css == "idle")
    assert (idle.x2 - idle.x1 + 1) / (first.width + 1) == pytest.approx(1 / 3, rel=1e-2)


def test_a_waterfall_row_starts_where_the_last_one_ends() -> None:
    stages = [
        Stage("floor", 100, "floor"),
        Stage("extra", 50, "c0"),
        Stage("negative", -30, "c1"),
        Stage("all", 120, "c4", whole=True),
    ]
    drawing = waterfall("id", "t", "d", stages, time_text)
    inside(drawing)
    floor, extra, negative, whole = (m for m in drawing.marks if isinstance(m, Rect))
    assert floor.x + floor.width == pytest.approx(extra.x, abs=0.2)
    assert extra.x + extra.width == pytest.approx(negative.x + negative.width, abs=0.2)
    assert negative.x == pytest.approx(whole.x + whole.width, abs=0.2)


def test_a_point_on_the_roof_is_drawn_on_the_roof_line() -> None:
    ceiling = Ceiling(peak=1e14, bandwidth=1e12, peak_label="p", bandwidth_label="b")
    points = [Point("low", 1.0, 1e12, "c0"), Point("half", 10.0, 5e12, "c0")]
    drawing = roofline("id", "t", "d", [ceiling], points)
    inside(drawing)
    slope = next(m for m in drawing.marks if isinstance(m, Line) and m.css == "roof")
    low, half = (mark for mark in drawing.marks if isinstance(mark, Dot))

    def roof_y(x: float) -> float:
        return slope.y1 + (slope.y2 - slope.y1) * (x - slope.x1) / (slope.x2 - slope.x1)

    assert low.y == pytest.approx(roof_y(low.x), abs=0.5)
    decade = (roof_y(low.x) - roof_y(half.x)) / 1.0
    assert half.y - roof_y(half.x) == pytest.approx(decade * math.log10(2), abs=0.5)


def test_labels_of_a_roofline_do_not_overlap() -> None:
    ceiling = Ceiling(peak=1e14, bandwidth=1e12, peak_label="p", bandwidth_label="b")
    points = [Point(f"operator {n}", 1.0 + n / 30, 1e12, "c0") for n in range(12)]
    drawing = roofline("id", "t", "d", [ceiling], points)
    names = [m for m in drawing.marks if isinstance(m, Label) and m.css == "name"]
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            assert abs(one.y - other.y) >= 14 or abs(one.x - other.x) > 60


def shapes(count: int) -> list[Shape]:
    return [
        Shape(row=f"r{n % 3}", start_ns=n * 10.0, duration_ns=8.0, label=f"k{n}", kind="kernel")
        for n in range(count)
    ]


def test_a_strip_has_at_most_2000_shapes_and_covers_the_same_time() -> None:
    many = shapes(30_000)
    few = merged(many, 300_000)
    assert len(few) <= MAX_SHAPES
    for row in ("r0", "r1", "r2"):
        before = [s for s in many if s.row == row]
        after = [s for s in few if s.row == row]
        assert min(s.start_ns for s in after) == min(s.start_ns for s in before)
        assert max(s.start_ns + s.duration_ns for s in after) == max(
            s.start_ns + s.duration_ns for s in before
        )
    inside(strip("id", "t", "d", 300_000, many, [], {"kernel": "c0"}))


def test_few_shapes_are_left_as_they_are() -> None:
    assert merged(shapes(100), 1000) == shapes(100)


def test_gaps_are_stripes_over_device_rows_only() -> None:
    host = Shape(row="host", start_ns=0, duration_ns=100, label="h", kind="launch")
    device = Shape(row="stream", start_ns=0, duration_ns=50, label="k", kind="kernel")
    gap = Gap(start_ns=50, duration_ns=50, cause="launch latency")
    drawing = strip("id", "t", "d", 100, [host, device], [gap], {"kernel": "c0"})
    idle = next(m for m in drawing.marks if isinstance(m, Line) and m.css == "idle")
    stream = [m for m in drawing.marks if isinstance(m, Rect)][1]
    assert idle.thickness == stream.height
    assert idle.y1 == pytest.approx(stream.y + stream.height / 2)
    assert idle.x1 == pytest.approx(stream.x + stream.width, abs=0.2)
