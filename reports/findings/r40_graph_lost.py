"""R40: the baseline ran as CUDA graphs, this run does not."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.r19_launch_gap import representative
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import NODES_PER_LAUNCH_MIN
from rooflens.reports.format import count_text, plural


def graph_launches(evidence: Evidence) -> int:
    """Graph launches without node rows; with node rows, kernels above launches give them away."""
    opaque = sum(graph.launches for graph in evidence.graphs)
    step = representative(evidence)
    if opaque or step is None or not step.launches:
        return opaque
    return step.launches if step.kernels / step.launches >= NODES_PER_LAUNCH_MIN.value else 0


def detect(evidence: Evidence) -> Answer:
    base = evidence.baseline
    if base is None or evidence.timeline is None or base.timeline is None:
        return CannotLook("both runs need a timeline: only that shows graph launches")
    before, after = graph_launches(base), graph_launches(evidence)
    if not before or after:
        return None
    step = representative(evidence)
    facts = [f"CUDA graph launches: {count_text(before)} → 0"]
    idle = None
    if step is not None:
        facts.append(f"host launches in the step: {count_text(step.launches)}")
        earlier = representative(base)
        if earlier is not None:
            idle = max(0.0, step.idle_ns - earlier.idle_ns)
    return Claim(
        title=f"CUDA graphs were lost: {plural(before, 'graph launch', 'graph launches')} before, "
        "none now",
        idle_ns=idle,
        no_bytes="the loss is launch time, not bytes",
        confidence="high",
        confidence_reason="graph launches are counted on both timelines",
        evidence=tuple(facts),
    )


RULE = Rule(
    id="R40-graph-lost",
    needs=("baseline",),
    looks_for="CUDA graphs that the baseline had and this run has not",
    clear="Graphs are launched as in the baseline (or there were none)",
    why=(
        "A batch above the largest captured size, or an op that cannot be captured, makes the "
        "server fall back to eager launches without a word."
    ),
    remedy="Capture the size in use (vLLM: cudagraph_capture_sizes), remove syncs inside the step",
    fixed_in="no version; vllm#51509 and kekzl/imp#1709 (2.4 times slower) fell back silently",
    example="28 graph launches a step before, 1,373 kernel launches now",
    thresholds=(NODES_PER_LAUNCH_MIN,),
    detect=detect,
)
