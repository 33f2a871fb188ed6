"""Sentences about the device over a whole capture: utilisation, overlap, several GPUs, graphs."""

from __future__ import annotations

import numpy as np

from rooflens.model import PhaseTime
from rooflens.parsers.intervals import Intervals, intersect, subtract, total, union
from rooflens.parsers.timeline.labels import KernelLabels
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.names import GRAPH_LAUNCH
from rooflens.parsers.timeline.trace import GRAPH, KERNEL, NONE, Int

MAX_DEVICES = 16


def device_facts(linked: Linked, labels: KernelLabels) -> list[str]:
    """What each device did between the first start and the last end of the capture's work."""
    activities = linked.trace.activities
    if not len(activities):
        return ["The capture has no device activity: times are of host ranges only."]
    facts = _graph_facts(linked)
    devices = np.unique(activities.device)
    span = int(activities.end.max() - activities.start.min())
    for device in devices[:MAX_DEVICES]:
        rows = np.flatnonzero(activities.device == device)
        facts.append(_one(linked, labels, rows, int(device), span, devices.size > 1))
    if devices.size > MAX_DEVICES:
        facts.append(f"{devices.size - MAX_DEVICES} more devices were busy.")
    return facts


def _one(
    linked: Linked, labels: KernelLabels, rows: Int, device: int, span: int, several: bool
) -> str:
    activities = linked.trace.activities
    busy = _set(linked, rows)
    kinds = activities.kind[rows]
    kernels = rows[kinds == KERNEL]
    talk_names = [n == "communication" for n in labels.classes.names]
    is_talk = np.array(talk_names, dtype=bool)[labels.classes.index[kernels]]
    copies = _set(linked, rows[(kinds != KERNEL) & (kinds != GRAPH)])
    talk, compute = _set(linked, kernels[is_talk]), _set(linked, kernels[~is_talk])
    name = f"GPU {device}" if several or device != NONE else "The device"
    text = (
        f"{name}: busy {total(busy) / 1e6:.3f} ms of {span / 1e6:.3f} ms "
        f"({total(busy) / span if span else 0:.1%}); {kernels.size} kernels take "
        f"{int((activities.end - activities.start)[kernels].sum()) / 1e6:.3f} ms added up"
    )
    overlap = total(intersect(compute, copies))
    if total(copies):
        text += f"; copies {total(copies) / 1e6:.3f} ms, {overlap / 1e6:.3f} ms of it under kernels"
    if total(talk):
        exposed = total(subtract(talk, compute))
        text += (
            f"; collectives {total(talk) / 1e6:.3f} ms ({exposed / 1e6:.3f} ms of it with no other "
            "kernel running; they spin while they wait, so this is not useful work)"
        )
    streams = np.unique(activities.stream[rows]).size
    return f"{text}; {streams} stream{'s' if streams != 1 else ''}."


def _set(linked: Linked, rows: Int) -> Intervals:
    return union(linked.trace.activities.start[rows], linked.trace.activities.end[rows])


def phase_facts(phases: tuple[PhaseTime, ...]) -> list[str]:
    """A sentence per phase: its steps, their kernels, and how much of that is collectives."""
    facts = []
    for phase in phases:
        count = len(phase.steps)
        text = (
            f"{phase.name.capitalize()}: {count} step{'s' if count != 1 else ''}, "
            f"{phase.wall_ns / 1e6:.3f} ms (median), {phase.kernels:g} kernels of "
            f"{phase.kernel_ns / 1e6:.3f} ms a step"
        )
        if phase.communication_ns:
            text += f", {phase.communication_ns / 1e6:.3f} ms of it in collectives"
        if phase.graph_launches:
            text += f", {phase.graph_launches:g} CUDA graph launches"
        if phase.tokens is not None:
            text += f"; {phase.tokens} new token{'s' if phase.tokens != 1 else ''}"
        facts.append(f"{text}.")
    return facts


def _graph_facts(linked: Linked) -> list[str]:
    trace = linked.trace
    wanted = [i for i, name in enumerate(trace.names) if GRAPH_LAUNCH.search(name)]
    launches = np.flatnonzero(np.isin(trace.calls.name, wanted))
    whole = np.flatnonzero(trace.activities.kind == GRAPH)
    facts = []
    if whole.size:
        spent = int((trace.activities.end - trace.activities.start)[whole].sum())
        kernels = int((trace.activities.kind == KERNEL).sum())
        kernel_ns = int((trace.activities.end - trace.activities.start)[linked.kernels].sum())
        facts.append(
            f"{whole.size} CUDA graph launches take {spent / 1e6:.3f} ms; their kernels are not in "
            f"the capture, and the {kernels} kernels that are ({kernel_ns / 1e6:.3f} ms) lie "
            "outside them. `nsys stats` shows only the latter."
        )
    elif launches.size:
        inside = int(np.isin(linked.call, launches).sum())
        facts.append(
            f"{launches.size} CUDA graph launches replay {inside} device activities."
            if inside
            else f"{launches.size} CUDA graph launches whose kernels the capture does not show: "
            "its kernels are those outside graphs (often only the warm-up)."
        )
    return facts
