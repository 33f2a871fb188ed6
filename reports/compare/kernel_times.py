"""Did a kernel get slower? Judged by the kernel's own time, whatever the step time did.

Rows of one kernel (equal name and class, in many layers and grids) are judged together: its time in
the head against what the same launches would have taken at the base's time each.

    four or more runs a side     a rank test on the runs
    else                         against the other kernels of the same two captures: a kernel has to
                                 stand out by three times their spread
    fewer than five others       CANNOT_JUDGE, and named
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rooflens.model import KernelRow, Run
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import Verdict
from rooflens.reports.compare.times import MIN_RUNS, Samples, judge_times
from rooflens.reports.format import delta_text
from rooflens.reports.stats import robust_spread, smallest_rank_sum_p

MIN_OTHERS = 5
"""Other kernels from which on their common movement is known."""
SPREADS = 3.0
"""How many spreads a kernel has to stand out by (rule R32: three sigma)."""

RowPair = tuple[KernelRow, KernelRow]
Judged = tuple[Verdict, str]
_UNMOVED: Judged = (Verdict.NO_CHANGE_SHOWN, "")


def row_key(row: KernelRow) -> Hashable:
    """What identifies a kernel row within a run."""
    return (row.name, row.grid, row.block, row.nvtx, row.op_class, row.device)


@dataclass
class _Group:
    """All rows of one kernel: times in ns, summed over its launches in the head."""

    expected_ns: float = 0.0
    """What the head's launches would take at the base's time each."""
    head_ns: float = 0.0
    base_ns: float = 0.0

    @property
    def ratio(self) -> float | None:
        """log of head over expected."""
        if self.expected_ns <= 0 or self.head_ns <= 0:
            return None
        return math.log(self.head_ns / self.expected_ns)


class KernelTimes:
    """Time verdicts for matched kernel rows."""

    def __init__(
        self,
        pairs: Sequence[RowPair],
        base: Sequence[Run],
        head: Sequence[Run],
        options: Options,
        forbidden: str,
    ) -> None:
        self._options = options
        self._groups: dict[Hashable, _Group] = defaultdict(_Group)
        if not forbidden:
            for pair in pairs:
                self._add(*pair)
        self._whole = max(
            sum(group.base_ns for group in self._groups.values()),
            sum(group.head_ns for group in self._groups.values()),
        )
        heavy = sum(self._matters(group) for group in self._groups.values())
        # One of many kernels is above alpha by chance more often than alpha.
        self._rules = replace(options.times, alpha=options.times.alpha / max(heavy, 1))
        self._samples = self._run_samples(pairs, base, head)
        self._verdicts: dict[Hashable, Judged] = {}

    def judge(self, base: KernelRow, head: KernelRow) -> Judged:
        """The verdict on the kernel that these rows belong to, and why."""
        key = _group_key(base, head)
        if key not in self._groups:
            return _UNMOVED
        if key not in self._verdicts:
            self._verdicts[key] = self._judge(key)
        return self._verdicts[key]

    def _matters(self, group: _Group) -> bool:
        return max(group.base_ns, group.head_ns) >= self._options.kernel_share * self._whole

    def _add(self, one: KernelRow, other: KernelRow) -> None:
        here, there = one.duration_ns, other.duration_ns
        # Times of a counter replay are cold and serialised: never compared.
        if here.source != "timeline" or there.source != "timeline":
            return
        group = self._groups[_group_key(one, other)]
        group.base_ns += (here.value or 0) * one.count
        group.expected_ns += (here.value or 0) * other.count
        group.head_ns += (there.value or 0) * other.count

    def _judge(self, key: Hashable) -> Judged:
        group = self._groups[key]
        ratio = group.ratio
        threshold = math.log1p(self._options.times.threshold)
        if ratio is None or abs(ratio) < threshold:
            return _UNMOVED
        if not self._matters(group):
            return _UNMOVED
        size = f"{delta_text(math.expm1(ratio))} a launch"
        if key in self._samples:
            judged = judge_times(self._samples[key], self._rules)
            p = f"; p={judged.p:.3f}" if judged.p is not None else f"; {judged.reason}"
            return judged.verdict, f"{size}{p}"
        return self._against_others(key, ratio, threshold, size)

    def _against_others(self, key: Hashable, ratio: float, threshold: float, size: str) -> Judged:
        others = [
            group.ratio
            for other, group in self._groups.items()
            if other != key and group.ratio is not None
        ]
        if len(others) < MIN_OTHERS:
            why = "one capture a side and too few other kernels to compare with"
            return Verdict.CANNOT_JUDGE, f"{size}; {why}"
        usual = median(others)
        moved = f"the other kernels moved by {delta_text(math.expm1(usual))}"
        if abs(ratio - usual) < max(threshold, SPREADS * robust_spread(others)):
            return Verdict.WITHIN_NOISE, f"{size}, but {moved}"
        worse = Verdict.REGRESSED if ratio > usual else Verdict.IMPROVED
        return worse, f"{size}, while {moved}"

    def _run_samples(
        self, pairs: Sequence[RowPair], base: Sequence[Run], head: Sequence[Run]
    ) -> dict[Hashable, Samples]:
        """For every kernel, its time in each run relative to the base's pooled time."""
        sides = [[run for run in side if run.kernels] for side in (base, head)]
        if not self._groups or min(len(side) for side in sides) < MIN_RUNS:
            return {}
        times: list[dict[Hashable, list[float]]] = []
        for index, side in enumerate(sides):
            places = {
                row_key(pair[index]): (_group_key(*pair), pair[0].duration_ns.value)
                for pair in pairs
            }
            times.append(_relative_times(side, places))
        found = {
            key: Samples(tuple(times[0][key]), tuple(times[1][key]), what="runs")
            for key in times[0]
            if key in times[1]
        }
        # Few runs can never show one kernel among many: then the other kernels are the measure.
        return {
            key: sample
            for key, sample in found.items()
            if smallest_rank_sum_p(len(sample.base), len(sample.head)) < self._rules.alpha
        }


def _group_key(base: KernelRow, head: KernelRow) -> Hashable:
    return (base.name, head.name, base.op_class)


def _relative_times(
    runs: Sequence[Run], places: dict[Hashable, tuple[Hashable, float | None]]
) -> dict[Hashable, list[float]]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for run in runs:
        sums: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for row in run.kernels:
            key, expected = places.get(row_key(row), (None, None))
            if key is not None and expected and row.duration_ns.source == "timeline":
                sums[key][0] += (row.duration_ns.value or 0) * row.count
                sums[key][1] += expected * row.count
        for key, (measured, reference) in sums.items():
            found[key].append(measured / reference)
    return found
