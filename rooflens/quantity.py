"""A number with its unit and source, or an absence with its reason; and the base of all records."""

from __future__ import annotations

from typing import Literal

import msgspec

Unit = Literal["byte", "flop", "ns", "flop/byte", "1"]
Source = Literal["theory", "counted", "timeline", "counters", "host"]
Outcome = Literal["found", "clear", "could_not_look"]
CheckOutcome = Literal["passed", "warning", "failed", "could_not_look"]
Confidence = Literal["high", "medium", "low"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every record: immutable, keyword only."""


class Quantity(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One number with unit and source, or `absent`: the reason why there is none."""

    value: int | float | None = None
    unit: Unit | None = None
    source: Source | None = None
    absent: str | None = None
    extrapolated_from: tuple[int, ...] = ()
    """Layers that were measured when the value is their mean times the number of layers."""

    def __post_init__(self) -> None:
        if (self.value is None) == (self.absent is None):
            raise ValueError("a quantity has either a value or a reason for its absence")
        if self.value is not None and (self.unit is None or self.source is None):
            raise ValueError("a value needs its unit and its source")
        if self.value is not None and self.value != self.value:
            raise ValueError("NaN is not a value; use absent(reason)")


def known(value: int | float, unit: Unit, source: Source) -> Quantity:
    """A number that was measured, counted or derived."""
    return Quantity(value=value, unit=unit, source=source)


def absent(reason: str) -> Quantity:
    """A number that is not there, and why."""
    return Quantity(absent=reason)
