"""A timeline capture as columns: device activities, host calls, host ranges. Times in int64 ns.

Readers fill a `Trace`; everything after that is the same for every tool. Names, grids and blocks
are kept once and referred to by index, so a million kernels need about a hundred bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rooflens.model import Check, Machine

Int = npt.NDArray[np.int64]

KERNEL, COPY, MEMSET, GRAPH = 0, 1, 2, 3
PUSH_POP, START_END = 0, 1
NONE = -1
"""Stands in an index or id column for "the capture does not say"."""


MAX_TIME_NS = 2**61
"""73 years: beyond it a time is damage, and differences would overflow."""


def in_range(times: Int) -> npt.NDArray[np.bool_]:
    """Which times can be times."""
    return (times > -MAX_TIME_NS) & (times < MAX_TIME_NS)


@dataclass(frozen=True)
class Columns:
    """Equally long int64 columns with one row per event."""

    @classmethod
    def empty(cls) -> Any:
        """No rows."""
        return cls(**{name: np.empty(0, dtype=np.int64) for name in cls.__dataclass_fields__})

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Any:
        """From rows in the order of the columns; sorted by the first column."""
        if not rows:
            return cls.empty()
        return cls.from_flat(np.array(rows, dtype=np.int64))

    @classmethod
    def from_flat(cls, table: Int) -> Any:
        """From a (rows x columns) array; sorted by the first column."""
        table = table[np.argsort(table[:, 0], kind="stable")]
        names = list(cls.__dataclass_fields__)
        return cls(**{n: np.ascontiguousarray(table[:, i]) for i, n in enumerate(names)})

    def take(self, rows: npt.NDArray[Any]) -> Any:
        """The given rows (indices or mask)."""
        return type(self)(**{n: getattr(self, n)[rows] for n in self.__dataclass_fields__})

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))


@dataclass(frozen=True)
class Activities(Columns):
    """What ran on a device, sorted by start."""

    start: Int
    end: Int
    kind: Int
    """KERNEL, COPY, MEMSET or GRAPH (a whole graph launch without its nodes)."""
    device: Int
    stream: Int
    process: Int
    correlation: Int
    """Id of the host call that launched it; NONE when unknown."""
    name: Int
    """Index into Trace.names."""
    config: Int
    """Index into Trace.configs: grid and block."""
    bytes: Int
    graph: Int
    """Graph id for GRAPH rows, graph node id for kernels replayed by a graph, else NONE."""


@dataclass(frozen=True)
class Calls(Columns):
    """CUDA (or HIP) API calls on the host, sorted by start."""

    start: Int
    end: Int
    thread: Int
    process: Int
    correlation: Int
    name: Int


@dataclass(frozen=True)
class Ranges(Columns):
    """NVTX ranges or profiler annotations on the host, sorted by start."""

    start: Int
    end: Int
    thread: Int
    domain: Int
    """Index into Trace.domains; 0 is the default domain."""
    name: Int
    style: Int
    """PUSH_POP, or START_END (which need not nest)."""
    crosses: Int
    """1 when a range ended on another thread than it began on."""


@dataclass
class Trace:
    """One capture file."""

    tool: str
    """`nsys` or `torch`: words of messages and defaults follow from it."""
    version: str = ""
    activities: Activities = field(default_factory=Activities.empty)
    calls: Calls = field(default_factory=Calls.empty)
    ranges: Ranges = field(default_factory=Ranges.empty)
    names: list[str] = field(default_factory=list)
    configs: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    domains: list[str] = field(default_factory=lambda: [""])
    machine: Machine = field(default_factory=lambda: Machine(device="imported"))
    checks: list[Check] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    regime: dict[str, str] = field(default_factory=dict)
    has_kernels: bool = True
    """False when the capture has no place for kernels at all (not traced)."""


class Names:
    """Gives each distinct text one index."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def add(self, text: str) -> int:
        """Index of a text, new or known."""
        return self.index.setdefault(text, len(self.index))

    def texts(self) -> list[str]:
        """All texts in index order."""
        return list(self.index)
