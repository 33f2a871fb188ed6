"""GPU, versions and ranks of a trace, and what it does not hold. An allow-list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rooflens.model import Check, Machine
from rooflens.parsers.timeline.names import GRAPH_LAUNCH
from rooflens.parsers.timeline.trace import KERNEL, NONE, Trace

_LAUNCH = re.compile(r"Launch(?:Cooperative)?Kernel|ModuleLaunch|LaunchKernel")
_GRAPH_CAPTURE = re.compile(r"^capture_")
_CUPTI_RANGES = "cuda_profiler_range"


def read_facts(trace: Trace, extra: Mapping[str, Any], categories: Mapping[str, int]) -> None:
    """Fill machine, regime, facts and checks from the small top-level values."""
    trace.machine = _machine(trace, extra)
    for key in ("cupti_version", "roctracer_version"):
        if isinstance(extra.get(key), int | float):
            trace.regime[key.replace("_", " ")] = str(extra[key])
    ranks = extra.get("distributedInfo")
    if (
        isinstance(ranks, dict)
        and isinstance(ranks.get("world_size"), int)
        and (ranks["world_size"] > 1)
    ):
        trace.regime["ranks"] = str(ranks["world_size"])
        trace.facts.append(
            f"Rank {ranks.get('rank')} of {ranks['world_size']}: other ranks have traces of their "
            "own."
        )
    if categories.get(_CUPTI_RANGES):
        trace.facts.append(
            f"{categories[_CUPTI_RANGES]} ranges of the CUPTI range profiler carry counters; they "
            "were taken in replay, so their durations are not used as times."
        )
    trace.checks.append(_kernel_check(trace, categories))
    capture = _capture_check(trace)
    if capture:
        trace.checks.append(capture)
    trace.checks.append(_profiler_check(categories))


def _machine(trace: Trace, extra: Mapping[str, Any]) -> Machine:
    used = [int(d) for d in np.unique(trace.activities.device) if d != NONE]
    listed = extra.get("deviceProperties")
    gpus = [g for g in listed if isinstance(g, dict)] if isinstance(listed, list) else []
    mine = [g for g in gpus if g.get("id") in used] or gpus[:1]
    names = sorted({str(g.get("name") or "")[:128] for g in mine} - {""})
    first = mine[0] if mine else {}
    major, minor = first.get("computeMajor"), first.get("computeMinor")
    is_hip = "hip_runtime_version" in extra
    runtime = extra.get("cuda_runtime_version")
    return Machine(
        device="imported",
        gpu=" + ".join(names),
        gpu_count=len(used) or None,
        compute_capability=f"{major}.{minor}"
        if isinstance(major, int) and isinstance(minor, int) and not is_hip
        else "",
        cuda=f"{runtime // 1000}.{runtime % 1000 // 10}" if isinstance(runtime, int) else "",
    )


def _kernel_check(trace: Trace, categories: Mapping[str, int]) -> Check:
    kernels = int((trace.activities.kind == KERNEL).sum())
    launches = _count(trace, _LAUNCH)
    if kernels:
        return Check(
            id="timeline-kernels",
            outcome="passed",
            message=f"{kernels} kernels are in the trace.",
        )
    if launches:
        return Check(
            id="timeline-kernels",
            outcome="failed",
            message=f"{launches} launches are in the trace but not one kernel: the profiler got no "
            "device activity.",
            fix="CUPTI was not available or was in use by another profiler; host times are still "
            "usable.",
        )
    return Check(
        id="timeline-kernels",
        outcome="failed",
        message="The trace has no kernels and no launches.",
        fix="Profile with activities=[CPU, CUDA] while the step runs; host times are usable.",
    )


def _capture_check(trace: Trace) -> Check | None:
    """A trace of CUDA graph capture: launches are recorded into a graph, and hardly any runs."""
    kernels = int((trace.activities.kind == KERNEL).sum())
    launches = _count(trace, _LAUNCH)
    capturing = any(_GRAPH_CAPTURE.match(trace.names[int(i)]) for i in np.unique(trace.ranges.name))
    replays = _count(trace, GRAPH_LAUNCH)
    if capturing and launches > 2 * kernels and not replays:
        return Check(
            id="timeline-graphs",
            outcome="warning",
            message=f"This is the capture of CUDA graphs, not their replay: {launches} launches, "
            f"{kernels} kernels that ran.",
            fix="Profile steps after start-up to see what the graphs take.",
        )
    return None


def _profiler_check(categories: Mapping[str, int]) -> Check:
    stacks = categories.get("python_function", 0)
    if not stacks:
        return Check(
            id="timeline-overhead",
            outcome="passed",
            message="The profiler recorded no Python stacks.",
        )
    return Check(
        id="timeline-overhead",
        outcome="warning",
        message=f"The profiler recorded {stacks} Python calls, which slows the host: gaps and step "
        "times are longer than without it; kernel durations are not.",
        fix="Profile with with_stack=False before judging idle time.",
    )


def _count(trace: Trace, pattern: re.Pattern[str]) -> int:
    wanted = [i for i, name in enumerate(trace.names) if pattern.search(name)]
    return int(np.isin(trace.calls.name, wanted).sum())
