"""What a source of counters must offer: the metrics of one launch, by name."""

from __future__ import annotations

from typing import Protocol


class Counters(Protocol):
    """The metrics of one launch, by name."""

    def number(self, name: str, unit: str = "") -> float | None:
        """Value in base units, or None. With `unit` the printed unit must have that base."""

    def reason(self, name: str) -> str:
        """Why a metric that is in the capture has no value; empty when it is not in it."""


def first(counters: Counters, *names: str, unit: str = "") -> tuple[float, str] | None:
    """The first of several metrics that has a value, with its name."""
    for name in names:
        value = counters.number(name, unit)
        if value is not None:
            return value, name
    return None


def sm_clock_hz(counters: Counters) -> float | None:
    """The SM clock that was held during the capture."""
    found = first(
        counters,
        "sm__cycles_elapsed.avg.per_second",
        "smsp__cycles_elapsed.avg.per_second",
        "gpc__cycles_elapsed.avg.per_second",
    )
    return found[0] if found else None
