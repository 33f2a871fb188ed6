"""Kernels of two sides: kept, substituted, new, gone, launched more often, moving more, slower.

A kernel's time is judged without the step's: with per-run samples where a side has several runs,
with the spread of its launches where the capture recorded it, else against how much the other
kernels of the same two captures moved. That names the hot kernel that got slower while the step
time did not move, which a gate on step time passes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, median

import msgspec

from rooflens.model import KernelRow, Quantity, Run, absent, known
from rooflens.reports.compare.deltas import count, delta, pool
from rooflens.reports.compare.matching import match_kernels
from rooflens.reports.compare.operators import Forbidden
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import Delta, KernelChange, Verdict
from rooflens.reports.compare.times import MIN_RUNS, Samples, judge_times
from rooflens.reports.format import delta_text
from rooflens.reports.stats import robust_spread

MIN_OTHERS = 5
"""Other kernels from which on their common movement is known."""
SPREADS = 3.0
"""How many spreads a kernel has to stand out by (rule R32: three sigma)."""
STDDEV_METRICS = ("duration_stddev_ns", "duration_std_ns")


@dataclass(frozen=True)
class Kernels:
    """What changed in the kernels."""

    changes: list[KernelChange] = field(default_factory=list)
    matched: int = 0
    launches: Delta | None = None
    base_time_ns: float | None = None
    head_time_ns: float | None = None
    """Sum of kernel times over the pooled rows; None where some kernel has no time."""
    compared: bool = False


@dataclass(frozen=True)
class _Pair:
    base: KernelRow
    head: KernelRow
    ratio: float | None
    """log of the head's over the base's mean time a launch, where both come from a timeline."""
    share: float
    """Share of all kernel time (the larger of both sides)."""


def compare_kernels(
    base: Sequence[Run], head: Sequence[Run], options: Options, forbidden: Forbidden
) -> Kernels:
    """Compare the kernel rows of both sides."""
    rows = [_pooled(side) for side in (base, head)]
    if not rows[0] or not rows[1]:
        return Kernels()
    counts = [count(sum(row.count for row in side)) for side in rows]
    launches = delta("launches", counts[0], counts[1], 0.0, forbidden.kernels)
    if forbidden.kernels:
        return Kernels(launches=launches)
    matched = match_kernels(rows[0], rows[1])
    times = [_time_sum(side) for side in rows]
    pairs = [_pair(one, other, times) for one, other in matched.both]
    usual = _Usual(pairs)
    samples = _samples(base, head)
    changes = [_compare(pair, usual, samples, options, forbidden) for pair in pairs]
    changes += [_one_sided(row, "gone", options, forbidden) for row in matched.gone]
    changes += [_one_sided(row, "new", options, forbidden) for row in matched.new]
    return Kernels(
        changes=_collapsed([change for change in changes if change is not None]),
        matched=len(pairs),
        launches=launches,
        base_time_ns=times[0],
        head_time_ns=times[1],
        compared=True,
    )


def _key(row: KernelRow) -> tuple[object, ...]:
    return (row.name, row.grid, row.block, row.nvtx, row.op_class, row.device)


def _pooled(side: Sequence[Run]) -> list[KernelRow]:
    """Kernel rows of a side; several runs are pooled row by row."""
    runs = [run for run in side if run.kernels]
    if len(runs) <= 1:
        return list(runs[0].kernels) if runs else []
    rows: dict[tuple[object, ...], list[KernelRow]] = defaultdict(list)
    for run in runs:
        for row in run.kernels:
            rows[_key(row)].append(row)
    return [
        msgspec.structs.replace(
            members[0],
            duration_ns=pool([row.duration_ns for row in members]),
            dram_bytes=pool([row.dram_bytes for row in members]),
        )
        for members in rows.values()
    ]


def _samples(
    base: Sequence[Run], head: Sequence[Run]
) -> tuple[dict[tuple[object, ...], tuple[float, ...]], ...]:
    """Times a launch by kernel, one sample a run, where both sides have enough runs."""
    if min(sum(bool(run.kernels) for run in side) for side in (base, head)) < MIN_RUNS:
        return ({}, {})
    found = []
    for side in (base, head):
        times: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for run in side:
            for row in run.kernels:
                if row.duration_ns.value:
                    times[_key(row)].append(float(row.duration_ns.value))
        found.append({key: tuple(values) for key, values in times.items()})
    return tuple(found)


def _time_sum(rows: Sequence[KernelRow]) -> float | None:
    values = [
        row.duration_ns.value * row.count
        for row in rows
        if row.duration_ns.value is not None and row.duration_ns.source == "timeline"
    ]
    return float(sum(values)) if len(values) == len(rows) else None


def _pair(one: KernelRow, other: KernelRow, times: Sequence[float | None]) -> _Pair:
    here, there = one.duration_ns, other.duration_ns
    ratio = None
    if here.source == there.source == "timeline" and here.value and there.value:
        ratio = math.log(there.value / here.value)
    shares = [
        (quantity.value or 0) * row.count / whole if whole else 0.0
        for quantity, row, whole in ((here, one, times[0]), (there, other, times[1]))
    ]
    return _Pair(one, other, ratio, max(shares))


class _Usual:
    """How much kernels that run the same code moved between the two captures."""

    def __init__(self, pairs: Sequence[_Pair]) -> None:
        self._ratios = [
            pair.ratio
            for pair in pairs
            if pair.ratio is not None and pair.base.name == pair.head.name
        ]
        self.centre = median(self._ratios) if self._ratios else 0.0
        self.spread = robust_spread(self._ratios)

    @property
    def is_known(self) -> bool:
        # The kernel in question is one of them.
        return len(self._ratios) > MIN_OTHERS


def _total(quantity: Quantity, calls: int) -> Quantity:
    if quantity.value is None or quantity.unit is None or quantity.source is None:
        return quantity
    return known(quantity.value * calls, quantity.unit, quantity.source)


def _compare(
    pair: _Pair,
    usual: _Usual,
    samples: tuple[dict[tuple[object, ...], tuple[float, ...]], ...],
    options: Options,
    forbidden: Forbidden,
) -> KernelChange | None:
    one, other = pair.base, pair.head
    if _unchanged(pair, options):
        return None
    launches = delta("launches", count(one.count), count(other.count))
    moved = delta(
        "moved_bytes", _total(one.dram_bytes, one.count), _total(other.dram_bytes, other.count),
        options.moved_tolerance, forbidden.moved,
    )  # fmt: skip
    time = delta(
        "time_ns", _total(one.duration_ns, one.count), _total(other.duration_ns, other.count), 0,
        forbidden.time,
    )  # fmt: skip
    verdict, why = _time_verdict(pair, usual, samples, options, forbidden)
    time = msgspec.structs.replace(time, verdict=verdict, reason=why) if time.change else time
    kind = _kind(one, other, launches, moved, verdict)
    if not kind:
        return None
    row = _verdict(launches, moved, verdict)
    reason = why if kind == "time changed" or row is verdict else ""
    return KernelChange(
        kind=kind,
        verdict=row,
        reason=reason,
        op_class=one.op_class,
        base_name=one.short_name,
        head_name=other.short_name,
        base_family=one.family,
        head_family=other.family,
        nvtx=other.nvtx,
        launches=launches,
        moved_bytes=moved,
        time_ns=time,
    )


def _unchanged(pair: _Pair, options: Options) -> bool:
    """Nothing that could make a row: asked first, because most pairs are like this."""
    one, other = pair.base, pair.head
    return (
        one.name == other.name
        and one.count == other.count
        and one.grid == other.grid
        and one.block == other.block
        and one.dram_bytes == other.dram_bytes
        and (pair.ratio is None or pair.ratio == 0 or pair.share < options.kernel_share)
    )


def _kind(one: KernelRow, other: KernelRow, launches: Delta, moved: Delta, time: Verdict) -> str:
    if one.name != other.name:
        return "substituted"
    if launches.change:
        return "count changed"
    if moved.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        return "bytes changed"
    if time in (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.CANNOT_JUDGE):
        return "time changed"
    if (one.grid, one.block) != (other.grid, other.block):
        return "launch shape changed"
    return ""


def _verdict(launches: Delta, moved: Delta, time: Verdict) -> Verdict:
    verdicts = (launches.verdict, moved.verdict, time)
    for verdict in (Verdict.REGRESSED, Verdict.CANNOT_JUDGE, Verdict.IMPROVED):
        if verdict in verdicts and not (
            verdict is Verdict.CANNOT_JUDGE and time is not Verdict.CANNOT_JUDGE
        ):
            return verdict
    return Verdict.NO_CHANGE_SHOWN


def _time_verdict(
    pair: _Pair,
    usual: _Usual,
    samples: tuple[dict[tuple[object, ...], tuple[float, ...]], ...],
    options: Options,
    forbidden: Forbidden,
) -> tuple[Verdict, str]:
    """Judge the time of one launch of a kernel; NO_CHANGE_SHOWN where it does not matter."""
    if pair.ratio is None or forbidden.time:
        return Verdict.NO_CHANGE_SHOWN, forbidden.time
    threshold = math.log1p(options.times.threshold)
    if pair.share < options.kernel_share or abs(pair.ratio) < threshold:
        return Verdict.NO_CHANGE_SHOWN, ""
    size = f"{delta_text(math.expm1(pair.ratio))} a launch"
    worse = Verdict.REGRESSED if pair.ratio > 0 else Verdict.IMPROVED
    runs = Samples(
        samples[0].get(_key(pair.base), ()), samples[1].get(_key(pair.head), ()), what="runs"
    )
    if min(len(runs.base), len(runs.head)) >= MIN_RUNS:
        judged = judge_times(runs, options.times)
        return (
            judged.verdict,
            f"{size}; p={judged.p:.3f}" if judged.p is not None else judged.reason,
        )
    if usual.is_known:
        distance = abs(pair.ratio - usual.centre)
        others = f"the other kernels moved by {delta_text(math.expm1(usual.centre))}"
        if distance >= max(threshold, SPREADS * usual.spread):
            return worse, f"{size}, while {others}"
        return Verdict.WITHIN_NOISE, f"{size}, but {others}"
    p = _launch_p(pair)
    if p is not None:
        if p < options.times.alpha:
            return worse, f"{size}; p={p:.3f} over its launches"
        return Verdict.WITHIN_NOISE, f"{size}; p={p:.3f} over its launches"
    return (
        Verdict.CANNOT_JUDGE,
        f"{size}; one capture a side and too few other kernels to compare with",
    )


def _launch_p(pair: _Pair) -> float | None:
    """Welch's test on the mean of many launches, where the capture recorded their spread."""
    variance = 0.0
    for row in (pair.base, pair.head):
        spread = next(
            (row.metrics[name].value for name in STDDEV_METRICS if name in row.metrics), None
        )
        if spread is None or row.count < 20:
            return None
        variance += spread**2 / row.count
    difference = abs((pair.head.duration_ns.value or 0) - (pair.base.duration_ns.value or 0))
    if variance == 0:
        return 0.0 if difference else 1.0
    return 2 * (1 - NormalDist().cdf(difference / math.sqrt(variance)))


def _one_sided(row: KernelRow, kind: str, options: Options, forbidden: Forbidden) -> KernelChange:
    """A kernel that only one side launches."""

    def sides(total: Quantity, zero: Quantity) -> tuple[Quantity, Quantity]:
        return (total, zero) if kind == "gone" else (zero, total)

    def one(metric: str, quantity: Quantity, why: str) -> Delta:
        total = _total(quantity, row.count)
        zero = absent("not launched on this side")
        if total.value is not None and total.unit is not None and total.source is not None:
            zero = known(0, total.unit, total.source)
        return delta(metric, *sides(total, zero), 0.0, why)

    return KernelChange(
        kind=kind,
        verdict=Verdict.GONE if kind == "gone" else Verdict.NEW,
        reason="",
        op_class=row.op_class,
        base_name=row.short_name if kind == "gone" else "",
        head_name=row.short_name if kind == "new" else "",
        base_family=row.family if kind == "gone" else "",
        head_family=row.family if kind == "new" else "",
        nvtx=row.nvtx,
        launches=delta("launches", *sides(count(row.count), count(0))),
        moved_bytes=one("moved_bytes", row.dram_bytes, forbidden.moved),
        time_ns=one("time_ns", row.duration_ns, forbidden.time),
    )


def _collapsed(changes: list[KernelChange]) -> list[KernelChange]:
    """One line for what happened alike in many places, biggest change first."""
    groups: dict[tuple[str, ...], list[KernelChange]] = defaultdict(list)
    for change in changes:
        key = (
            change.kind, change.verdict, change.op_class, change.base_name, change.head_name,
            change.base_family, change.head_family,
        )  # fmt: skip
        groups[key].append(change)
    merged = [_merged(members) for members in groups.values()]
    return sorted(merged, key=_weight, reverse=True)


def _weight(change: KernelChange) -> tuple[float, float, float]:
    return (
        abs(change.time_ns.change or 0),
        abs(change.moved_bytes.change or 0),
        abs(change.launches.change or 0),
    )


def _merged(members: list[KernelChange]) -> KernelChange:
    first = members[0]
    if len(members) == 1:
        return first
    return msgspec.structs.replace(
        first,
        rows=len(members),
        nvtx=(),
        **{name: _summed([getattr(member, name) for member in members])
           for name in ("launches", "moved_bytes", "time_ns")},
    )  # fmt: skip


def _summed(deltas: list[Delta]) -> Delta:
    first = deltas[0]
    sides = []
    for name in ("base", "head"):
        quantities: list[Quantity] = [getattr(item, name) for item in deltas]
        missing = next((item for item in quantities if item.value is None), None)
        sides.append(
            missing
            or msgspec.structs.replace(
                quantities[0], value=sum(item.value or 0 for item in quantities)
            )
        )
    made = delta(first.metric, sides[0], sides[1])
    worst = next((item for item in deltas if item.verdict is Verdict.REGRESSED), first)
    return msgspec.structs.replace(made, verdict=worst.verdict, reason=worst.reason)
