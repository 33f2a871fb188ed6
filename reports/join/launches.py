"""Match the launches of a timeline with those of a counter capture of the same step, in order.

Kernels must agree in name, grid and block. What does not match is counted and named, never forced.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.model import Launch
from rooflens.parsers.kernels import short_name

MAX_DIFFERENCES = 20
MAX_EXACT_PAIRS = 4_000_000
"""Beyond this many pairs the sequences are compared from both ends only."""


@dataclass(frozen=True)
class LaunchMatch:
    """Launches of a timeline and of a counter capture of the same step."""

    pairs: tuple[tuple[int, int], ...]
    """Places in the timeline and in the counters."""
    only_timeline: tuple[int, ...]
    only_counters: tuple[int, ...]
    differences: tuple[str, ...]
    """The first mismatches, as sentences."""

    @property
    def share(self) -> float:
        """Matched launches over all launches of the longer sequence."""
        longer = len(self.pairs) + max(len(self.only_timeline), len(self.only_counters))
        return len(self.pairs) / longer if longer else 0.0


def match_launches(timeline: Sequence[Launch], counters: Sequence[Launch]) -> LaunchMatch:
    """Match two sequences of launches in order. Kernels must agree in name, grid and block."""
    ours, theirs = [_key(launch) for launch in timeline], [_key(launch) for launch in counters]
    pairs: list[tuple[int, int]] = []
    head = _common(ours, theirs)
    tail = _common(ours[head:][::-1], theirs[head:][::-1])
    pairs += [(i, i) for i in range(head)]
    inner, outer = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    if inner and outer and len(inner) * len(outer) <= MAX_EXACT_PAIRS:
        matcher = difflib.SequenceMatcher(None, inner, outer, autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            pairs += [(head + a + i, head + b + i) for i in range(size)]
    pairs += [(len(ours) - tail + i, len(theirs) - tail + i) for i in range(tail)]
    mine, other = {a for a, _ in pairs}, {b for _, b in pairs}
    left = tuple(i for i in range(len(ours)) if i not in mine)
    right = tuple(i for i in range(len(theirs)) if i not in other)
    return LaunchMatch(tuple(pairs), left, right, _differences(timeline, counters, left, right))


def _key(launch: Launch) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Tools print one kernel's name at different lengths; the function's own name is common."""
    return short_name(launch.demangled or launch.name), launch.grid, launch.block


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _differences(
    timeline: Sequence[Launch], counters: Sequence[Launch], left: Sequence[int],
    right: Sequence[int],
) -> tuple[str, ...]:  # fmt: skip
    said = [
        f"launch {i} of the {where} has no partner: {_key(launches[i])[0]}, grid {launches[i].grid}"
        for where, launches, places in (
            ("timeline", timeline, left),
            ("counters", counters, right),
        )
        for i in places[:MAX_DIFFERENCES]
    ]
    if len(left) + len(right) > len(said):
        said.append(f"and {len(left) + len(right) - len(said)} more without a partner")
    return tuple(said)
