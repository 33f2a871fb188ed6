"""Kineto events as the columns of a capture."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rooflens.errors import InputError
from rooflens.parsers.timeline.trace import (
    COPY,
    KERNEL,
    MEMSET,
    NONE,
    PUSH_POP,
    Activities,
    Calls,
    Columns,
    Names,
    Ranges,
    Trace,
)

DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": MEMSET}
CALLS = frozenset(
    {"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "runtime", "xpu_runtime"}
)
RANGES = {"user_annotation": "", "cpu_op": "cpu_op"}
KINETO = {*DEVICE, *CALLS, *RANGES, "python_function", "cuda_profiler_range", "trace"}
"""A file without one event of these is a Chrome trace of some other program."""
MODULE_PREFIX = "nn.Module: "
"""Of the Python functions only module calls are kept; the rest are paths of somebody's machine."""
MAX_NAME = 8192
MAX_EVENTS = 20_000_000
_LIMIT = 2**61
_US = 1000


class Collector:
    """Takes events one at a time and keeps what the columns need."""

    def __init__(self) -> None:
        self.names = Names()
        self.threads = Names()
        self.configs: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self.domains = Names()
        self.domains.add("")
        self.activities = array("q")
        self.calls = array("q")
        self.ranges = array("q")
        self.skipped = 0
        self.categories: dict[str, int] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep one event if it is of a kind that is used."""
        category = event.get("cat")
        if not isinstance(category, str) or event.get("ph") != "X":
            return
        category = category.lower()
        self.categories[category] = self.categories.get(category, 0) + 1
        name = event.get("name")
        take: Callable[[Mapping[str, Any], str, str, int, int], None] | None = None
        if category in DEVICE:
            take = self._device
        elif category in CALLS:
            take = self._call
        elif category in RANGES or (
            category == "python_function"
            and isinstance(name, str)
            and name.startswith(MODULE_PREFIX)
        ):
            take = self._range
        if take is None:
            return
        start, end = _times(event)
        if start is None or end is None:
            self.skipped += 1
            return
        take(event, category, str(name)[:MAX_NAME], start, end)

    def _device(
        self, event: Mapping[str, Any], category: str, name: str, start: int, end: int
    ) -> None:
        args = _mapping(event.get("args"))
        kind = DEVICE[category]
        config = NONE
        if kind == KERNEL:
            key = (_triple(args.get("grid")), _triple(args.get("block")))
            config = self.configs.setdefault(key, len(self.configs))
        self.activities.extend(
            (
                start,
                end,
                kind,
                _integer(args.get("device")),
                _integer(args.get("stream", event.get("tid"))),
                0,
                _integer(args.get("correlation")),
                self.names.add(name),
                config,
                _integer(args.get("bytes")),
                NONE,
            )
        )

    def _call(
        self, event: Mapping[str, Any], category: str, name: str, start: int, end: int
    ) -> None:
        args = _mapping(event.get("args"))
        self.calls.extend(
            (start, end, self._thread(event), 0, _integer(args.get("correlation")),
             self.names.add(name))
        )  # fmt: skip

    def _range(
        self, event: Mapping[str, Any], category: str, name: str, start: int, end: int
    ) -> None:
        domain = self.domains.add(RANGES.get(category, "module"))
        self.ranges.extend(
            (start, end, self._thread(event), domain, self.names.add(name), PUSH_POP, 0)
        )

    def _thread(self, event: Mapping[str, Any]) -> int:
        return self.threads.add(f"{event.get('pid')}/{event.get('tid')}")

    def check_size(self, where: str) -> None:
        """Raise InputError beyond MAX_EVENTS kept events."""
        kept = len(self.activities) // 11 + len(self.calls) // 6 + len(self.ranges) // 7
        if kept > MAX_EVENTS:
            raise InputError(
                f"{where} has more than {MAX_EVENTS} events that matter: too long a trace.",
                "Profile fewer steps (torch.profiler.schedule).",
            )

    def fill(self, trace: Trace) -> None:
        """Hand the columns over, sorted by start."""
        trace.names = self.names.texts()
        trace.configs = list(self.configs)
        trace.domains = self.domains.texts()
        trace.activities = _table(Activities, self.activities)
        trace.calls = _table(Calls, self.calls)
        trace.ranges = _table(Ranges, self.ranges)
        if self.skipped:
            trace.facts.append(f"{self.skipped} events without a usable time were left out.")


def _table(kind: type[Columns], values: array[int]) -> Any:
    if not values:
        return kind.empty()
    columns = len(kind.__dataclass_fields__)
    return kind.from_flat(np.frombuffer(values, dtype=np.int64).reshape(-1, columns))


def _times(event: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Start and end in ns; None for a time that is missing, negative or not finite."""
    start, length = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur", 0))
    if start is None or length is None or length < 0:
        return None, None
    return start, start + length


def _nanoseconds(value: object) -> int | None:
    """Microseconds (a float since Kineto writes baseTimeNanoseconds, an int before) as ns."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    made = value * _US if isinstance(value, int) else round(value * _US)
    return made if abs(made) < _LIMIT else None


def _integer(value: object) -> int:
    if isinstance(value, bool):
        return NONE
    if isinstance(value, int) and abs(value) < _LIMIT:
        return value
    if isinstance(value, float) and math.isfinite(value) and abs(value) < _LIMIT:
        return int(value)
    return NONE


def _triple(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= 3:
        return ()
    return tuple(_integer(v) for v in value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
