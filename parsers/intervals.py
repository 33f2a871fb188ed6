"""Interval algebra on sorted integer nanoseconds: unions, overlaps, gaps, coverage.

A set of intervals is a pair of equally long int64 arrays (starts, ends), half open [start, end).
`union` makes it *normal*: sorted, disjoint, not touching, none empty. All other functions want
normal sets unless they say otherwise. Everything is vectorised: O(n log n) time, O(n) memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]


class Intervals(NamedTuple):
    """Starts and ends (int64 ns), of equal length."""

    starts: Int
    ends: Int


def intervals(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Intervals:
    """Make a pair of arrays; nothing is sorted or merged."""
    return Intervals(np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64))


EMPTY = intervals([], [])


def union(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Intervals:
    """Merge any intervals into a normal set. Empty and backward intervals vanish."""
    low, high = intervals(starts, ends)
    keep = high > low
    low, high = low[keep], high[keep]
    if not low.size:
        return EMPTY
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    first = np.empty(low.size, dtype=bool)
    first[0] = True
    np.greater(low[1:], high[:-1], out=first[1:])
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:], low.size) - 1
    return Intervals(low[heads], high[tails])


def total(normal: Intervals) -> int:
    """Length of a normal set in ns."""
    return int((normal.ends - normal.starts).sum())


def merge(*sets: Intervals) -> Intervals:
    """Union of several sets."""
    return union(
        np.concatenate([s.starts for s in sets]) if sets else EMPTY.starts,
        np.concatenate([s.ends for s in sets]) if sets else EMPTY.ends,
    )


def clip(normal: Intervals, start: int, end: int) -> Intervals:
    """The part of a normal set inside [start, end)."""
    first = int(np.searchsorted(normal.ends, start, side="right"))
    last = int(np.searchsorted(normal.starts, end, side="left"))
    return Intervals(
        np.maximum(normal.starts[first:last], start), np.minimum(normal.ends[first:last], end)
    )


def gaps(normal: Intervals, start: int, end: int) -> Intervals:
    """The complement of a normal set inside [start, end)."""
    if end <= start:
        return EMPTY
    inside = clip(normal, start, end)
    low = np.concatenate([np.array([start], dtype=np.int64), inside.ends])
    high = np.concatenate([inside.starts, np.array([end], dtype=np.int64)])
    keep = high > low
    return Intervals(low[keep], high[keep])


def subtract(normal: Intervals, other: Intervals) -> Intervals:
    """What of one normal set lies outside the other."""
    if not normal.starts.size:
        return EMPTY
    return intersect(normal, gaps(other, int(normal.starts[0]), int(normal.ends[-1])))


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """What two normal sets have in common."""
    first = np.searchsorted(other.ends, one.starts, side="right")
    last = np.searchsorted(other.starts, one.ends, side="left")
    counts = np.maximum(last - first, 0)
    which = np.repeat(np.arange(one.starts.size), counts)
    within = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
    there = np.repeat(first, counts) + within
    return Intervals(
        np.maximum(one.starts[which], other.starts[there]),
        np.minimum(one.ends[which], other.ends[there]),
    )


def covered(normal: Intervals, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Int:
    """Length of a normal set inside each of many windows (any order, may overlap)."""
    low, high = intervals(starts, ends)
    inside = _covered_before(normal, high) - _covered_before(normal, low)
    return np.asarray(np.maximum(inside, 0), dtype=np.int64)


def _covered_before(normal: Intervals, times: Int) -> Int:
    """Length of a normal set before each time."""
    if not normal.starts.size:
        return np.zeros(times.shape, dtype=np.int64)
    lengths = normal.ends - normal.starts
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    index = np.searchsorted(normal.starts, times, side="right")
    last = np.maximum(index - 1, 0)
    over = np.where(index > 0, np.maximum(normal.ends[last] - times, 0), 0)
    return np.asarray(before[index] - over, dtype=np.int64)


def range_min_max(values_min: Int, values_max: Int, low: Int, high: Int) -> tuple[Int, Int]:
    """Minimum of one and maximum of the other array over many slices [low, high).

    Every slice must hold something. A sparse table is built level by level and only the present
    level is kept: O((n + queries) log n) time, O(n + queries) memory.
    """
    lengths = high - low
    levels = np.frexp(lengths.astype(np.float64))[1] - 1
    smallest = np.empty(low.size, dtype=np.int64)
    largest = np.empty(low.size, dtype=np.int64)
    lows, highs = values_min, values_max
    top = int(levels.max()) if levels.size else -1
    for level in range(top + 1):
        span = 1 << level
        pick = np.flatnonzero(levels == level)
        one, other = low[pick], high[pick] - span
        smallest[pick] = np.minimum(lows[one], lows[other])
        largest[pick] = np.maximum(highs[one], highs[other])
        if level < top:
            lows = np.minimum(lows[:-span], lows[span:])
            highs = np.maximum(highs[:-span], highs[span:])
    return smallest, largest
