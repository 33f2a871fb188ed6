"""Interval algebra against sets of integers, which cannot be wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rooflens.parsers.intervals import (
    Intervals,
    clip,
    covered,
    gaps,
    intersect,
    merge,
    range_min_max,
    subtract,
    total,
    union,
)

Pairs = list[tuple[int, int]]
PAIRS = st.lists(st.tuples(st.integers(-30, 60), st.integers(-30, 60)), max_size=12)


def points(pairs: Pairs) -> set[int]:
    return {i for low, high in pairs for i in range(low, high)}


def made(pairs: Pairs) -> Intervals:
    return union([low for low, _ in pairs], [high for _, high in pairs])


def inside(normal: Intervals) -> set[int]:
    return points(list(zip(normal.starts.tolist(), normal.ends.tolist(), strict=True)))


@given(PAIRS)
def test_a_union_holds_the_same_points_and_is_normal(pairs: Pairs) -> None:
    normal = made(pairs)
    assert inside(normal) == points(pairs)
    assert total(normal) == len(points(pairs))
    assert np.all(normal.ends > normal.starts)
    assert np.all(normal.starts[1:] > normal.ends[:-1])


@given(PAIRS)
def test_a_union_of_a_union_changes_nothing(pairs: Pairs) -> None:
    normal = made(pairs)
    again = union(normal.starts, normal.ends)
    assert again.starts.tolist() == normal.starts.tolist()
    assert again.ends.tolist() == normal.ends.tolist()


@given(PAIRS, PAIRS)
def test_intersection_difference_and_merge(one: Pairs, other: Pairs) -> None:
    a, b = made(one), made(other)
    assert inside(intersect(a, b)) == points(one) & points(other)
    assert inside(subtract(a, b)) == points(one) - points(other)
    assert inside(merge(a, b)) == points(one) | points(other)
    assert total(intersect(a, b)) == total(a) + total(b) - total(merge(a, b))


@given(PAIRS, st.integers(-40, 70), st.integers(0, 60))
def test_gaps_and_clip_split_a_window(pairs: Pairs, start: int, length: int) -> None:
    normal, end = made(pairs), start + length
    window = set(range(start, end))
    assert inside(clip(normal, start, end)) == points(pairs) & window
    assert inside(gaps(normal, start, end)) == window - points(pairs)


@given(PAIRS, PAIRS)
def test_coverage_of_many_windows(pairs: Pairs, windows: Pairs) -> None:
    found = covered(made(pairs), [low for low, _ in windows], [high for _, high in windows])
    assert found.tolist() == [len(points(pairs) & set(range(*window))) for window in windows]


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=40), st.data())
def test_minimum_and_maximum_of_slices(values: list[int], data: st.DataObject) -> None:
    low = st.integers(0, len(values) - 1)
    slices = [
        (a, data.draw(st.integers(a + 1, len(values))))
        for a in data.draw(st.lists(low, max_size=8))
    ]
    array = np.array(values, dtype=np.int64)
    first = np.array([a for a, _ in slices], dtype=np.int64)
    last = np.array([b for _, b in slices], dtype=np.int64)
    smallest, largest = range_min_max(array, array, first, last)
    assert smallest.tolist() == [min(values[a:b]) for a, b in slices]
    assert largest.tolist() == [max(values[a:b]) for a, b in slices]
