"""The launches of one step, one by one in launch order, to be joined with ops or counters."""

from __future__ import annotations

import numpy as np

from rooflens.model import Launch, absent, known
from rooflens.parsers.steps import Steps
from rooflens.parsers.timeline.labels import KernelLabels
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.trace import KERNEL, NONE, Int

_NO_COUNTERS = absent("not collected: a timeline has no counters")


def step_launches(
    linked: Linked, labels: KernelLabels, steps: Steps, chosen: int | None
) -> tuple[Launch, ...]:
    """Kernels of the chosen step (of the whole capture without one) in launch order.

    Each has the whole path of ranges around it. A duration is the mean over all steps that launch
    the same kernels in the same order.
    """
    activities = linked.trace.activities
    if chosen is None:
        rows = _in_launch_order(linked, np.arange(len(activities)))
        same = [rows]
    else:
        rows = _in_launch_order(linked, steps.rows[chosen])
        ordered = [_in_launch_order(linked, r) for r in steps.rows]
        same = [
            r for r in ordered
            if r.size == rows.size and np.array_equal(activities.name[r], activities.name[rows])
        ]  # fmt: skip
    spent = np.mean([(activities.end - activities.start)[r] for r in same], axis=0)
    return tuple(
        _launch(linked, labels, place, int(row), float(spent[place]))
        for place, row in enumerate(rows)
    )


def _in_launch_order(linked: Linked, rows: Int) -> Int:
    """The kernels among some activities, by the time of their launch, then of their start."""
    activities, calls = linked.trace.activities, linked.trace.calls
    rows = rows[activities.kind[rows] == KERNEL]
    call = linked.call[rows]
    launched = activities.start[rows].copy()
    launched[call != NONE] = calls.start[call[call != NONE]]
    return rows[np.lexsort((activities.start[rows], launched))]


def _launch(
    linked: Linked, labels: KernelLabels, place: int, row: int, duration_ns: float
) -> Launch:
    trace, activities = linked.trace, linked.trace.activities
    name, config = int(activities.name[row]), int(activities.config[row])
    grid, block = trace.configs[config] if config != NONE else ((), ())
    return Launch(
        index=place,
        name=labels.short_names[name],
        demangled=trace.names[name],
        grid=grid,
        block=block,
        device=int(activities.device[row]),
        stream=int(activities.stream[row]),
        nvtx=linked.full_path(row),
        duration_ns=known(duration_ns, "ns", "timeline"),
        dram_bytes=_NO_COUNTERS,
        l2_bytes=_NO_COUNTERS,
        flops=_NO_COUNTERS,
    )
