"""Join a timeline with operators and counters: times from here, bytes and FLOPs from there.

An ncu duration is a cold, serialised replay, so a rate is always counters over live time. Launches
of two captures are matched by `reports/join/launches.py`; phases meet theory in
`reports/join/phases.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from rooflens.model import (
    Join,
    KernelRow,
    Launch,
    Op,
    OperatorRow,
    Quantity,
    Roof,
    absent,
    known,
)
from rooflens.parsers.kernels import classify_name
from rooflens.parsers.timeline.labels import class_of
from rooflens.reports.join.counted import class_rows
from rooflens.reports.join.kernels import Joined, join_launches
from rooflens.reports.join.launches import LaunchMatch
from rooflens.reports.theory.floor import bound
from rooflens.units import NS_PER_S
from rooflens.vocabulary import FUSED_CLASSES

NO_TIME = absent("no kernel of this class in the timeline")


@dataclass(frozen=True)
class Achieved:
    """What a kernel or operator achieved: counters (or minimum) over live time."""

    name: str
    launches: int
    time_ns: float
    bytes: Quantity
    flops: Quantity
    bytes_per_s: float | None
    flops_per_s: float | None
    share_of_bandwidth: float | None
    """Of the roof; above 1 the bytes came from a cache, or the roof is too low."""
    share_of_peak: float | None


def achieved_by_kernel(
    match: LaunchMatch,
    timeline: Sequence[Launch],
    counters: Sequence[Launch],
    roof: Roof | None = None,
) -> tuple[Achieved, ...]:
    """Rates of matched launches, summed by kernel name; longest time first."""
    groups: dict[str, list[tuple[Launch, Launch]]] = {}
    for a, b in match.pairs:
        groups.setdefault(timeline[a].demangled or timeline[a].name, []).append(
            (timeline[a], counters[b])
        )
    made = []
    for name, pairs in groups.items():
        times = [pair[0].duration_ns.value for pair in pairs]
        if any(time is None for time in times):
            continue
        made.append(
            _achieved(
                name,
                len(pairs),
                float(sum(time for time in times if time is not None)),
                _sum(pair[1].dram_bytes for pair in pairs),
                _sum(pair[1].flops for pair in pairs),
                roof,
            )
        )
    return tuple(sorted(made, key=lambda row: -row.time_ns))


def achieved_by_operator(
    operators: Iterable[OperatorRow], roof: Roof | None = None
) -> tuple[Achieved, ...]:
    """Rates of operator rows that have a time: moved bytes if measured, else the minimum."""
    made = []
    for row in class_rows(operators):
        if row.time_ns.value is None:
            continue
        moved = row.moved_bytes if row.moved_bytes.value is not None else row.minimum_bytes
        flops = row.executed_flops if row.executed_flops.value is not None else row.minimum_flops
        made.append(
            _achieved(row.op_class, row.count, float(row.time_ns.value), moved, flops, roof)
        )
    return tuple(sorted(made, key=lambda row: -row.time_ns))


def _achieved(
    name: str, launches: int, time_ns: float, moved: Quantity, flops: Quantity, roof: Roof | None
) -> Achieved:
    def rate(quantity: Quantity) -> float | None:
        return None if quantity.value is None or not time_ns else (
            float(quantity.value) / time_ns * NS_PER_S
        )  # fmt: skip

    bandwidth, speed = rate(moved), rate(flops)
    return Achieved(
        name=name,
        launches=launches,
        time_ns=time_ns,
        bytes=moved,
        flops=flops,
        bytes_per_s=bandwidth,
        flops_per_s=speed,
        share_of_bandwidth=bandwidth / roof.bandwidth_bytes_per_s if roof and bandwidth else None,
        share_of_peak=speed / roof.peak_flops_per_s if roof and speed else None,
    )


def _sum(quantities: Iterable[Quantity]) -> Quantity:
    """Sum of known quantities of one unit, or the first absence."""
    values = list(quantities)
    missing = next((q for q in values if q.value is None), None)
    if missing is not None or not values:
        return missing or absent("no launch")
    first = values[0]
    assert first.unit is not None and first.source is not None
    return known(sum(q.value for q in values if q.value is not None), first.unit, first.source)


def join_step(launches: Sequence[Launch], ops: Sequence[Op]) -> tuple[Joined, ...]:
    """Join the launches of one step to ops; what finds none goes by the module range around it.

    A decoder layer's own launches (the residual additions) lie in a range `layer 3`, which is the
    path of no op.
    """
    made = []
    for launch, joined in zip(launches, join_launches(launches, ops), strict=True):
        if joined.op_class != "other":
            made.append(joined)
            continue
        kernel = classify_name(launch.demangled or launch.name)
        op_class, confidence = class_of(launch.nvtx, kernel)
        by_range = op_class != kernel.op_class
        join = Join(method="nvtx path", confidence=confidence) if by_range else joined.join
        made.append(Joined(join=join, op_class=op_class, part=joined.part, layer=joined.layer))
    return tuple(made)


def kernel_time_by_class(kernels: Iterable[KernelRow]) -> dict[str, float]:
    """Kernel time by operator class (ns, per step or per capture as the rows are)."""
    return _by(kernels, "op_class")


def kernel_time_by_family(kernels: Iterable[KernelRow]) -> dict[str, float]:
    """Kernel time by kernel family (ns): what two captures are compared by."""
    return _by(kernels, "family")


def _by(kernels: Iterable[KernelRow], field: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in kernels:
        if row.duration_ns.value is not None:
            name = str(getattr(row, field))
            found[name] = found.get(name, 0.0) + float(row.duration_ns.value) * row.count
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def with_times(
    operators: Sequence[OperatorRow], times_ns: Mapping[str, float], roof: Roof | None = None
) -> tuple[OperatorRow, ...]:
    """Operator rows with their kernels' time, from `kernel_time_by_class` or a phase's classes.

    Kernels of a fused class (`qkv_proj`) time the rows that it serves only when there is no row of
    its own: the first of them gets a row of the fused class with their sums. Parts get no time.
    """
    rows = list(operators)
    left = {name: time for name, time in times_ns.items() if time > 0}
    for fused, served in FUSED_CLASSES.items():
        if fused in left and not any(r.op_class == fused and r.part is None for r in rows):
            rows = _fuse(rows, fused, served, roof)
    return tuple(
        msgspec.structs.replace(row, time_ns=known(left[row.op_class], "ns", "timeline"))
        if row.part is None and row.op_class in left
        else msgspec.structs.replace(row, time_ns=NO_TIME)
        if row.part is None and row.time_ns.value is None
        else row
        for row in rows
    )


def unplaced_ns(operators: Iterable[OperatorRow], times_ns: Mapping[str, float]) -> float:
    """Kernel time of classes that have no operator row."""
    have = {row.op_class for row in operators if row.part is None}
    return sum(time for name, time in times_ns.items() if name not in have)


def _fuse(
    rows: list[OperatorRow], fused: str, served: tuple[str, ...], roof: Roof | None
) -> list[OperatorRow]:
    """Put one row of the fused class in the place of the rows that it serves."""
    mine = [row for row in rows if row.op_class in served and row.part is None]
    if not mine:
        return rows
    summed = (
        "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
        "executed_flops", "elementwise_flops", "floor_ns",
    )  # fmt: skip
    sums = {name: _sum(getattr(row, name) for row in mine) for name in summed}
    flops, nbytes = sums["minimum_flops"].value, sums["minimum_bytes"].value
    made = msgspec.structs.replace(
        mine[0],
        op_class=fused,
        count=max(row.count for row in mine),
        time_ns=NO_TIME,
        intensity_minimum=_ratio(sums["minimum_flops"], sums["minimum_bytes"]),
        intensity_measured=_ratio(sums["executed_flops"], sums["moved_bytes"]),
        bound="none" if flops is None or nbytes is None else bound(flops, nbytes, roof),
        **sums,
    )
    first = rows.index(mine[0])
    return [
        made if i == first else row
        for i, row in enumerate(rows)
        if i == first or row.op_class not in served
    ]


def _ratio(flops: Quantity, nbytes: Quantity) -> Quantity:
    if flops.value is None or flops.source is None:
        return flops
    if not nbytes.value:
        return nbytes if nbytes.value is None else absent("no bytes")
    return known(float(flops.value) / float(nbytes.value), "flop/byte", flops.source)
