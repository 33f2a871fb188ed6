"""Range trees and projections against the obvious loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.parsers.timeline.nesting import MAX_DEPTH, Nesting, innermost, nest, paths, project
from rooflens.parsers.timeline.trace import NONE, PUSH_POP, START_END, Int, Ranges

Row = tuple[int, int, int, int]
"""Start, end, thread, domain."""


def ranges(rows: list[Row], style: int = PUSH_POP) -> Ranges:
    table = [(low, high, thread, domain, i, style, 0)
             for i, (low, high, thread, domain) in enumerate(rows)]  # fmt: skip
    made = Ranges.from_rows(table)
    assert isinstance(made, Ranges)
    return made


@st.composite
def laminar(draw: st.DrawFn) -> list[Row]:
    """Push/pop ranges as a program makes them: per thread a stack, every event later."""
    rows: list[Row] = []
    for thread in range(draw(st.integers(1, 3))):
        clock, stack = draw(st.integers(0, 5)), []
        for push in draw(st.lists(st.booleans(), max_size=20)):
            clock += draw(st.integers(1, 3))
            if push:
                stack.append(clock)
            elif stack:
                rows.append((stack.pop(), clock, 100 + thread, 0))
        while stack:
            clock += 1
            rows.append((stack.pop(), clock, 100 + thread, 0))
    return rows


def array(values: list[int]) -> Int:
    return np.array(values, dtype=np.int64)


@given(laminar())
def test_a_parent_is_the_smallest_range_around(rows: list[Row]) -> None:
    nested = nest(ranges(rows))
    assert nested.crossing == 0
    spans = list(zip(nested.start, nested.end, nested.thread, strict=True))
    for i, (low, high, thread) in enumerate(spans):
        around = [
            (b - a, j) for j, (a, b, t) in enumerate(spans)
            if j != i and t == thread and a <= low and b >= high
        ]  # fmt: skip
        assert nested.parent[i] == (min(around)[1] if around else NONE)
        assert nested.depth[i] == len(around)


@given(laminar(), st.lists(st.tuples(st.integers(0, 70), st.integers(99, 103)), max_size=10))
def test_the_innermost_range_of_a_time(rows: list[Row], asked: list[tuple[int, int]]) -> None:
    nested = nest(ranges(rows))
    found = innermost(nested, array([t for _, t in asked]), array([at for at, _ in asked]))
    for (at, thread), index in zip(asked, found, strict=True):
        holding = [r for r in rows if r[2] == thread and r[0] <= at <= r[1]]
        if not holding:
            assert index == NONE
            continue
        # At the instant between two siblings the later one counts.
        best = min(holding, key=lambda r: (r[1] - r[0], -r[0]))
        latest = max(r[0] for r in holding)
        assert (int(nested.start[index]), int(nested.end[index])) == best[:2] or int(
            nested.start[index]
        ) == latest


@settings(max_examples=60)
@given(laminar(), st.lists(st.tuples(st.integers(0, 70), st.integers(99, 103), st.integers(0, 50)),
                           max_size=15))  # fmt: skip
def test_a_projection_spans_what_was_launched_inside(
    rows: list[Row], launches: list[tuple[int, int, int]]
) -> None:
    table = ranges(rows)
    at, thread = array([x[0] for x in launches]), array([x[1] for x in launches])
    start = array([x[0] + x[2] for x in launches])
    made = project(table.start, table.end, table.thread, at, at, thread, start, start + 3)
    for i in range(len(rows)):
        low, high, mine = int(table.start[i]), int(table.end[i]), int(table.thread[i])
        inside = [x for x in launches if x[1] == mine and low <= x[0] <= high]
        assert made.operations[i] == len(inside)
        assert made.duration_sum[i] == 3 * len(inside)
        if inside:
            assert made.start[i] == min(x[0] + x[2] for x in inside)
            assert made.end[i] == max(x[0] + x[2] for x in inside) + 3


def test_empty_ranges_and_equal_starts_keep_their_order() -> None:
    rows = [(0, 10, 1, 0), (0, 10, 1, 0), (5, 5, 1, 0), (5, 8, 1, 0), (10, 12, 1, 0)]
    nested = nest(ranges(rows))
    assert nested.crossing == 0
    assert nested.depth.tolist() == [0, 1, 2, 3, 0]


def test_crossing_domains_keep_ours_and_say_how_many_they_drop() -> None:
    rows = [(0, 10, 1, 1), (5, 15, 1, 2), (2, 4, 1, 1), (20, 30, 2, 2)]
    nested = nest(ranges(rows), first_domain=1)
    assert nested.crossing == 1
    kept = set(zip(nested.start.tolist(), nested.end.tolist(), strict=True))
    assert kept == {(0, 10), (2, 4), (20, 30)}


def test_start_end_ranges_are_in_no_tree() -> None:
    assert nest(ranges([(0, 10, 1, 0)], style=START_END)).row.size == 0


def chain(depth: int) -> Nesting:
    return nest(ranges([(i, 2 * depth - i, 1, 0) for i in range(depth)]))


def test_deep_ranges_share_the_path_of_their_ancestor() -> None:
    nested = chain(MAX_DEPTH + 50)
    ids, table = paths(nested, np.zeros(nested.row.size, dtype=np.int64))
    assert max(len(path) for path in table) == MAX_DEPTH
    assert ids[-1] == ids[MAX_DEPTH - 1]
