"""Differences of single quantities: exact where the evidence is exact, with a tolerance elsewhere.

Counted and theoretical numbers are exact: any difference is a change. Moved bytes and executed
FLOPs come from hardware counters and vary a little from run to run (by what the cache held,
by how often a lock was tried), so a difference up to a tolerance (1 %) is WITHIN_NOISE. A quantity
that one side lacks, or that rests on different evidence, gets no verdict, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from rooflens.model import Quantity, Unit, absent, known
from rooflens.reports.compare.records import Delta, Verdict
from rooflens.reports.format import NONE, count_text, delta_text, quantity_text

Measure = Callable[[float], bool]

MIRROR = {
    Verdict.IMPROVED: Verdict.REGRESSED,
    Verdict.REGRESSED: Verdict.IMPROVED,
    Verdict.NEW: Verdict.GONE,
    Verdict.GONE: Verdict.NEW,
}

METRIC_NAMES = {
    "minimum_bytes": "minimum bytes",
    "compulsory_bytes": "compulsory bytes",
    "requested_bytes": "requested bytes",
    "moved_bytes": "moved bytes",
    "minimum_flops": "minimum FLOPs",
    "requested_flops": "requested FLOPs",
    "executed_flops": "executed FLOPs",
    "elementwise_flops": "elementwise FLOPs",
    "intensity": "intensity",
    "intensity_measured": "measured intensity",
    "intensity_minimum": "minimum intensity",
    "step_time_ns": "step time",
    "time_ns": "time",
    "floor_ns": "floor",
    "operator_floor_ns": "operator floor",
    "gap_ns": "gap",
    "calls": "op calls",
    "launches": "kernel launches",
}
"""What a metric is called for people."""

JUDGED = (
    "requested_bytes",
    "moved_bytes",
    "requested_flops",
    "executed_flops",
    "calls",
    "launches",
)
"""Metrics where more is worse. The others are shown and never judged."""

MEASURED = ("moved_bytes", "executed_flops")
"""Metrics of hardware counters, which differ a little from run to run."""

NOT_JUDGED = "told, not judged"
"""Why a difference has no verdict: neither more nor less of it is better by itself."""


def count(value: float, source: str = "counted") -> Quantity:
    """A number of calls or launches."""
    return known(value, "1", "timeline" if source == "timeline" else "counted")


def pool(quantities: Sequence[Quantity]) -> Quantity:
    """One quantity for several runs of a side: the common value, or the median of measured ones.

    Counted and theoretical numbers of one side must agree; where they do not, the side has no
    number.
    """
    first = quantities[0]
    if len(quantities) == 1:
        return first
    for quantity in quantities:
        if quantity.value is None:
            return quantity
    values = [quantity.value for quantity in quantities if quantity.value is not None]
    evidence = {(item.unit, item.source, item.extrapolated_from) for item in quantities}
    if len(evidence) > 1:
        return absent("the runs of this side rest on different evidence")
    if all(value == values[0] for value in values):
        return first
    if first.source in ("counted", "theory"):
        return absent(
            f"the runs of this side disagree: {count_text(values[0])} and "
            f"{count_text(next(value for value in values if value != values[0]))}"
        )
    return msgspec.structs.replace(first, value=median(values))


def delta(
    metric: str, base: Quantity, head: Quantity, tolerance: float = 0.0, forbidden: str = ""
) -> Delta:
    """Compare one quantity. `forbidden` is why it must not be compared, if it must not."""
    if forbidden and not (base.value is None and head.value is None):
        return Delta(
            metric=metric, base=base, head=head, verdict=Verdict.NOT_COMPARABLE, reason=forbidden
        )
    if base.value is None or head.value is None:
        return Delta(
            metric=metric,
            base=base,
            head=head,
            verdict=Verdict.CANNOT_JUDGE,
            reason=_missing(base, head),
        )
    if base.source != head.source and metric not in ("intensity", "calls"):
        return Delta(
            metric=metric,
            base=base,
            head=head,
            verdict=Verdict.NOT_COMPARABLE,
            reason=f"{base.source} on one side, {head.source} on the other",
        )
    if base.extrapolated_from != head.extrapolated_from:
        return Delta(
            metric=metric,
            base=base,
            head=head,
            verdict=Verdict.NOT_COMPARABLE,
            reason=f"measured on {_layers(base)} on one side, on {_layers(head)} on the other",
        )
    change = head.value - base.value
    relative = change / base.value if base.value else None
    told = change != 0 and metric not in JUDGED
    return Delta(
        metric=metric,
        base=base,
        head=head,
        change=change,
        relative=relative,
        verdict=_verdict(metric, change, relative, tolerance),
        reason=NOT_JUDGED if told else "",
    )


def _layers(quantity: Quantity) -> str:
    layers = quantity.extrapolated_from
    return f"layers {', '.join(map(str, layers))}" if layers else "all layers"


def _missing(base: Quantity, head: Quantity) -> str:
    if base.value is None and head.value is None:
        return base.absent or head.absent or "not measured"
    side, reason = ("base", base.absent) if base.value is None else ("head", head.absent)
    return f"{side}: {reason or 'not measured'}"


def _verdict(metric: str, change: float, relative: float | None, tolerance: float) -> Verdict:
    if change == 0:
        return Verdict.NO_CHANGE_SHOWN
    if metric not in JUDGED:
        return Verdict.CANNOT_JUDGE
    if relative is not None and abs(relative) <= tolerance:
        return Verdict.WITHIN_NOISE
    return Verdict.REGRESSED if change > 0 else Verdict.IMPROVED


def changed(item: Delta) -> bool:
    """The two sides differ, or one of them lacks the number."""
    if item.base.value is None and item.head.value is None:
        return False
    return item.change != 0


def gap(time: Quantity, floor: Quantity) -> Quantity:
    """Time above the floor."""
    if time.value is None:
        return time
    if floor.value is None:
        return floor
    return Quantity(value=time.value - floor.value, unit="ns", source=time.source)


def per(total: Quantity, divisor: float, unit: Unit | None = None) -> Quantity:
    """A quantity divided, e.g. per token."""
    if total.value is None or total.unit is None or total.source is None:
        return total
    return known(total.value / divisor, unit or total.unit, total.source)


def change_text(item: Delta) -> str:
    """`+939.5 MB (+6.6 %)`, an exact count, or a dash."""
    if item.change is None:
        return NONE
    if item.change == 0:
        return "same"
    size = Quantity(value=abs(item.change), unit=item.head.unit, source=item.head.source)
    sign = "+" if item.change > 0 else "−"
    share = f" ({delta_text(item.relative)})" if item.relative is not None else ""
    return f"{sign}{quantity_text(size)}{share}"
