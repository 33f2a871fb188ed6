"""The gap of a step as data: floor, extra bytes, low efficiency, idle, measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rooflens.model import OperatorRow, Roof
from rooflens.reports.join.counted import class_rows
from rooflens.units import NS_PER_S


@dataclass(frozen=True)
class Waterfall:
    """Where the time between the floor and the measured step went: whole ns that add up exactly."""

    floor_ns: int
    extra_bytes_ns: int
    low_efficiency_ns: int
    """Negative where the step beats the floor: a cache helped, or the roof is too low."""
    idle_ns: int
    measured_ns: int
    moved: bool
    """Extra bytes are moved bytes (counters); else requested ones."""

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Name and length of each part; their sum is `measured_ns`."""
        return (
            ("operator floor", self.floor_ns),
            ("extra bytes", self.extra_bytes_ns),
            ("low efficiency", self.low_efficiency_ns),
            ("idle", self.idle_ns),
        )


def waterfall(
    operators: Iterable[OperatorRow],
    operator_floor_ns: float,
    roof: Roof,
    wall_ns: float,
    idle_ns: float,
) -> Waterfall:
    """Split a step: floor -> extra bytes -> low efficiency -> idle -> measured.

    Extra bytes are those beyond each operator's minimum, at the roof's bandwidth, as far as they
    reach beyond its floor. They never reach beyond the busy time (a cache may have absorbed them).
    """
    rows = class_rows(operators)
    moved = bool(rows) and all(row.moved_bytes.value is not None for row in rows)
    extra = sum(_extra_ns(row, roof, moved) for row in rows)
    measured, floor = round(wall_ns), round(operator_floor_ns)
    idle = min(round(idle_ns), measured)
    busy = measured - idle
    extra_ns = min(round(extra), max(busy - floor, 0))
    return Waterfall(floor, extra_ns, busy - floor - extra_ns, idle, measured, moved)


def _extra_ns(row: OperatorRow, roof: Roof, moved: bool) -> float:
    used = row.moved_bytes if moved else row.requested_bytes
    if used.value is None or row.floor_ns.value is None:
        return 0.0
    memory = float(used.value) / roof.bandwidth_bytes_per_s * NS_PER_S
    return max(memory - float(row.floor_ns.value), 0.0)
