"""Kernels of two sides: kept, substituted, new, gone, launched more often, moving more, slower."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import msgspec

from rooflens.model import KernelRow, Quantity, Run, absent, known
from rooflens.reports.compare.deltas import count, delta, pool
from rooflens.reports.compare.kernel_times import Judged, KernelTimes, row_key
from rooflens.reports.compare.matching import match_kernels
from rooflens.reports.compare.operators import Forbidden, classes_gone
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import Delta, KernelChange, Verdict


@dataclass(frozen=True)
class Kernels:
    """What changed in the kernels."""

    changes: list[KernelChange] = field(default_factory=list)
    matched: int = 0
    gone_classes: list[str] = field(default_factory=list)
    """Classes that the model needs and of which the head has no kernel."""
    compared: bool = False
    launches: Delta | None = None
    base_time_ns: float | None = None
    head_time_ns: float | None = None
    """Sum of kernel times over the pooled rows; None where some kernel has no time."""


def compare_kernels(
    base: Sequence[Run], head: Sequence[Run], options: Options, forbidden: Forbidden
) -> Kernels:
    """Compare the kernel rows of both sides."""
    rows = [_pooled(side) for side in (base, head)]
    if not rows[0] or not rows[1]:
        return Kernels()
    launches = delta("launches", _launches(base), _launches(head), 0.0, forbidden.kernels)
    if forbidden.kernels:
        return Kernels(launches=launches)
    matched = match_kernels(rows[0], rows[1])
    times = KernelTimes(matched.both, base, head, options, forbidden.time)
    changes = [_compare(*pair, times.judge(*pair), options, forbidden) for pair in matched.both]
    changes += [_one_sided(row, "gone", forbidden) for row in matched.gone]
    changes += [_one_sided(row, "new", forbidden) for row in matched.new]
    return Kernels(
        changes=_collapsed([change for change in changes if change is not None]),
        matched=len(matched.both),
        gone_classes=classes_gone(*({row.op_class for row in side} for side in rows)),
        compared=True,
        launches=launches,
        base_time_ns=_time_sum(rows[0]),
        head_time_ns=_time_sum(rows[1]),
    )


def _launches(side: Sequence[Run]) -> Quantity:
    return pool([count(sum(row.count for row in run.kernels)) for run in side if run.kernels])


def _pooled(side: Sequence[Run]) -> list[KernelRow]:
    """Kernel rows of a side; several runs are pooled row by row."""
    runs = [run for run in side if run.kernels]
    if len(runs) <= 1:
        return list(runs[0].kernels) if runs else []
    rows: dict[Hashable, list[KernelRow]] = defaultdict(list)
    for run in runs:
        for row in run.kernels:
            rows[row_key(row)].append(row)
    return [
        msgspec.structs.replace(
            members[0],
            duration_ns=pool([row.duration_ns for row in members]),
            dram_bytes=pool([row.dram_bytes for row in members]),
        )
        for members in rows.values()
    ]


def _time_sum(rows: Sequence[KernelRow]) -> float | None:
    values = [
        row.duration_ns.value * row.count
        for row in rows
        if row.duration_ns.value is not None and row.duration_ns.source == "timeline"
    ]
    return float(sum(values)) if len(values) == len(rows) else None


def _total(quantity: Quantity, calls: int) -> Quantity:
    if quantity.value is None or quantity.unit is None or quantity.source is None:
        return quantity
    return known(quantity.value * calls, quantity.unit, quantity.source)


def _compare(
    one: KernelRow, other: KernelRow, timed: Judged, options: Options, forbidden: Forbidden
) -> KernelChange | None:
    verdict, why = timed
    if verdict is Verdict.NO_CHANGE_SHOWN and _unchanged(one, other):
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


def _unchanged(one: KernelRow, other: KernelRow) -> bool:
    """Nothing that could make a row: asked first, because most pairs are like this."""
    return (
        one.name == other.name
        and one.count == other.count
        and one.grid == other.grid
        and one.block == other.block
        and one.dram_bytes == other.dram_bytes
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


def _one_sided(row: KernelRow, kind: str, forbidden: Forbidden) -> KernelChange:
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
