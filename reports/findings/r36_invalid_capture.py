"""R36: a capture cannot carry a verdict."""

from __future__ import annotations

from rooflens.model import KernelRow
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_numbers import bandwidth_share, metric
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import PEAK_TOLERANCE
from rooflens.reports.format import percent_text, plural

_SPOILING = ("ncu-dead-kernels", "timeline-graphs", "ncu-report-cut", "ncu-csv-cut", "ncu-error")
"""Checks whose warning means that the kernels which matter may be missing."""

_OF_THE_RUN = ("op-order", "op-times", "spread", "times")
"""Checks of the counted and timed run itself, which no capture can spoil."""

_PEAK_METRICS = (
    "dram_percent_of_roof", "tensor_percent_of_roof", "flop_percent_of_roof",
    "dram_throughput_percent", "sm_throughput_percent",
)  # fmt: skip


def _problems(evidence: Evidence) -> list[str]:
    """Why the captures cannot be trusted, most basic reason first."""
    problems = [
        check.message
        for check in evidence.checks
        if (check.outcome == "failed" and check.id not in _OF_THE_RUN)
        or (check.outcome == "warning" and check.id in _SPOILING)
    ]
    traced = [capture for capture in evidence.captures if capture.format]
    graph_launches = sum(graph.launches for graph in evidence.graphs)
    if traced and not evidence.kernels:
        if graph_launches:
            problems.append(
                f"{plural(graph_launches, 'CUDA graph launch', 'CUDA graph launches')} without "
                "node rows: capture again with --cuda-graph-trace=node"
            )
        elif not problems and not _has_ranges(evidence):
            problems.append("no kernel is in the capture")
    elif traced and not any(map(_is_measured, evidence.kernels)):
        reason = evidence.kernels[0].duration_ns.absent or "nothing was collected"
        problems.append(f"no kernel has a time, bytes or FLOPs ({reason})")
    if evidence.ops and evidence.kernels:
        missing = [kind for kind in ("product", "attention") if not evidence.rows_of(kind)]
        if "product" in missing:
            problems.append("a model step was captured, but no matrix product is among the kernels")
    over = _over_peak(evidence)
    if over:
        problems.append(over)
    return problems


def _has_ranges(evidence: Evidence) -> bool:
    """A table of ranges alone is a capture of its own kind, and says nothing about kernels."""
    return evidence.timeline is not None and bool(evidence.timeline.ranges)


def _is_measured(kernel: KernelRow) -> bool:
    quantities = (kernel.duration_ns, kernel.dram_bytes, kernel.l2_bytes, kernel.flops)
    return any(quantity.value is not None for quantity in quantities)


def _over_peak(evidence: Evidence) -> str:
    """A kernel above a hardware peak, if there is one."""
    for kernel in evidence.kernels:
        shares = [metric(kernel, name) for name in _PEAK_METRICS]
        worst = max((share / 100 for share in shares if share is not None), default=0.0)
        worst = max(worst, bandwidth_share(kernel, evidence.roof) or 0.0)
        if worst > PEAK_TOLERANCE.value:
            return (
                f"{kernel.short_name} is at {percent_text(worst)} of a hardware peak: counters and "
                "duration do not belong together"
            )
    return ""


def detect(evidence: Evidence) -> Answer:
    problems = _problems(evidence)
    if not problems:
        return None
    return Claim(
        title=f"No verdict from this capture: {problems[0]}",
        no_bytes="a capture that cannot be trusted has no saving",
        confidence="high",
        confidence_reason="the capture contradicts itself or holds nothing",
        evidence=tuple(problems),
    )


RULE = Rule(
    id="R36-invalid-capture",
    needs=("captures",),
    looks_for="captures that hold no kernels, hide them in graphs, or contradict themselves",
    clear="The captures can carry a verdict",
    why=(
        "An empty table is not zero bytes. A capture that matched nothing, lost its ranges or "
        "counted above a hardware peak must not become a number."
    ),
    remedy="Follow the first line of the evidence; profile doctor checks what this machine can do",
    fixed_in="no version",
    example="a step of CUDA graph launches without node rows reads as an idle GPU",
    thresholds=(PEAK_TOLERANCE,),
    detect=detect,
)
