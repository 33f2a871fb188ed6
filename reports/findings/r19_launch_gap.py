"""R19: the device waits for launches."""

from __future__ import annotations

from rooflens.model import StepTime
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import IDLE_SHARE_MIN, LAUNCHES_MIN, SHORT_KERNEL_NS
from rooflens.reports.format import count_text, percent_text, time_text


def representative(evidence: Evidence) -> StepTime | None:
    """The step that the timeline is shown for."""
    timeline = evidence.timeline
    if timeline is None or not timeline.steps:
        return None
    for step in timeline.steps:
        if step.index == timeline.representative_step:
            return step
    return timeline.steps[0]


def median_kernel_ns(evidence: Evidence) -> float | None:
    """Duration of the median launch."""
    rows = sorted(
        (kernel.duration_ns.value, kernel.count)
        for kernel in evidence.kernels
        if kernel.duration_ns.value is not None
    )
    half = sum(count for _, count in rows) / 2
    for duration, count in rows:
        half -= count
        if half <= 0:
            return duration
    return None


def detect(evidence: Evidence) -> Answer:
    step = representative(evidence)
    if step is None or not step.wall_ns or not step.kernels:
        return CannotLook("the timeline has no step with kernels in it")
    idle = step.idle_ns / step.wall_ns
    if idle < IDLE_SHARE_MIN.value:
        return None
    median = median_kernel_ns(evidence)
    many = step.kernels >= LAUNCHES_MIN.value
    short = median is not None and median < SHORT_KERNEL_NS.value
    host = evidence.timeline.bound if evidence.timeline else ""
    sure = many and short
    facts = [
        f"busy {time_text(step.busy_ns)} of {time_text(step.wall_ns)}: {percent_text(idle)} idle",
        f"{count_text(step.kernels)} kernels in the step"
        + (f", median {time_text(median)}" if median is not None else ""),
    ]
    if host:
        facts.append(f"the timeline says: bound by the {host}")
    return Claim(
        title=f"The device is idle {percent_text(idle)} of the step: it waits for launches",
        idle_ns=step.idle_ns,
        no_bytes="idle time has no bytes",
        confidence="high" if sure else "medium" if host == "host" else "low",
        confidence_reason=(
            "many short kernels and idle time between them"
            if sure
            else "there is idle time, but not the many short kernels that explain it"
        ),
        evidence=tuple(facts),
    )


RULE = Rule(
    id="R19-launch-gap",
    needs=("timeline",),
    looks_for="a step in which the device waits for the host to launch kernels",
    clear="The device is busy nearly all of the step",
    why=(
        "Launching a kernel costs the host about 5 µs. When kernels are shorter than that, the "
        "device finishes first and waits: no faster kernel helps then."
    ),
    remedy=(
        'Capture the step in a CUDA graph (torch.compile(mode="reduce-overhead"), vLLM without '
        "--enforce-eager), or fuse to fewer kernels"
    ),
    fixed_in="no version; sam2#768: 1185 launches to 9, 53.7 to 11.98 ms",
    example="53.7 ms a frame with the device busy for 7.27 ms",
    limits=(
        "A profiler slows launches: compare with the step time without it. Never judged from a "
        "counter capture, which serialises kernels."
    ),
    thresholds=(IDLE_SHARE_MIN, LAUNCHES_MIN, SHORT_KERNEL_NS),
    detect=detect,
)
