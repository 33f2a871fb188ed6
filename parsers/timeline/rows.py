"""Kernels grouped into rows, and ranges grouped by path."""

from __future__ import annotations

import numpy as np

from rooflens.model import Join, KernelRow, RangeTime, absent, known
from rooflens.parsers.kernels import classify_name
from rooflens.parsers.steps import Steps
from rooflens.parsers.timeline.labels import KernelLabels, class_of
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.trace import KERNEL, NONE, START_END, Int

MAX_ROWS = 5000
"""Beyond this, rows are grouped without their range path: unique names made every launch a row."""
MAX_RANGES = 2000
_NO_COUNTERS = absent("not collected: a timeline has no counters")
PER_STEP, PER_CAPTURE = "per step", "per capture"


def kernel_rows(
    linked: Linked, labels: KernelLabels, steps: Steps, chosen: int | None
) -> tuple[tuple[KernelRow, ...], str]:
    """Group launches equal in name, grid, block, class, path and device.

    With our own step ranges, counts are per step: means over all steps that launch what the
    representative one does. Any other capture counts as a whole, so that sums are those of the
    file. Returns the rows and which of the two it is.
    """
    if steps.ours and chosen is not None:
        alike = [r for r in steps.rows if _same(linked, r, steps.rows[chosen])]
        rows = _grouped(linked, labels, np.concatenate(alike), len(alike))
        if rows is None:  # equal names, but other grids or ranges: one step alone is exact
            rows = _grouped(linked, labels, steps.rows[chosen], 1)
        return rows or (), PER_STEP
    return _grouped(linked, labels, np.arange(len(linked.trace.activities)), 1) or (), PER_CAPTURE


def _same(linked: Linked, one: Int, other: Int) -> bool:
    names = linked.trace.activities.name
    return bool(
        one.size == other.size and np.array_equal(np.sort(names[one]), np.sort(names[other]))
    )


def _grouped(
    linked: Linked, labels: KernelLabels, rows: Int, steps: int
) -> tuple[KernelRow, ...] | None:
    """Rows of KernelRow, or None when a group's count is no multiple of `steps`."""
    activities = linked.trace.activities
    rows = rows[activities.kind[rows] == KERNEL]
    if not rows.size:
        return ()
    path = linked.path_of_activity[rows]
    columns = [
        activities.name[rows], activities.config[rows], activities.device[rows],
        labels.classes.index[rows],
    ]  # fmt: skip
    code = _codes([*columns, path])
    if int(code.max()) >= MAX_ROWS:
        code, path = _codes(columns), np.full(rows.size, NONE, dtype=np.int64)
    _, first, inverse, counts = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    if np.any(counts % steps):
        return None
    spent = (activities.end - activities.start)[rows].astype(np.float64)
    sums = np.bincount(inverse, spent)
    order = np.argsort(-sums, kind="stable")
    return tuple(
        _row(linked, labels, int(rows[first[g]]), int(path[first[g]]), int(counts[g]),
             float(sums[g]), steps)
        for g in order
    )  # fmt: skip


def _codes(columns: list[Int]) -> Int:
    code = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, part = np.unique(column, return_inverse=True)
        code = np.unique(code * max(values.size, 1) + part, return_inverse=True)[1]
    return code


def _row(
    linked: Linked, labels: KernelLabels, row: int, path_id: int, count: int, whole: float,
    steps: int,
) -> KernelRow:  # fmt: skip
    trace, activities = linked.trace, linked.trace.activities
    name = int(activities.name[row])
    config = int(activities.config[row])
    grid, block = trace.configs[config] if config != NONE else ((), ())
    path = linked.path(path_id)
    op_class = labels.classes.of(row)
    known_as = classify_name(trace.names[name])
    found, confidence = class_of(path, known_as)
    by_path = bool(path) and found == op_class and found != known_as.op_class
    by_order = found != op_class
    device = int(activities.device[row])
    return KernelRow(
        name=trace.names[name],
        short_name=labels.short_names[name],
        family=labels.families.of(row),
        op_class=op_class,
        count=count // steps,
        grid=grid,
        block=block,
        nvtx=path,
        device=None if device == NONE else device,
        duration_ns=known(whole / count, "ns", "timeline"),
        dram_bytes=_NO_COUNTERS,
        l2_bytes=_NO_COUNTERS,
        flops=_NO_COUNTERS,
        intensity=_NO_COUNTERS,
        join=Join(
            method="nvtx path"
            if by_path
            else "order"
            if by_order
            else "none"
            if op_class == "other"
            else "name class",
            confidence=confidence if by_path else "low" if op_class == "other" else "medium",
        ),
    )


def range_times(linked: Linked, steps: Steps) -> tuple[RangeTime, ...]:
    """Means per instance of each range path: host time, and the projection on the device.

    The longest paths by host time are kept. Where our own steps exist, only ranges inside them
    (and the steps themselves) count, so that warm-up and loading stay out. A start/end range has
    no parents; one that ends on another thread has no projection.
    """
    ranges = linked.trace.ranges
    free = np.flatnonzero(ranges.style == START_END)
    rows = np.concatenate([linked.nested.row, free])
    if not rows.size:
        return ()
    ids, texts = _paths(linked, free)
    if steps.ours and steps.on_host_clock:
        keep = _inside(ranges.start[rows], ranges.end[rows], steps)
        rows, ids = rows[keep], ids[keep]
    projected = linked.project(rows)
    host = (ranges.end[rows] - ranges.start[rows]).astype(np.float64)
    device = (projected.end - projected.start).astype(np.float64)
    some = (projected.operations > 0) & (ranges.crosses[rows] == 0)
    counts = np.bincount(ids, minlength=len(texts))
    host_sum = np.bincount(ids, host, len(texts))
    device_sum = np.bincount(ids[some], device[some], len(texts))
    device_count = np.bincount(ids[some], minlength=len(texts))
    nothing = absent(
        "nothing was launched inside"
        if len(linked.trace.activities)
        else "no device activity in the capture"
    )
    order = [p for p in np.argsort(-host_sum, kind="stable") if counts[p]][:MAX_RANGES]
    return tuple(
        RangeTime(
            path=texts[int(p)],
            count=int(counts[p]),
            host_ns=known(float(host_sum[p]) / int(counts[p]), "ns", "host"),
            device_ns=known(float(device_sum[p]) / int(counts[p]), "ns", "timeline")
            if device_count[p]
            else nothing,
        )
        for p in order
    )


def _paths(linked: Linked, free: Int) -> tuple[Int, list[tuple[str, ...]]]:
    """Path ids of the nested ranges and then of the free ones, and the texts of all paths."""
    ids, table = linked.path_table
    index, names = linked.canonical
    texts = [linked.path(i) for i in range(len(table))]
    own, code = np.unique(index[linked.trace.ranges.name[free]], return_inverse=True)
    texts += [(names[int(i)],) for i in own]
    return np.concatenate([ids, len(table) + code]).astype(np.int64), texts


def _inside(start: Int, end: Int, steps: Steps) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    index = np.searchsorted(steps.start, start, side="right") - 1
    safe = np.maximum(index, 0)
    return np.asarray((index >= 0) & (end <= steps.end[safe]))
