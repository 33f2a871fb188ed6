"""R39: kernels are as fast as before, the step is slower."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.r19_launch_gap import representative
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import SLOWER_MIN
from rooflens.reports.format import count_text, delta_text, time_text


def detect(evidence: Evidence) -> Answer:
    base = evidence.baseline
    before = representative(base) if base is not None else None
    after = representative(evidence)
    if before is None or after is None or not before.wall_ns or not before.busy_ns:
        return CannotLook("both runs need a timeline with a step")
    busy = after.busy_ns / before.busy_ns - 1
    wall = after.wall_ns / before.wall_ns - 1
    if wall <= SLOWER_MIN.value or busy > SLOWER_MIN.value / 2:
        return None
    return Claim(
        title=f"The step is {delta_text(wall)} slower, the kernels are not: the host is",
        idle_ns=max(0.0, after.idle_ns - before.idle_ns),
        no_bytes="the loss is idle time, not bytes",
        confidence="medium",
        confidence_reason="one representative step of each run; profile diff tests all steps",
        evidence=(
            f"step {time_text(before.wall_ns)} → {time_text(after.wall_ns)}",
            f"busy {time_text(before.busy_ns)} → {time_text(after.busy_ns)} ({delta_text(busy)})",
            f"idle {time_text(before.idle_ns)} → {time_text(after.idle_ns)}",
            f"kernels {count_text(before.kernels)} → {count_text(after.kernels)}",
        ),
    )


RULE = Rule(
    id="R39-host-regression",
    needs=("baseline",),
    looks_for="a slower step whose kernels are no slower",
    clear="The step's time moves with its kernels",
    why=(
        "A faster kernel can come with a slower launch path; then the profile of kernels looks "
        "better while the user waits longer."
    ),
    remedy="Profile the host between the launches (py-spy, torch profiler with stacks)",
    fixed_in="open: vllm#53472 (+21 % a token, kernels 46 % faster)",
    example="busy 9.1 → 9.0 ms, step 10.0 → 12.1 ms",
    thresholds=(SLOWER_MIN,),
    detect=detect,
)
