"""The verdict of a comparison as a whole, what it rests on, and what several changes mean together.

Any regression decides first. A drop needs a reason before it counts as an improvement: requested
bytes below compulsory, FLOPs below the minimum, or a missing operator class mean missing work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.model import Run, Totals
from rooflens.reports.compare.deltas import JUDGED, METRIC_NAMES, change_text
from rooflens.reports.compare.kernels import Kernels
from rooflens.reports.compare.operators import Forbidden, Operators
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import (
    Delta,
    KernelChange,
    Pattern,
    TimeJudgement,
    Verdict,
)
from rooflens.reports.format import (
    bytes_text,
    count_text,
    delta_text,
    flops_text,
    time_text,
)

SMALL_STEP_CHANGE = 0.02
"""A step that moved by less did not move, when one of its kernels did."""


@dataclass(frozen=True)
class Evidence:
    """Everything that a verdict is made from."""

    base: Sequence[Run]
    head: Sequence[Run]
    options: Options
    forbidden: Forbidden
    totals: Sequence[Delta]
    time: TimeJudgement
    operators: Operators
    kernels: Kernels


@dataclass(frozen=True)
class Judgement:
    """The verdict, its sentence, and its reasons."""

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]


def judge(evidence: Evidence, patterns: Sequence[Pattern]) -> Judgement:
    """Decide on a comparison as a whole."""
    forbidden = evidence.forbidden
    if forbidden.counted and forbidden.time and forbidden.moved:
        return Judgement(
            Verdict.NOT_COMPARABLE,
            f"These runs must not be compared. {_capital(forbidden.counted)}.",
            (forbidden.counted,),
        )
    worse = _regressions(evidence, patterns)
    missing = missing_work(evidence)
    if worse:
        sentence = _sentence(worse) + _yet_better(evidence)
        return Judgement(Verdict.REGRESSED, sentence, tuple(worse + missing))
    if missing:
        return Judgement(
            Verdict.CANNOT_JUDGE,
            f"Work is missing, which is not a win: {missing[0]}.",
            tuple(missing),
        )
    unknown = [pattern.sentence for pattern in patterns if pattern.verdict is Verdict.CANNOT_JUDGE]
    unknown += _disagreements(evidence.totals)
    if unknown:
        return Judgement(Verdict.CANNOT_JUDGE, _sentence(unknown), tuple(unknown))
    return _without_regression(evidence)


def _yet_better(evidence: Evidence) -> str:
    """What the step as a whole gained, where only a part of it got worse."""
    judged = [item for item in evidence.totals if item.metric in JUDGED]
    if any(item.verdict is Verdict.REGRESSED for item in judged):
        return ""
    better = [_named(item) for item in judged if item.verdict is Verdict.IMPROVED]
    return f" The step as a whole got better: {', '.join(better)}." if better else ""


def _without_regression(evidence: Evidence) -> Judgement:
    exact = [item for item in evidence.totals if item.metric in JUDGED and item.change is not None]
    better = _improvements(evidence)
    if better:
        return Judgement(Verdict.IMPROVED, _sentence(better), tuple(better))
    if not exact and evidence.forbidden.failed:
        failed = evidence.forbidden.failed
        return Judgement(
            Verdict.CANNOT_JUDGE, f"The evidence is not good enough: {failed}.", (failed,)
        )
    if not exact:
        time = evidence.time
        sentence = {
            Verdict.NO_CHANGE_SHOWN: "No change of the step time was shown",
            Verdict.WITHIN_NOISE: "The step time moved less than what is called a change",
            Verdict.NOT_COMPARABLE: "Only times could be compared, and they must not be",
        }.get(time.verdict, "Nothing can be judged: no exact number is on both sides, and times")
        return Judgement(time.verdict, f"{sentence}: {time.reason}.", (time.reason,))
    names = ", ".join(METRIC_NAMES[item.metric] for item in exact)
    changes = [item for item in exact if item.verdict is Verdict.WITHIN_NOISE]
    noise = "".join(f" {_capital(_named(item))} is within noise." for item in changes)
    return Judgement(
        Verdict.NO_CHANGE_SHOWN,
        f"No change: {names} are the same on both sides.{noise}"
        if not changes
        else f"No change was shown.{noise}",
        (_time_reason(evidence.time),),
    )


def _regressions(evidence: Evidence, patterns: Sequence[Pattern]) -> list[str]:
    worse = [
        _because(item, evidence)
        for item in evidence.totals
        if item.verdict is Verdict.REGRESSED and item.metric in JUDGED
    ]
    if not worse:
        worse += [
            f"{change.op_class}: {_named(item)}"
            for change in evidence.operators.changes
            for item in change.deltas
            if item.verdict is Verdict.REGRESSED
        ]
    if evidence.time.verdict is Verdict.REGRESSED:
        worse.append(_time_reason(evidence.time))
    told = [pattern.sentence for pattern in patterns if pattern.verdict is Verdict.REGRESSED]
    worse += told
    if not told:
        worse += [
            kernel_text(change)
            for change in evidence.kernels.changes
            if change.verdict is Verdict.REGRESSED and change.kind != "count changed"
        ]
    return worse


def _improvements(evidence: Evidence) -> list[str]:
    better = [
        _because(item, evidence)
        for item in evidence.totals
        if item.verdict is Verdict.IMPROVED and item.metric in JUDGED
    ]
    if evidence.time.verdict is Verdict.IMPROVED:
        better.append(_time_reason(evidence.time))
    better += [
        kernel_text(change)
        for change in evidence.kernels.changes
        if change.verdict is Verdict.IMPROVED and change.kind in ("time changed", "substituted")
    ]
    return better


def _because(item: Delta, evidence: Evidence) -> str:
    """A total that changed, and the operator classes that did it."""
    metric = "calls" if item.metric == "calls" else item.metric
    parts = [
        (part.change or 0, change.op_class)
        for change in evidence.operators.changes
        for part in change.deltas
        if part.metric == metric and part.change
    ]
    parts.sort(key=lambda part: (-abs(part[0]), part[1]))
    named = ", ".join(f"{name} {_amount(metric, size)}" for size, name in parts[:3])
    more = f" and {len(parts) - 3} more classes" if len(parts) > 3 else ""
    return f"{_named(item)}{f': {named}{more}' if named else ''}"


def _amount(metric: str, change: float) -> str:
    sign = "+" if change > 0 else "−"
    if metric.endswith("bytes"):
        return sign + bytes_text(abs(change))
    if metric.endswith("flops"):
        return sign + flops_text(abs(change))
    return sign + count_text(abs(change))


def _named(item: Delta) -> str:
    return f"{METRIC_NAMES[item.metric]} {change_text(item)}"


def _time_reason(time: TimeJudgement) -> str:
    if time.p is None:
        return f"step time not judged: {time.reason}"
    return f"step time {time.reason} (p={time.p:.3f}, n={time.n_base} and {time.n_head})"


def kernel_text(change: KernelChange) -> str:
    """One kernel change in words."""
    name = change.head_name or change.base_name
    if change.kind == "substituted":
        name = f"{change.base_name} → {change.head_name}"
    why = f": {change.reason}" if change.reason else ""
    moved = change.moved_bytes
    if moved.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        why += f"{',' if why else ':'} moved bytes {change_text(moved)}"
    return f"kernel {name} ({change.op_class}) {change.kind}{why}"


def _sentence(reasons: Sequence[str]) -> str:
    more = f" And {len(reasons) - 1} more, below." if len(reasons) > 1 else ""
    return f"{_capital(reasons[0])}.{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _disagreements(totals: Sequence[Delta]) -> list[str]:
    """Exact numbers on which the runs of one side contradict each other."""
    return [
        f"{METRIC_NAMES[item.metric]}: {item.reason}"
        for item in totals
        if item.metric in JUDGED and item.verdict is Verdict.CANNOT_JUDGE
        and "disagree" in item.reason
    ]  # fmt: skip


def missing_work(evidence: Evidence) -> list[str]:
    """Signs that the head does less than the work needs, with the numbers."""
    found = []
    explained = evidence.options.drop_reasons
    for op_class in evidence.operators.gone_classes:
        if op_class not in explained:
            found.append(f"the operator class {op_class} is gone")
    if evidence.kernels.compared and not evidence.kernels.matched:
        found.append("no kernel of the base is in the head: these are not runs of the same work")
    elif not evidence.operators.gone_classes:
        found += [
            f"no kernel of the class {op_class} is left"
            for op_class in evidence.kernels.gone_classes
            if op_class not in explained
        ]
    return found + implausible(evidence.head[0].totals)


def implausible(totals: Totals) -> list[str]:
    """Totals below what the work cannot do without."""
    found = []
    for low, limit, text in (
        (totals.requested_bytes, totals.compulsory_bytes, bytes_text),
        (totals.requested_flops, totals.minimum_flops, flops_text),
    ):
        if low.value is None or limit.value is None or low.value >= limit.value:
            continue
        what = "bytes are" if text is bytes_text else "FLOPs are"
        least = "compulsory" if text is bytes_text else "minimum"
        found.append(f"requested {what} {text(low.value)}, below the {least} {text(limit.value)}")
    return found


def find_patterns(evidence: Evidence) -> tuple[Pattern, ...]:
    """What several changes mean together."""
    found = [*_hidden_kernels(evidence), *_host(evidence), *_graphs(evidence)]
    return tuple(found)


def _hidden_kernels(evidence: Evidence) -> list[Pattern]:
    """A kernel got slower, and the step time does not show it."""
    slow = [
        change
        for change in evidence.kernels.changes
        if change.time_ns.change and change.time_ns.change > 0
        and change.time_ns.verdict in (Verdict.REGRESSED, Verdict.CANNOT_JUDGE)
    ]  # fmt: skip
    if not slow or evidence.time.verdict is Verdict.REGRESSED:
        return []
    found = []
    for change in slow[:3]:
        name = change.head_name or change.base_name
        lost = time_text(change.time_ns.change or 0)
        step = _step_words(evidence)
        found.append(
            Pattern(
                id="hidden-kernel",
                verdict=change.time_ns.verdict,
                sentence=f"kernel {name} ({change.op_class}) is slower by {lost} "
                f"({change.time_ns.reason}), while {step}",
            )
        )
    return found


def _step_words(evidence: Evidence) -> str:
    relative = evidence.time.relative
    if relative is None:
        base, head = evidence.time.base_median_ns, evidence.time.head_median_ns
        relative = head / base - 1 if base and head else None
    if relative is None:
        return "no step time was measured"
    if abs(relative) < SMALL_STEP_CHANGE:
        return f"the step time does not move ({delta_text(relative)})"
    return f"the step time moves by {delta_text(relative)}, which was not shown to be a change"


def _host(evidence: Evidence) -> list[Pattern]:
    """The step is longer, the kernels are not: the host is slower (rule R39)."""
    base, head = evidence.kernels.base_time_ns, evidence.kernels.head_time_ns
    if evidence.time.verdict is not Verdict.REGRESSED or base is None or head is None:
        return []
    if head > base * 1.01:
        return []
    return [
        Pattern(
            id="host-regression",
            verdict=Verdict.REGRESSED,
            sentence=f"the kernels take {time_text(head)} (before: {time_text(base)}), yet the "
            "step is longer: the time is lost on the host or between kernels",
        )
    ]


def _graphs(evidence: Evidence) -> list[Pattern]:
    """CUDA graphs were launched before and are not any more (rule R40)."""
    launches = [
        sum(graph.launches for graph in side[0].graphs) for side in (evidence.base, evidence.head)
    ]
    if not launches[0] or launches[1] or not evidence.head[0].kernels or evidence.forbidden.kernels:
        return []
    return [
        Pattern(
            id="graph-lost",
            verdict=Verdict.REGRESSED,
            sentence=f"the base launched CUDA graphs ({count_text(launches[0])} launches), "
            "the head launches none: every kernel costs a launch again",
        )
    ]
