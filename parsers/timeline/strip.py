"""One window of a capture as rectangles: NVTX rows, the launching thread, a row per stream."""

from __future__ import annotations

import numpy as np

from rooflens.model import Shape
from rooflens.parsers.timeline.labels import KernelLabels
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.trace import COPY, GRAPH, KERNEL, MEMSET, NONE, Int

MAX_SHAPES = 2000
MAX_STREAMS = 8
MAX_RANGE_ROWS = 4
MAX_LABEL = 80
_KINDS = {KERNEL: "kernel", COPY: "copy", MEMSET: "memset", GRAPH: "graph"}


def shapes_of(
    linked: Linked, labels: KernelLabels, rows: Int, start: int, end: int
) -> tuple[Shape, ...]:
    """Shapes of the activities `rows` and of the host in [start, end); times relative to start."""
    made = [
        *_range_shapes(linked, rows, start, end),
        *_call_shapes(linked, rows, start, end),
        *_stream_shapes(linked, labels, rows, start, end),
    ]
    near = max((end - start) // 4000, 1)
    merged = made
    while len(merged) > MAX_SHAPES:
        merged = _merged(made, near)
        near *= 2
    return tuple(
        Shape(row=row, start_ns=low - start, duration_ns=high - low, label=text, kind=kind)
        for row, kind, low, high, text in merged
    )


_Raw = tuple[str, str, int, int, str]
"""Row, kind, start, end, label."""


def _stream_shapes(
    linked: Linked, labels: KernelLabels, rows: Int, start: int, end: int
) -> list[_Raw]:
    trace, activities = linked.trace, linked.trace.activities
    devices = np.unique(activities.device[rows])
    lengths = activities.end - activities.start
    keys = sorted(
        {(int(d), int(s)) for d, s in zip(activities.device[rows], activities.stream[rows],
                                          strict=True)},
        key=lambda key: -int(lengths[rows][(activities.device[rows] == key[0])
                                           & (activities.stream[rows] == key[1])].sum()),
    )[:MAX_STREAMS]  # fmt: skip
    made: list[_Raw] = []
    for device, stream in sorted(keys):
        row = f"GPU {device} stream {stream}" if devices.size > 1 else f"stream {stream}"
        mine = rows[(activities.device[rows] == device) & (activities.stream[rows] == stream)]
        for i in mine:
            kind = _KINDS[int(activities.kind[i])]
            name = int(activities.name[i])
            if kind == "kernel" and labels.classes.of(int(i)) == "communication":
                kind = "communication"
            text = labels.short_names[name] or trace.names[name]
            low = max(int(activities.start[i]), start)
            high = min(int(activities.end[i]), end)
            if high >= low:
                made.append((row, kind, low, high, text[:MAX_LABEL]))
    return made


def _call_shapes(linked: Linked, rows: Int, start: int, end: int) -> list[_Raw]:
    """API calls of the thread that launched most of the rows."""
    trace, calls = linked.trace, linked.trace.calls
    tied = rows[linked.call[rows] != NONE]
    if not tied.size:
        return []
    threads, counts = np.unique(calls.thread[linked.call[tied]], return_counts=True)
    thread = threads[np.argmax(counts)]
    first, last = np.searchsorted(calls.start, [start, end])
    near = np.arange(first, last)
    near = near[calls.thread[near] == thread]
    launching = np.isin(near, linked.call[tied])
    return [
        ("host calls", "launch" if launches else "host", int(calls.start[i]),
         min(int(calls.end[i]), end), trace.names[int(calls.name[i])][:MAX_LABEL])
        for i, launches in zip(near, launching, strict=True)
    ]  # fmt: skip


def _range_shapes(linked: Linked, rows: Int, start: int, end: int) -> list[_Raw]:
    """Ranges of the thread that launched most (or has most ranges), one row per depth."""
    nested, trace = linked.nested, linked.trace
    if not nested.row.size:
        return []
    owners = linked.owner[rows]
    owners = owners[owners != NONE]
    inside = (nested.start < end) & (nested.end > start)
    threads = nested.thread[owners] if owners.size else nested.thread[inside]
    if not threads.size:
        return []
    ids, counts = np.unique(threads, return_counts=True)
    mine = np.flatnonzero(inside & (nested.thread == ids[np.argmax(counts)]))
    top = int(nested.depth[mine].min()) if mine.size else 0
    made: list[_Raw] = []
    for i in mine[nested.depth[mine] < top + MAX_RANGE_ROWS]:
        low, high = max(int(nested.start[i]), start), min(int(nested.end[i]), end)
        name = trace.names[int(trace.ranges.name[nested.row[i]])]
        made.append(
            (f"ranges {int(nested.depth[i]) - top + 1}", "range", low, high, name[:MAX_LABEL])
        )
    return sorted(made)


def _merged(shapes: list[_Raw], near: int) -> list[_Raw]:
    """Join neighbours of one row and kind that lie closer than `near`; the longest label stays."""
    made: list[_Raw] = []
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for shape in sorted(shapes, key=lambda shape: (shape[0], shape[2])):
        row, kind, low, high, text = shape
        index, longest = last.get((row, kind), (NONE, 0))
        if index != NONE and low - made[index][3] <= near:
            before = made[index]
            label = text if high - low > longest else before[4]
            made[index] = (row, kind, before[2], max(before[3], high), label)
            last[(row, kind)] = (index, max(longest, high - low))
        else:
            last[(row, kind)] = (len(made), high - low)
            made.append(shape)
    return made
