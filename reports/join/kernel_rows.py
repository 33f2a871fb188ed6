"""Group launches into kernel rows: equal name, grid, block, class and NVTX path.

Numbers of layers and op ids in a path are replaced by `*`, so that the same kernel of 28 layers is
one row. Quantities are means per launch: mean x count is the exact sum of what was measured. When a
launch of a group lacks a value, the mean would hide it, so the row has none and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rooflens.model import Join, KernelRow, Launch, Quantity, absent, known
from rooflens.parsers.kernels import classify_name
from rooflens.quantity import Confidence
from rooflens.reports.join.kernels import Joined

_LAYER = re.compile(r"(?<![\w])((?:layers?|h|blocks?)[. ])\d+")
_OP = re.compile(r"^op[ :]\d")
_ORDER: tuple[Confidence, ...] = ("low", "medium", "high")
MAX_JOINED_OPS = 512


def kernel_rows(launches: Sequence[Launch], joined: Sequence[Joined]) -> tuple[KernelRow, ...]:
    """Rows in the order of their first launch. `joined` has one entry per launch."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, (launch, to) in enumerate(zip(launches, joined, strict=True)):
        key = (
            launch.demangled or launch.name, launch.grid, launch.block, to.op_class,
            general_path(launch.nvtx), launch.device,
        )  # fmt: skip
        groups.setdefault(key, []).append(place)
    return tuple(
        _row([launches[place] for place in places], [joined[place] for place in places])
        for places in groups.values()
    )


def general_path(ranges: Iterable[str]) -> tuple[str, ...]:
    """An NVTX path without op ranges and with `*` for the number of a layer."""
    return tuple(_LAYER.sub(r"\1*", name) for name in ranges if not _OP.match(name))


def _row(launches: list[Launch], joined: list[Joined]) -> KernelRow:
    first = launches[0]
    name = first.demangled or first.name
    kernel = classify_name(name)
    flops, moved = mean(x.flops for x in launches), mean(x.dram_bytes for x in launches)
    return KernelRow(
        name=name,
        short_name=kernel.short_name,
        family=kernel.family,
        op_class=joined[0].op_class,
        count=len(launches),
        grid=first.grid,
        block=first.block,
        nvtx=general_path(first.nvtx),
        device=first.device,
        duration_ns=mean(x.duration_ns for x in launches),
        dram_bytes=moved,
        l2_bytes=mean(x.l2_bytes for x in launches),
        flops=flops,
        intensity=intensity(flops, moved),
        metrics=_metrics(launches),
        paths=first.paths,
        join=_join([to.join for to in joined]),
    )


def mean(quantities: Iterable[Quantity]) -> Quantity:
    """Mean over launches, or the absence of the first that has none."""
    values: list[float] = []
    everything = list(quantities)
    first = everything[0]
    lost = [q for q in everything if q.value is None]
    if lost:
        reason = lost[0].absent or ""
        some = f"{len(lost)} of {len(everything)} launches have no value: "
        return absent(reason if len(lost) == len(everything) else some + reason)
    values = [q.value for q in everything if q.value is not None]
    if len(values) == 1:
        return first
    assert first.unit is not None and first.source is not None
    total = sum(values)
    even = isinstance(total, int) and total % len(values) == 0
    return known(total // len(values) if even else total / len(values), first.unit, first.source)


def intensity(flops: Quantity, moved: Quantity) -> Quantity:
    """Executed FLOPs per byte that DRAM moved."""
    if flops.value is None:
        return flops
    if moved.value is None:
        return moved
    if not moved.value:
        return absent("DRAM moved no byte: everything stayed in the caches")
    assert flops.source is not None
    return known(flops.value / moved.value, "flop/byte", flops.source)


def _metrics(launches: list[Launch]) -> dict[str, Quantity]:
    """Means of the metrics that every launch has."""
    if len(launches) == 1:
        return launches[0].metrics
    found = {}
    for name in launches[0].metrics:
        quantities = [x.metrics[name] for x in launches if name in x.metrics]
        if len(quantities) == len(launches):
            found[name] = mean(quantities)
    return found


def _join(joins: list[Join]) -> Join:
    """One join for a row: the weakest of its launches, with all their ops."""
    weakest = min(joins, key=lambda join: _ORDER.index(join.confidence))
    ops = sorted({op for join in joins for op in join.ops})
    return Join(
        method=weakest.method, confidence=weakest.confidence, ops=tuple(ops[:MAX_JOINED_OPS])
    )
