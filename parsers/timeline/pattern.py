"""Steps without ranges: kernels that come once per step mark them.

A serving engine launches some kernels exactly once per step (embedding, last norm, sampling). Names
with equal counts that take turns (every one of them once, then every one again) are such marks.
Layers repeat in the same way, so one of the marks must be a kernel that only a whole step has (the
embedding, or the choice of the next token); without it nothing is called a step.

The cut between two steps is the longest idle stretch between the last mark of one and the first
mark of the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rooflens.model import Confidence
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.names import ONCE_PER_STEP
from rooflens.parsers.timeline.trace import Int

MIN_STEPS = 2
MAX_STEPS = 100_000
MIN_MARKS = 3
"""Fewer names that take turns could be chance."""
MAX_ROUNDS = 64
"""Rounds of leaving out names until the rest takes turns; then there is no pattern."""
MIN_SHARE = 0.5
"""Share of the kernels' time that must lie inside the steps that were found."""
ROTATION = 3.0
"""A stretch inside the cycle must be this many times longer than the cut to replace it."""


@dataclass(frozen=True)
class Cycles:
    """Activities of each repetition, and how far to trust that they are steps."""

    rows: list[Int]
    confidence: Confidence
    reason: str
    outside: int


def find_cycles(linked: Linked) -> Cycles | None:
    """Find repetitions on the device that has most kernels; None where nothing repeats."""
    activities = linked.trace.activities
    kernels = linked.kernels
    if kernels.size < MIN_STEPS * MIN_MARKS:
        return None
    devices, counts = np.unique(activities.device[kernels], return_counts=True)
    device = devices[np.argmax(counts)]
    kernels = kernels[activities.device[kernels] == device]
    once = [i for i, name in enumerate(linked.trace.names) if ONCE_PER_STEP.search(name)]
    marks = _marks(activities.name[kernels], activities.start[kernels], np.array(once))
    if marks is None:
        return None
    times, names = marks
    everything = np.flatnonzero(activities.device == device)
    cuts = _cuts(activities.start[everything], activities.end[everything], times)
    rows = [everything[low:high] for low, high in pairwise(cuts)]
    rows = _without_partial_ends(rows, activities.name, names)
    inside = int(sum(r.size for r in rows))
    spent = activities.end - activities.start
    share = sum(float(spent[r].sum()) for r in rows) / max(float(spent[everything].sum()), 1.0)
    if len(rows) < MIN_STEPS or share < MIN_SHARE:
        return None
    alike = _alike(rows, activities.name)
    confidence: Confidence = "medium" if names.size >= 5 and alike >= 0.5 else "low"
    reason = (
        f"{names.size} kernels come exactly once in each of {len(rows)} repetitions; "
        f"{alike:.0%} of the repetitions launch the same kernels"
    )
    return Cycles(rows, confidence, reason, int(everything.size) - inside)


def _marks(names: Int, starts: Int, once: Int) -> tuple[Int, Int] | None:
    """Start times (marks x repetitions), and the names, of kernels that take turns.

    One of the names must be in `once`.
    """
    order = np.lexsort((starts, names))
    ids, first, counts = np.unique(names[order], return_index=True, return_counts=True)
    sorted_starts = starts[order]
    best: tuple[Int, Int] | None = None
    for count in np.unique(counts):
        if not MIN_STEPS <= count <= MAX_STEPS:
            continue
        pick = np.flatnonzero(counts == count)
        if pick.size < MIN_MARKS:
            continue
        times = np.stack([sorted_starts[first[i] : first[i] + count] for i in pick])
        times, pick = _taking_turns(times, pick)
        enough = pick.size >= MIN_MARKS and np.isin(ids[pick], once).any()
        if enough and (best is None or pick.size > best[1].size):
            best = times, ids[pick]
    return best


def _taking_turns(times: Int, pick: Int) -> tuple[Int, Int]:
    """Drop names until every remaining one comes once before any comes again."""
    order = np.argsort(times[:, 0], kind="stable")
    times, pick = times[order], pick[order]
    for _ in range(MAX_ROUNDS):
        if pick.size < MIN_MARKS:
            break
        latest, earliest = times.max(axis=0)[:-1], times.min(axis=0)[1:]
        broken = latest >= earliest
        if not broken.any():
            return times, pick
        # The names that are most often out of turn against the median position go.
        middle = np.median(times, axis=0)
        wrong = (times[:, :-1] >= middle[1:]).sum(axis=1) + (times[:, 1:] <= middle[:-1]).sum(
            axis=1
        )
        keep = wrong * 2 < wrong.max() if wrong.any() else np.arange(pick.size) < pick.size - 1
        times, pick = times[keep], pick[keep]
    return times[:0], pick[:0]


def _cuts(starts: Int, ends: Int, marks: Int) -> list[int]:
    """Positions in the activities at which a new repetition begins (and the end)."""
    order = np.argsort(np.median(marks - marks.min(axis=0), axis=1), kind="stable")
    marks = marks[order]
    reached = np.maximum.accumulate(ends)
    idle = np.zeros(starts.size, dtype=np.int64)
    idle[1:] = np.maximum(starts[1:] - reached[:-1], 0)
    between = [  # cut candidates after mark k: before the next mark of the cycle
        _longest_idle(idle, starts, marks[k], marks[k + 1]) for k in range(marks.shape[0] - 1)
    ]
    wrap = _longest_idle(idle, starts, marks[-1][:-1], marks[0][1:])
    typical = [float(np.median(idle[c])) for c in between]
    best = int(np.argmax(typical)) if typical else 0
    if typical and typical[best] > ROTATION * max(float(np.median(idle[wrap])), 1.0):
        inner = between[best]  # the capture began in the middle of a step
        return [0, *(int(c) for c in inner), int(starts.size)]
    return [0, *(int(c) for c in wrap), int(starts.size)]


def _longest_idle(idle: Int, starts: Int, after: Int, before: Int) -> Int:
    """For each pair of times the activity after the longest idle stretch between them."""
    low = np.searchsorted(starts, after, side="right")
    high = np.searchsorted(starts, before, side="right")
    return np.array(
        [int(a + np.argmax(idle[a:b])) if b > a else int(a)
         for a, b in zip(low, high, strict=True)],
        dtype=np.int64,
    )  # fmt: skip


def _without_partial_ends(rows: list[Int], names: Int, marks: Int) -> list[Int]:
    """Drop repetitions that lack a mark, and a first or last one that is only part of a step."""
    whole = [r for r in rows if np.isin(marks, names[r]).all()]
    if len(whole) < 3:
        return whole
    sets = [_launches(r, names) for r in whole]
    typical, _ = Counter(sets).most_common(1)[0]
    first = 1 if _is_part(sets[0], typical) else 0
    last = 1 if _is_part(sets[-1], typical) else 0
    return whole[first : len(whole) - last]


def _launches(rows: Int, names: Int) -> tuple[tuple[int, int], ...]:
    """Names of a repetition and how often each is launched."""
    ids, counts = np.unique(names[rows], return_counts=True)
    return tuple((int(i), int(c)) for i, c in zip(ids, counts, strict=True))


def _is_part(one: tuple[tuple[int, int], ...], whole: tuple[tuple[int, int], ...]) -> bool:
    """Fewer launches than `whole`, and none that it does not have."""
    have = dict(whole)
    return one != whole and all(count <= have.get(name, 0) for name, count in one)


def _alike(rows: list[Int], names: Int) -> float:
    """Share of the repetitions whose launches (names and how often) are the most frequent set."""
    sets: dict[tuple[tuple[int, int], ...], int] = {}
    for r in rows:
        key = _launches(r, names)
        sets[key] = sets.get(key, 0) + 1
    return max(sets.values()) / len(rows)
