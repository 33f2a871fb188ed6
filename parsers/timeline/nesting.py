"""Host ranges as trees, and which ranges hold which launches.

Push/pop ranges of one thread and one domain nest. Ranges of several domains on one thread nest in
practice too (calls return in order); where they cross, the ranges of the minor domain are left out
of paths and counted in `Nesting.crossing`. Start/end ranges belong to no stack: they are projected
by thread and never part of a path.

One sweep for all threads: events are sorted by (thread, time), a running sum gives depths, and the
parent of a range is the last range opened one level above it. O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rooflens.parsers.intervals import range_min_max
from rooflens.parsers.timeline.trace import NONE, PUSH_POP, Int, Ranges

MAX_DEPTH = 64
"""Deeper ranges are counted, but share the path of their ancestor at this depth."""


@dataclass(frozen=True)
class Nesting:
    """Ranges that form trees (rows of `Ranges`), sorted by thread, start and -end."""

    row: Int
    """Row of Trace.ranges."""
    start: Int
    end: Int
    thread: Int
    """Dense thread number, see `threads`."""
    depth: Int
    """0 for an outermost range."""
    parent: Int
    """Index into this table, NONE for an outermost range."""
    threads: Int
    """Thread ids; `thread` indexes them."""
    crossing: int
    """Push/pop ranges left out because they cross others of their thread."""


def nest(ranges: Ranges, first_domain: int = 0) -> Nesting:
    """Build the trees of push/pop ranges. `first_domain` wins where domains cross."""
    rows = np.flatnonzero((ranges.style == PUSH_POP) & (ranges.crosses == 0))
    threads, thread = np.unique(ranges.thread[rows], return_inverse=True)
    nested = _tree(ranges, rows, thread.astype(np.int64), threads)
    bad = _crossing(nested)
    dropped = 0
    if bad.size:
        keep = _keep_domains(ranges, rows, thread, np.unique(nested.thread[bad]), first_domain)
        dropped += int(rows.size - keep.sum())
        rows, thread = rows[keep], thread[keep]
        nested = _tree(ranges, rows, thread.astype(np.int64), threads)
        bad = _crossing(nested)
    while bad.size:  # malformed even inside one domain: drop the ranges that cross their parent
        keep = np.ones(rows.size, dtype=bool)
        keep[np.isin(rows, nested.row[bad])] = False
        dropped += int(bad.size)
        rows, thread = rows[keep], thread[keep]
        nested = _tree(ranges, rows, thread.astype(np.int64), threads)
        bad = _crossing(nested)
    return Nesting(**{**vars(nested), "crossing": dropped})


def _tree(ranges: Ranges, rows: Int, thread: Int, threads: Int) -> Nesting:
    start, end = ranges.start[rows], ranges.end[rows]
    order = np.lexsort((-end, start, thread))
    rows, start, end, thread = rows[order], start[order], end[order], thread[order]
    depth = _depths(start, end, thread)
    parent = _parents(depth, thread)
    return Nesting(rows, start, end, thread, depth, parent, threads, 0)


def _depths(start: Int, end: Int, thread: Int) -> Int:
    """Open ranges of the same thread at each start (ends at the same instant count as closed)."""
    n = start.size
    if not n:
        return np.empty(0, dtype=np.int64)
    closing = np.lexsort((end, thread))
    # Ends that precede each start within the thread; equal instants close before they open, except
    # for empty ranges, which open first (their own end must not count against them).
    keys_end = _Keys(thread[closing], end[closing])
    closed = keys_end.count_before(thread, start, inclusive=True)
    first = np.searchsorted(thread, thread, side="left")
    empty_before = _empties_here(start, end, thread)
    opened = np.arange(n) - first
    return np.asarray(np.maximum(opened - closed + empty_before, 0), dtype=np.int64)


def _empties_here(start: Int, end: Int, thread: Int) -> Int:
    """Ends at or before a start that belong to ranges sorted at or after it (empty ranges)."""
    n = start.size
    empty = (end <= start).astype(np.int64)
    if not empty.any():
        return np.zeros(n, dtype=np.int64)
    # Empty ranges sort behind the longer ones of the same start; count those from here on.
    group = np.concatenate([[True], (start[1:] != start[:-1]) | (thread[1:] != thread[:-1])])
    ids = np.cumsum(group) - 1
    totals = np.bincount(ids, weights=empty).astype(np.int64)
    running = np.cumsum(empty) - empty
    heads = running[np.flatnonzero(group)]
    return np.asarray(totals[ids] - (running - heads[ids]), dtype=np.int64)


class _Keys:
    """(thread, time) pairs in sorted order, searchable all at once."""

    def __init__(self, thread: Int, time: Int) -> None:
        self.thread, self.time = thread, time

    def count_before(self, thread: Int, time: Int, inclusive: bool) -> Int:
        """How many pairs of the same thread lie before each time (or at it)."""
        result = np.zeros(time.size, dtype=np.int64)
        order = np.argsort(thread, kind="stable")
        sorted_thread = thread[order]
        side: Literal["left", "right"] = "right" if inclusive else "left"
        for number in np.unique(sorted_thread):  # threads are few
            mine = order[
                np.searchsorted(sorted_thread, number) : np.searchsorted(
                    sorted_thread, number, side="right"
                )
            ]
            first = np.searchsorted(self.thread, number)
            last = np.searchsorted(self.thread, number, side="right")
            result[mine] = np.searchsorted(self.time[first:last], time[mine], side=side)
        return result


def _parents(depth: Int, thread: Int) -> Int:
    """For each range the last one before it that is one level up, in the same thread."""
    n = depth.size
    parent = np.full(n, NONE, dtype=np.int64)
    if not n:
        return parent
    order = np.lexsort((np.arange(n), depth))
    sorted_keys = depth[order] * n + order
    child = np.flatnonzero(depth > 0)
    found = np.searchsorted(sorted_keys, (depth[child] - 1) * n + child, side="left") - 1
    candidate = order[np.maximum(found, 0)]
    good = (found >= 0) & (depth[candidate] == depth[child] - 1)
    good &= thread[candidate] == thread[child]
    parent[child[good]] = candidate[good]
    return parent


def _crossing(nested: Nesting) -> Int:
    """Ranges that end after their parent."""
    has = np.flatnonzero(nested.parent != NONE)
    late = nested.end[has] > nested.end[nested.parent[has]]
    orphan = np.flatnonzero((nested.parent == NONE) & (nested.depth > 0))
    return np.asarray(np.concatenate([has[late], orphan]))


def _keep_domains(
    ranges: Ranges, rows: Int, thread: Int, crossing_threads: Int, first_domain: int
) -> npt.NDArray[np.bool_]:
    """On threads where domains cross, keep the first domain, or the most frequent one."""
    keep = np.ones(rows.size, dtype=bool)
    for number in crossing_threads:
        mine = np.flatnonzero(thread == number)
        domains, counts = np.unique(ranges.domain[rows[mine]], return_counts=True)
        best = first_domain if first_domain in domains else int(domains[np.argmax(counts)])
        keep[mine] = ranges.domain[rows[mine]] == best
    return keep


def innermost(nested: Nesting, thread_ids: Int, times: Int) -> Int:
    """Index (into `nested`) of the innermost range open at each time on its thread, or NONE.

    A range is open from its start to its end, both included: a launch may carry either time.
    """
    n = nested.start.size
    result = np.full(times.size, NONE, dtype=np.int64)
    if not n or not times.size:
        return result
    number = np.searchsorted(nested.threads, thread_ids)
    known = (number < nested.threads.size) & (
        nested.threads[np.minimum(number, nested.threads.size - 1)] == thread_ids
    )
    asked = np.flatnonzero(known)
    thread = number[asked].astype(np.int64)
    keys = _Keys(nested.thread, nested.start)
    last = np.searchsorted(nested.thread, thread, side="left") + keys.count_before(
        thread, times[asked], inclusive=True
    )
    here = last - 1
    good = (here >= 0) & (nested.thread[np.maximum(here, 0)] == thread)
    here = np.where(good, here, NONE)
    pending = np.flatnonzero(here != NONE)
    while pending.size:  # climb to the ancestor that is still open; ranges are seldom deep
        pending = pending[nested.end[here[pending]] < times[asked[pending]]]
        here[pending] = nested.parent[here[pending]]
        pending = pending[here[pending] != NONE]
    result[asked] = here
    return result


def paths(nested: Nesting, names: Int) -> tuple[Int, list[tuple[int, ...]]]:
    """Give each range the id of its path of names; returns ids and the paths, root first."""
    ids = np.full(nested.row.size, NONE, dtype=np.int64)
    made: list[tuple[int, ...]] = []
    depth = np.minimum(nested.depth, MAX_DEPTH)
    top = int(depth.max()) if depth.size else -1
    width = int(names.max()) + 2 if names.size else 1
    for level in range(top + 1):
        here = np.flatnonzero(depth == level)
        above = nested.parent[here]
        parent_path = np.where(above == NONE, NONE, ids[np.maximum(above, 0)])
        if level == MAX_DEPTH:
            for index in here:  # in order, so that a parent has its id before its children
                ids[index] = ids[nested.parent[index]]
            break
        _, first, inverse = np.unique(
            (parent_path + 1) * width + names[here] + 1, return_index=True, return_inverse=True
        )
        ids[here] = len(made) + inverse
        for index in first:
            root = () if parent_path[index] == NONE else made[int(parent_path[index])]
            made.append((*root, int(names[here[index]])))
    return ids, made


@dataclass(frozen=True)
class Projection:
    """Ranges on the device: from the first start to the last end of what they launched."""

    start: Int
    end: Int
    operations: Int
    """Device activities launched inside; 0 where `start` and `end` mean nothing."""
    duration_sum: Int
    """Their durations added up (ns)."""


def project(
    range_start: Int,
    range_end: Int,
    range_thread: Int,
    launch_start: Int,
    launch_end: Int,
    launch_thread: Int,
    device_start: Int,
    device_end: Int,
) -> Projection:
    """Project host ranges onto the device through the calls that launched the device's work.

    A launch belongs to a range of its own thread that began before it and ended after it. One row
    per device activity; the call times repeat where one call (a graph) launched several.
    """
    n = range_start.size
    order = np.lexsort((launch_start, launch_thread))
    thread, start, end = launch_thread[order], launch_start[order], launch_end[order]
    base = np.searchsorted(thread, range_thread, side="left")
    keys = _Keys(thread, start)
    first = base + keys.count_before(range_thread, range_start, inclusive=False)
    # Calls of one thread follow each other, so their ends are in order as well.
    last = base + _Keys(thread, np.maximum.accumulate(end) if not _ordered(thread, end) else end
                        ).count_before(range_thread, range_end, inclusive=True)  # fmt: skip
    operations = np.maximum(last - first, 0)
    some = np.flatnonzero(operations)
    low, high = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    low[some], high[some] = range_min_max(
        device_start[order], device_end[order], first[some], last[some]
    )
    sums = np.concatenate([[0], np.cumsum((device_end - device_start)[order])])
    duration = np.where(operations > 0, sums[np.maximum(last, first)] - sums[first], 0)
    return Projection(low, high, operations, duration.astype(np.int64))


def _ordered(thread: Int, end: Int) -> bool:
    same = thread[1:] == thread[:-1]
    return bool(np.all((end[1:] >= end[:-1]) | ~same))
