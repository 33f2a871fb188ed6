"""From the columns of a capture to what a run holds: rows, steps, phases, gaps, checks."""

from __future__ import annotations

import numpy as np

from rooflens.model import (
    Capture,
    Check,
    GraphRow,
    Launch,
    PhaseTime,
    Shape,
    StepTime,
    Timeline,
    known,
)
from rooflens.parsers.intervals import covered, union
from rooflens.parsers.phases import STEP, name_phases, phase_times
from rooflens.parsers.steps import Steps, find_steps, statistics
from rooflens.parsers.timeline.facts import device_facts, phase_facts
from rooflens.parsers.timeline.gaps import Idle, idle_of, launch_facts
from rooflens.parsers.timeline.labels import KernelLabels, label
from rooflens.parsers.timeline.launches import Linked, link
from rooflens.parsers.timeline.one_step import step_launches
from rooflens.parsers.timeline.rows import kernel_rows, range_times
from rooflens.parsers.timeline.strip import shapes_of
from rooflens.parsers.timeline.trace import GRAPH, KERNEL, NONE, Int, Trace
from rooflens.reading import Reading

MAX_LAUNCHES = 50_000
"""Launches of one step that a reading holds one by one."""


def reading(trace: Trace, file: str, format_name: str) -> Reading:
    """Work out everything one capture says.

    `file` is the name of the capture file (without a folder), `format_name` that of detect.
    """
    linked = link(trace)
    labels = label(linked)
    steps, confidence, reason = name_phases(linked, find_steps(linked))
    times = step_times(linked, labels, steps)
    chosen = representative(times)
    idle, shapes = _picture(linked, labels, steps, chosen)
    phases = phase_times(linked, steps, times, labels.classes, labels.families, confidence, reason)
    timeline = Timeline(
        source=trace.tool,
        steps=times,
        representative_step=None if chosen is None else times[chosen].index,
        gaps=idle.gaps,
        shapes=shapes,
        ranges=range_times(linked, steps),
        bound=idle.bound,
        bound_reason=idle.reason,
        phase_method=_method(steps, confidence),
        facts=tuple(_facts(linked, labels, steps, chosen, phases)),
        phases=phases,
        statistics=statistics(times),
    )
    kernels, basis = kernel_rows(linked, labels, steps, chosen)
    own = steps.ours and chosen is not None and steps.rows[chosen].size <= MAX_LAUNCHES
    return Reading(
        format=format_name,
        evidence="timeline",
        capture=Capture(
            file=file,
            format=format_name,
            tool=f"{trace.tool} {trace.version}".strip(),
            rows=int(linked.kernels.size),
            regime=trace.regime | {"kernel counts": basis},
        ),
        machine=trace.machine,
        kernels=kernels,
        launches=step_launches(linked, labels, steps, chosen) if own else (),
        graphs=graph_rows(trace),
        timeline=timeline,
        step_times_ns=tuple(step.wall_ns for step in times if _same_phase(step, times, chosen)),
        checks=(*trace.checks, *_checks(linked, steps)),
        tools={trace.tool: trace.version} if trace.version else {},
    )


def _same_phase(step: StepTime, times: tuple[StepTime, ...], chosen: int | None) -> bool:
    return chosen is not None and step.phase == times[chosen].phase


def _method(steps: Steps, confidence: str) -> str:
    if not set(steps.phase) - {STEP}:
        return ""  # nothing said which phase a step is
    return steps.method if steps.method == "ranges" else f"{steps.method} ({confidence})"


def step_times(linked: Linked, labels: KernelLabels, steps: Steps) -> tuple[StepTime, ...]:
    """Wall, busy, idle, copies and collectives of every step, on the device that did most.

    Busy is the union over the streams of that device, clipped to the step: never above wall.
    """
    activities = linked.trace.activities
    mine = main_device_rows(linked)
    by_class = np.array([name == "communication" for name in labels.classes.names], dtype=bool)
    is_communication = by_class[labels.classes.index[mine]] & (activities.kind[mine] == KERNEL)
    is_copy = (activities.kind[mine] != KERNEL) & (activities.kind[mine] != GRAPH)
    busy = _covered(linked, mine, steps)
    copies = _covered(linked, mine[is_copy], steps)
    talk = _covered(linked, mine[is_communication], steps)
    made = []
    for i, rows in enumerate(steps.rows):
        wall = int(steps.end[i] - steps.start[i])
        tied = linked.call[rows][linked.call[rows] != NONE]
        made.append(
            StepTime(
                index=i,
                start_ns=int(steps.start[i]),
                wall_ns=wall,
                busy_ns=int(busy[i]),
                idle_ns=wall - int(busy[i]) if rows.size else 0,
                copy_ns=int(copies[i]),
                communication_ns=int(talk[i]),
                launches=int(np.unique(tied).size),
                kernels=int((activities.kind[rows] == KERNEL).sum()),
                phase=steps.phase[i],
            )
        )
    return tuple(made)


def _covered(linked: Linked, rows: Int, steps: Steps) -> Int:
    activities = linked.trace.activities
    return covered(union(activities.start[rows], activities.end[rows]), steps.start, steps.end)


def main_device_rows(linked: Linked) -> Int:
    """Activities of the device that was busy longest (all, where the capture names none)."""
    activities = linked.trace.activities
    if not len(activities):
        return np.empty(0, dtype=np.int64)
    devices, code = np.unique(activities.device, return_inverse=True)
    spent = np.bincount(code, (activities.end - activities.start).astype(np.float64))
    return np.flatnonzero(activities.device == devices[int(np.argmax(spent))])


def representative(times: tuple[StepTime, ...]) -> int | None:
    """The step nearest to the median of the most frequent phase (an outlier never is)."""
    if not times:
        return None
    phases = [step.phase for step in times]
    phase = max(dict.fromkeys(phases), key=phases.count)
    mine = [i for i, step in enumerate(times) if step.phase == phase]
    middle = float(np.median([times[i].wall_ns for i in mine]))
    return min(mine, key=lambda i: (abs(times[i].wall_ns - middle), i))


def _picture(
    linked: Linked, labels: KernelLabels, steps: Steps, chosen: int | None
) -> tuple[Idle, tuple[Shape, ...]]:
    """Gaps and shapes of the representative step, or of the whole capture without steps."""
    activities = linked.trace.activities
    if chosen is not None:
        start, end = int(steps.start[chosen]), int(steps.end[chosen])
    elif len(activities):
        start, end = int(activities.start.min()), int(activities.end.max())
    elif len(linked.trace.ranges):
        start, end = int(linked.trace.ranges.start.min()), int(linked.trace.ranges.end.max())
    else:
        return Idle((), "", "the capture holds no work"), ()
    inside = np.flatnonzero((activities.start < end) & (activities.end > start))
    shapes = shapes_of(linked, labels, inside, start, end)
    mine = np.intersect1d(inside, main_device_rows(linked))
    if not mine.size:
        return Idle((), "", "the capture has no device activity"), shapes
    if chosen is not None:
        return idle_of(linked, mine, start, end, "step"), shapes
    # A whole capture holds set-up and pauses as well: its idle time is no verdict on a step.
    idle = idle_of(linked, mine, start, end, "capture")
    return Idle(idle.gaps, "", f"no steps were found; {idle.reason}"), shapes


def graph_rows(trace: Trace) -> tuple[GraphRow, ...]:
    """Whole graph launches without their nodes; the duration is the mean per launch."""
    rows = np.flatnonzero(trace.activities.kind == GRAPH)
    ids, code = np.unique(trace.activities.graph[rows], return_inverse=True)
    spent = (trace.activities.end - trace.activities.start)[rows]
    counts = np.bincount(code, minlength=ids.size)
    sums = np.bincount(code, spent.astype(np.float64), ids.size)
    return tuple(
        GraphRow(
            id=int(graph),
            launches=int(count),
            duration_ns=known(float(whole) / int(count), "ns", "timeline"),
        )
        for graph, count, whole in zip(ids, counts, sums, strict=True)
    )


def _facts(
    linked: Linked, labels: KernelLabels, steps: Steps, chosen: int | None,
    phases: tuple[PhaseTime, ...],
) -> list[str]:  # fmt: skip
    facts = [*device_facts(linked, labels), *phase_facts(phases), *steps.facts]
    facts += between_steps(steps)
    facts += linked.trace.facts
    rows = steps.rows[chosen] if chosen is not None else np.arange(len(linked.trace.activities))
    if rows.size:
        where = "In the step shown: " if chosen is not None else ""
        facts += [where + fact for fact in launch_facts(linked, rows)]
    if linked.nested.crossing:
        facts.append(f"{linked.nested.crossing} ranges cross others and are in no path.")
    return facts


def between_steps(steps: Steps) -> list[str]:
    """Time from the end of one step's device work to the next one's, which no step contains."""
    if len(steps) < 2 or steps.on_host_clock:
        return []
    between = steps.start[1:] - steps.end[:-1]
    return [
        f"From the end of one step to the start of the next: {np.median(between) / 1000:.1f} us "
        "(median); it belongs to no step."
    ]


def _checks(linked: Linked, steps: Steps) -> list[Check]:
    """Can kernels be tied to launches, and were there steps?"""
    checks = []
    tied = int((linked.call != NONE).sum())
    whole = int(linked.call.size)
    if whole:
        share = tied / whole
        checks.append(
            Check(
                id="timeline-launches",
                outcome="passed" if share > 0.99 else "warning",
                message=f"{tied} of {whole} device activities have their launch in the capture.",
                fix=""
                if share > 0.99
                else "The rest is outside ranges: start the capture before "
                "the launches, and trace the CUDA API.",
            )
        )
    found = (
        f"{len(steps)} steps by {steps.method}: {steps.reason}."
        if len(steps)
        else "No steps were found, by range or by repetition: counts and times are of the capture."
    )
    good = len(steps) and steps.confidence != "low"
    checks.append(
        Check(
            id="timeline-steps",
            outcome="passed" if good else "warning",
            message=found,
            fix="" if good else "Annotate a step, or capture with `profile run` or `profile wrap`.",
        )
    )
    return checks


def launches_of(trace: Trace) -> tuple[Launch, ...]:
    """Kernels of the representative step (or of the whole capture) in launch order."""
    linked = link(trace)
    labels = label(linked)
    steps, _, _ = name_phases(linked, find_steps(linked))
    chosen = representative(step_times(linked, labels, steps))
    return step_launches(linked, labels, steps, chosen)
