"""The verdict on step times: a change has to be shown, and no change has to be shown as well.

    REGRESSED / IMPROVED   p < alpha, the difference is at least the threshold, and a steady drift
                           through both sides does not explain it (interleaved runs cancel drift)
    WITHIN_NOISE           p < alpha, but the difference is smaller than the threshold
    NO_CHANGE_SHOWN        p >= alpha, and the samples would have shown the threshold
    CANNOT_JUDGE           too few samples, too much noise, or a drift that could explain it

What counts as a sample: with four or more runs a side, the median of each run (so that the
variation between processes is in the test); with fewer, every timed step. Runs that were made by
`profile run --interleave` are compared in pairs, round by round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rooflens.model import Run
from rooflens.reports.compare.records import TimeJudgement, Verdict
from rooflens.reports.format import delta_text, percent_text, plural
from rooflens.reports.stats import (
    Interval,
    drift_adjusted_p,
    paired_interval,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
    smallest_detectable,
    smallest_rank_sum_p,
    smallest_signed_rank_p,
)

MIN_RUNS = 4
"""Runs a side from which on a run, not a step, is the sample."""
MAX_ADVICE = 500
"""More samples than this are not worth advising."""
GROUP_LABEL = "interleave"
ROUND_LABEL = "round"
"""Labels that `profile run --interleave` gives the runs of one session."""


@dataclass(frozen=True)
class TimeRules:
    """When a difference of times is called a change."""

    alpha: float = 0.05
    threshold: float = 0.05


@dataclass(frozen=True)
class Samples:
    """Times of both sides (ns); in pairs when they were made in interleaved rounds."""

    base: tuple[float, ...]
    head: tuple[float, ...]
    paired: bool = False
    what: str = "steps"
    head_first: bool = False
    """The head was timed before the base."""
    absent: str = ""
    doubt: str = ""
    """Why a difference that the samples show need not come from the code."""


def step_samples(run: Run) -> tuple[float, ...]:
    """Times of the steps of one run: its own clock, else the timeline's steps."""
    if run.step_times_ns:
        return run.step_times_ns
    if run.timeline is None:
        return ()
    phases = {step.phase for step in run.timeline.steps}
    return tuple(step.wall_ns for step in run.timeline.steps) if len(phases) == 1 else ()


def samples(base: Sequence[Run], head: Sequence[Run]) -> Samples:
    """Collect the samples of both sides in the order in which they were taken."""
    sides = [[run for run in _in_order(side) if step_samples(run)] for side in (base, head)]
    if not sides[0] or not sides[1]:
        which = "either side" if not (sides[0] or sides[1]) else "base" if not sides[0] else "head"
        return Samples((), (), absent=f"no step was timed on {which}")
    rounds = [
        {
            (run.labels[GROUP_LABEL], run.labels[ROUND_LABEL]): run
            for run in side
            if _interleaved(run)
        }
        for side in sides
    ]
    both = sorted(set(rounds[0]) & set(rounds[1]), key=lambda key: (key[0], len(key[1]), key[1]))
    if both and len(both) == len(sides[0]) == len(sides[1]):
        times = [tuple(median(step_samples(side[key])) for key in both) for side in rounds]
        return Samples(times[0], times[1], paired=True, what="rounds")
    if min(len(side) for side in sides) >= MIN_RUNS:
        times = [tuple(median(step_samples(run)) for run in side) for side in sides]
        return Samples(times[0], times[1], what="runs", head_first=_head_first(sides))
    times = [tuple(time for run in side for time in step_samples(run)) for side in sides]
    return Samples(
        times[0], times[1], head_first=_head_first(sides), doubt=_process_doubt([*base, *head])
    )


def _process_doubt(runs: Sequence[Run]) -> str:
    """Steps of one process say nothing about the next process; on a CPU that is most of the noise.

    Same code: 5 to 20 % (vllm-xpu-kernels#568), 13 % (aprender#2009), up to 26 % between jobs
    (fast_mail_parser#128).
    """
    if all(run.machine.device != "cpu" for run in runs):
        return ""
    return (
        "identical code in two processes on a CPU differs by as much; use `profile run "
        f"--interleave`, or give {MIN_RUNS} runs a side"
    )


def _head_first(sides: list[list[Run]]) -> bool:
    return sides[1][0].created_at < sides[0][0].created_at


def _in_order(side: Sequence[Run]) -> list[Run]:
    return sorted(side, key=lambda run: run.created_at)


def _interleaved(run: Run) -> bool:
    return GROUP_LABEL in run.labels and ROUND_LABEL in run.labels


def judge_times(found: Samples, rules: TimeRules, forbidden: str = "") -> TimeJudgement:
    """Compare two samples of times. `forbidden` is why times must not be compared, if so."""
    if forbidden:
        return _unjudged(Verdict.NOT_COMPARABLE, forbidden, found, rules)
    if found.absent:
        return _unjudged(Verdict.CANNOT_JUDGE, found.absent, found, rules)
    if min((*found.base, *found.head)) <= 0:
        return _unjudged(Verdict.CANNOT_JUDGE, "a time that is not positive", found, rules)
    if found.paired:
        return _judge_pairs(found, rules)
    n_base, n_head = len(found.base), len(found.head)
    if smallest_rank_sum_p(n_base, n_head) >= rules.alpha:
        reason = (
            f"{n_base} and {n_head} {found.what} can never show a difference at "
            f"alpha {rules.alpha:g}; take at least {_enough(rules.alpha)} on each side"
        )
        return _unjudged(Verdict.CANNOT_JUDGE, reason, found, rules)
    interval = shift_interval(found.base, found.head, rules.alpha)
    p = rank_sum_p(found.base, found.head)
    if found.head_first:
        step, p_drift = drift_adjusted_p(found.head, found.base)
        step = -step
    else:
        step, p_drift = drift_adjusted_p(found.base, found.head)
    drift = p_drift >= rules.alpha or (step > 0) != (interval.estimate > 0)
    return _verdict(found, rules, interval, p, "Mann-Whitney", drift)


def _judge_pairs(found: Samples, rules: TimeRules) -> TimeJudgement:
    pairs = len(found.base)
    if smallest_signed_rank_p(pairs) >= rules.alpha:
        needed = next(n for n in range(1, 64) if smallest_signed_rank_p(n) < rules.alpha)
        reason = (
            f"{pairs} interleaved rounds can never show a difference at alpha {rules.alpha:g}; "
            f"take at least {needed}"
        )
        return _unjudged(Verdict.CANNOT_JUDGE, reason, found, rules)
    logs = [math.log(head / base) for base, head in zip(found.base, found.head, strict=True)]
    interval = paired_interval(logs, rules.alpha)
    return _verdict(found, rules, interval, signed_rank_p(logs), "Wilcoxon, paired rounds", False)


def _verdict(
    found: Samples, rules: TimeRules, interval: Interval, p: float, method: str, drift: bool
) -> TimeJudgement:
    detectable = smallest_detectable(interval, rules.alpha)
    shown = p < rules.alpha
    size = delta_text(interval.estimate)
    # A change is worth the same on both sides of a mirror: 1 / 1.05 is as far from 1 as 1.05.
    large = abs(math.log1p(interval.estimate)) >= math.log1p(rules.threshold)
    if shown and large and drift:
        verdict = Verdict.CANNOT_JUDGE
        reason = (
            f"{size}, but a steady drift through base and then head would explain it; "
            "use `profile run --interleave`"
        )
    elif shown and large and found.doubt:
        verdict = Verdict.CANNOT_JUDGE
        reason = f"{size}, but {found.doubt}"
    elif shown and large:
        verdict = Verdict.REGRESSED if interval.estimate > 0 else Verdict.IMPROVED
        reason = f"{size}"
    elif shown:
        verdict = Verdict.WITHIN_NOISE
        reason = f"{size} is less than the threshold of {percent_text(rules.threshold)}"
    elif detectable <= rules.threshold:
        verdict = Verdict.NO_CHANGE_SHOWN
        reason = f"a difference of {percent_text(detectable)} would have shown"
    else:
        verdict = Verdict.CANNOT_JUDGE
        needed = math.ceil(
            min(len(found.base), len(found.head)) * (detectable / rules.threshold) ** 2
        )
        least = plural(min(len(found.base), len(found.head)), found.what[:-1])
        reason = (
            f"{least} a side with this noise would show {percent_text(detectable)}, not the "
            f"threshold of {percent_text(rules.threshold)}; "
        )
        reason += (
            f"take about {needed}" if needed <= MAX_ADVICE else "the machine is too noisy for times"
        )
    return TimeJudgement(
        verdict=verdict,
        reason=reason,
        method=f"{method}, {found.what}",
        base_median_ns=median(found.base),
        head_median_ns=median(found.head),
        relative=interval.estimate,
        low=interval.low,
        high=interval.high,
        p=p,
        n_base=len(found.base),
        n_head=len(found.head),
        smallest_detectable=detectable,
        alpha=rules.alpha,
        threshold=rules.threshold,
    )


def _unjudged(verdict: Verdict, reason: str, found: Samples, rules: TimeRules) -> TimeJudgement:
    return TimeJudgement(
        verdict=verdict,
        reason=reason,
        method="none",
        base_median_ns=median(found.base) if found.base else None,
        head_median_ns=median(found.head) if found.head else None,
        n_base=len(found.base),
        n_head=len(found.head),
        alpha=rules.alpha,
        threshold=rules.threshold,
    )


def _enough(alpha: float) -> int:
    return next(n for n in range(1, 64) if smallest_rank_sum_p(n, n) < alpha)
