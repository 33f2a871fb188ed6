"""Compare two sides, each one run or several: what changed, whether it is worse, and how sure.

    compare(base, head, Options()) -> Comparison

`records.py` holds what a comparison says; `environment.py` asks first what may be compared at all;
`operators.py`, `kernels.py`, `findings.py` and `times.py` compare; `judging.py` gives the verdict;
`gate.py` turns it into an exit code; `renderers/` writes it down. docs/comparing.md explains it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflens.errors import UsageError
from rooflens.model import Quantity, Run, absent
from rooflens.reports.compare.baseline_rules import allowed, answers, clock_reason
from rooflens.reports.compare.deltas import MEASURED, count, delta, gap, pool
from rooflens.reports.compare.environment import differences, failures, forbidden
from rooflens.reports.compare.findings import compare_findings, rules_answered
from rooflens.reports.compare.judging import Evidence, find_patterns, judge
from rooflens.reports.compare.kernels import compare_kernels
from rooflens.reports.compare.operators import Forbidden, compare_operators
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import (
    Aspect,
    Comparison,
    Delta,
    OperatorChange,
    Side,
    TimeJudgement,
)
from rooflens.reports.compare.times import judge_times, samples
from rooflens.reports.format import bytes_text, plural
from rooflens.reports.view.basis import basis

__all__ = ["Comparison", "Options", "compare"]

_TOTALS = (
    ("minimum_bytes", Aspect.COUNTED), ("compulsory_bytes", Aspect.COUNTED),
    ("requested_bytes", Aspect.COUNTED), ("moved_bytes", Aspect.MOVED),
    ("minimum_flops", Aspect.COUNTED), ("requested_flops", Aspect.COUNTED),
    ("executed_flops", Aspect.MOVED), ("elementwise_flops", Aspect.COUNTED),
    ("intensity", Aspect.COUNTED), ("floor_ns", Aspect.COUNTED),
    ("step_time_ns", Aspect.TIME),
)  # fmt: skip


def compare(base: Sequence[Run], head: Sequence[Run], options: Options | None = None) -> Comparison:
    """Compare two sides of one or more runs each.

    Raises UsageError when a side has no run. Never raises because runs differ: that is the verdict.
    """
    if not base or not head:
        raise UsageError("A comparison needs at least one run on each side.")
    options = options or Options()
    environment = differences(base, head)
    why = {aspect: forbidden(environment, aspect) for aspect in Aspect}
    found = answers(base, head)
    forbids = Forbidden(
        counted=why[Aspect.COUNTED],
        moved=why[Aspect.MOVED],
        kernels=why[Aspect.KERNELS],
        time=why[Aspect.TIME] or _time_evidence(base, head) or clock_reason(found),
        failed=failures(environment),
    )
    kernels = compare_kernels(base, head, options, forbids)
    operators = compare_operators(base, head, options, forbids)
    time = judge_times(samples(base, head), options.times, forbids.time)
    totals = [_timed(item, time) for item in _totals(base, head, options, forbids)]
    if kernels.launches is not None:
        totals.append(kernels.launches)
    evidence = Evidence(base, head, options, forbids, totals, time, operators, kernels)
    patterns = find_patterns(evidence)
    judged = judge(evidence, patterns)
    blocked = bool(forbids.counted)
    differing = () if blocked else allowed(found, forbids)
    return Comparison(
        verdict=judged.verdict,
        sentence=judged.sentence,
        reasons=judged.reasons,
        base=_side(base, options.base_name),
        head=_side(head, options.head_name),
        environment=environment,
        notes=tuple(_notes(base, head, totals, operators.changes, operators.renamed, options)),
        totals=tuple(totals),
        time=time,
        operators=() if blocked else tuple(operators.changes),
        ops=tuple(operators.ops),
        kernels=tuple(kernels.changes),
        findings=() if blocked else tuple(compare_findings(base, head)),
        patterns=patterns,
        differences=differing,
        rules=() if blocked else rules_answered(base, head, differing),
        renamed_modules=operators.renamed,
        matched_kernels=kernels.matched,
        workload=_workload(head[0]),
    )


def _time_evidence(base: Sequence[Run], head: Sequence[Run]) -> str:
    """A host clock must not be compared with a timeline."""
    sources = [
        {run.totals.step_time_ns.source for run in side if run.totals.step_time_ns.source}
        for side in (base, head)
    ]
    if not sources[0] or not sources[1] or sources[0] == sources[1]:
        return ""
    names = [", ".join(sorted(str(source) for source in side)) for side in sources]
    return f"times from {names[0]} against times from {names[1]}"


def _totals(
    base: Sequence[Run], head: Sequence[Run], options: Options, forbids: Forbidden
) -> list[Delta]:
    reasons = {
        Aspect.COUNTED: forbids.counted,
        Aspect.MOVED: forbids.moved,
        Aspect.KERNELS: forbids.kernels,
        Aspect.TIME: forbids.time,
    }
    made = []
    for metric, aspect in _TOTALS:
        sides = [pool([getattr(run.totals, metric) for run in side]) for side in (base, head)]
        tolerance = options.moved_tolerance if metric in MEASURED else 0.0
        made.append(delta(metric, sides[0], sides[1], tolerance, reasons[aspect]))
    gaps = [
        pool([gap(run.totals.step_time_ns, run.totals.floor_ns) for run in side])
        for side in (base, head)
    ]
    made.append(delta("gap_ns", gaps[0], gaps[1], 0.0, forbids.time))
    calls = [_calls(side) for side in (base, head)]
    made.append(delta("calls", calls[0], calls[1], 0.0, forbids.counted))
    return made


def _timed(item: Delta, time: TimeJudgement) -> Delta:
    """Times of the step have the verdict of their samples, not of their difference."""
    if item.metric not in ("step_time_ns", "gap_ns") or not item.change:
        return item
    return msgspec.structs.replace(item, verdict=time.verdict, reason=time.reason)


def _calls(side: Sequence[Run]) -> Quantity:
    counts = [len(run.ops) or sum(row.count for row in basis(run).classes) for run in side]
    return pool([count(number) if number else absent("no ops were counted") for number in counts])


def _notes(
    base: Sequence[Run],
    head: Sequence[Run],
    totals: Sequence[Delta],
    operators: Sequence[OperatorChange],
    renamed: int,
    options: Options,
) -> list[str]:
    notes = []
    if list(base) == list(head):
        notes.append("Both sides are the same run.")
    if renamed:
        notes.append(f"{plural(renamed, 'module')} renamed; their ops are the same.")
    notes += [f"{name} is gone, explained: {why}." for name, why in options.drop_reasons.items()]
    total = next(item for item in totals if item.metric == "requested_bytes")
    parts = sum(
        item.change or 0
        for change in operators
        for item in change.deltas
        if item.metric == "requested_bytes"
    )
    if total.change is not None and parts != total.change:
        notes.append(
            f"The operators explain {bytes_text(parts)} of {bytes_text(total.change)} of the "
            "difference of requested bytes."
        )
    if any(run.kernels and not _has_steps(run) for run in (base[0], head[0])):
        notes.append("Kernel launches are of the whole capture: it shows no steps.")
    floors = [side[0].roofs[0].name if side[0].roofs else "" for side in (base, head)]
    if floors[0] != floors[1]:
        notes.append("The sides use different roofs: floors and gaps are not comparable.")
    return notes


def _has_steps(run: Run) -> bool:
    return bool(run.workload.steps) or (run.timeline is not None and bool(run.timeline.steps))


def _side(runs: Sequence[Run], name: str) -> Side:
    first = runs[0]
    return Side(
        name=name,
        runs=len(runs),
        created_at=tuple(run.created_at for run in runs),
        command=" ".join(first.command),
        evidence=first.evidence,
        labels=first.labels,
    )


def _workload(run: Run) -> str:
    work = run.workload
    said = [run.model.name, work.name]
    said += [
        f"{name.replace('_', ' ')} {value}"
        for name in ("batch", "context", "prompt", "query_tokens", "attention", "dtype")
        if (value := getattr(work, name)) not in (None, "")
    ]
    return ", ".join(part for part in said if part)
