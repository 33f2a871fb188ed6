"""Steps of a capture: from our ranges, from an engine's ranges, or from the pattern of launches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rooflens.model import Confidence, StepStatistics, StepTime
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.names import (
    ROOFLENS_DOMAIN,
    STEP,
    VLLM_STEP,
    WARM_UP,
    grouping_name,
    phase_of_name,
    tokens_of_name,
)
from rooflens.parsers.timeline.pattern import Cycles, find_cycles
from rooflens.parsers.timeline.trace import NONE, Int

MAX_STEPS = 100_000
_ROBUST = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""


@dataclass(frozen=True)
class Steps:
    """Step windows of one capture, in order of time."""

    start: Int
    end: Int
    rows: tuple[Int, ...]
    """Rows of trace.activities of each step."""
    phase: tuple[str, ...]
    """What the ranges say; empty strings where they say nothing."""
    tokens: tuple[int | None, ...]
    method: str = ""
    """`ranges`, `launch pattern`, or empty when there are no steps."""
    confidence: Confidence = "high"
    reason: str = ""
    ours: bool = False
    """The steps are rooflens' own ranges."""
    on_host_clock: bool = False
    """Windows are host ranges (each step waits for the device); else spans of device work."""
    facts: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return int(self.start.size)


def find_steps(linked: Linked) -> Steps:
    """Find the steps of a capture; none is an answer too."""
    rows = _our_steps(linked)
    if rows.size:
        return _from_ranges(linked, rows, ours=True, reason="rooflens' own step ranges")
    rows = _engine_steps(linked)
    if rows.size:
        name = linked.trace.names[int(linked.trace.ranges.name[rows[0]])]
        found = _from_ranges(linked, rows, ours=False, reason=f'ranges like "{name[:60]}"')
        if len(found):
            return found
    return _from_pattern(linked)


def _our_steps(linked: Linked) -> Int:
    ranges, domains = linked.trace.ranges, linked.trace.domains
    if ROOFLENS_DOMAIN not in domains:
        return np.empty(0, dtype=np.int64)
    names = [i for i, n in enumerate(linked.trace.names) if grouping_name(n) == "step"]
    mine = ranges.domain == domains.index(ROOFLENS_DOMAIN)
    return _outermost(linked, np.flatnonzero(mine & np.isin(ranges.name, names)))


def _engine_steps(linked: Linked) -> Int:
    """Outermost ranges that are steps by name; vLLM's own ranges win over general words."""
    ranges, names = linked.trace.ranges, linked.trace.names
    for pattern in (VLLM_STEP, STEP):
        wanted = [i for i, name in enumerate(names) if pattern.match(name)]
        rows = np.flatnonzero(np.isin(ranges.name, wanted))
        if rows.size:
            return _outermost(linked, rows)
    return np.empty(0, dtype=np.int64)


def _outermost(linked: Linked, rows: Int) -> Int:
    """Drop ranges that lie inside another of the rows (same thread), and those of a warm-up."""
    ranges = linked.trace.ranges
    order = rows[np.lexsort((-ranges.end[rows], ranges.start[rows], ranges.thread[rows]))]
    keep, thread, end = [], None, 0
    for row in order:
        if ranges.thread[row] == thread and ranges.start[row] < end:
            continue
        thread, end = ranges.thread[row], int(ranges.end[row])
        keep.append(int(row))
    keep = sorted(keep, key=lambda row: int(ranges.start[row]))[:MAX_STEPS]
    warm = [i for i, name in enumerate(linked.trace.names) if WARM_UP.search(name)]
    around = np.flatnonzero(np.isin(ranges.name, warm))
    lows, highs, tids = ranges.start[around], ranges.end[around], ranges.thread[around]
    outside = [
        row
        for row in keep
        if not around.size
        or not np.any(
            (lows <= ranges.start[row]) & (highs >= ranges.end[row]) & (tids == ranges.thread[row])
        )
    ]
    return np.array(outside, dtype=np.int64)


def _from_ranges(linked: Linked, rows: Int, ours: bool, reason: str) -> Steps:
    """Windows of step ranges: host time where every step waits for its device work."""
    trace, ranges = linked.trace, linked.trace.ranges
    facts: list[str] = []
    inside = _launched_inside(linked, rows)
    rows, inside = _one_thread(linked, rows, inside, facts)
    start, end = ranges.start[rows].copy(), ranges.end[rows].copy()
    last = np.array(
        [int(trace.activities.end[some].max()) if some.size else NONE for some in inside],
        dtype=np.int64,
    )
    work = np.array([some.size > 0 for some in inside], dtype=bool)
    on_host = bool(np.all(last <= end)) or not work.any()
    if not on_host:
        keep = np.flatnonzero(work)
        if keep.size < rows.size:
            facts.append(f"{rows.size - keep.size} step ranges launched nothing; left out.")
        inside = [inside[i] for i in keep]
        rows = rows[keep]
        start = np.array([int(trace.activities.start[some].min()) for some in inside])
        end = last[keep]
        facts.append(
            "Steps do not wait for the device: a step lasts from its first device work to its last."
        )
    elif not ours and len(trace.activities) and not work.any():
        return _none()
    texts = [trace.names[int(i)] for i in ranges.name[rows]]
    around = _phase_ranges(linked)
    return Steps(
        start=start,
        end=end,
        rows=tuple(inside),
        phase=tuple(phase_of_name(t) or _phase_around(linked, around, int(r))
                    for t, r in zip(texts, rows, strict=True)),
        tokens=tuple(tokens_of_name(text) for text in texts),
        method="ranges",
        confidence="high" if ours or VLLM_STEP.match(texts[0]) else "medium",
        reason=reason,
        ours=ours,
        on_host_clock=on_host,
        facts=tuple(facts),
    )  # fmt: skip


def _one_thread(
    linked: Linked, rows: Int, inside: list[Int], facts: list[str]
) -> tuple[Int, list[Int]]:
    """Keep the steps of the thread that launched most: ranks run the same steps side by side."""
    threads = linked.trace.ranges.thread[rows]
    ids = np.unique(threads)
    if ids.size < 2:
        return rows, inside
    work = [
        (sum(int(inside[i].size) for i in np.flatnonzero(threads == t)),
         int((threads == t).sum()), -int(t))
        for t in ids
    ]  # fmt: skip
    keep = np.flatnonzero(threads == ids[work.index(max(work))])
    facts.append(f"{ids.size} threads have step ranges; the steps are those of the busiest one.")
    return rows[keep], [inside[i] for i in keep]


def _phase_ranges(linked: Linked) -> Int:
    """Rows of ranges whose name says a phase."""
    named = [i for i, name in enumerate(linked.trace.names) if phase_of_name(name)]
    return np.flatnonzero(np.isin(linked.trace.ranges.name, named))


def _phase_around(linked: Linked, candidates: Int, row: int) -> str:
    """The phase that a range around this one names, on the same thread, if it is only one."""
    ranges = linked.trace.ranges
    around = candidates[
        (ranges.thread[candidates] == ranges.thread[row])
        & (ranges.start[candidates] <= ranges.start[row])
        & (ranges.end[candidates] >= ranges.end[row])
    ]
    found = {phase_of_name(linked.trace.names[int(i)]) for i in ranges.name[around]} - {""}
    return found.pop() if len(found) == 1 else ""


def _launched_inside(linked: Linked, rows: Int) -> list[Int]:
    """Activities whose launch lies in each range: on its thread, or for serving engines, whose
    workers launch from other threads of the process, in its time."""
    trace, ranges = linked.trace, linked.trace.ranges
    tied = np.flatnonzero(linked.call != NONE)
    call = linked.call[tied]
    order = np.argsort(trace.calls.start[call], kind="stable")
    tied, call = tied[order], call[order]
    times, threads = trace.calls.start[call], trace.calls.thread[call]
    first = np.searchsorted(times, ranges.start[rows], side="left")
    last = np.searchsorted(times, ranges.end[rows], side="right")
    found = []
    for low, high, row in zip(first, last, rows, strict=True):
        same = threads[low:high] == ranges.thread[row]
        found.append(np.sort(tied[low:high][same] if same.any() else tied[low:high]))
    return found


def _from_pattern(linked: Linked) -> Steps:
    cycles = find_cycles(linked)
    if cycles is None:
        return _none()
    activities = linked.trace.activities
    rows = tuple(cycles.rows)
    return Steps(
        start=np.array([int(activities.start[r].min()) for r in rows], dtype=np.int64),
        end=np.array([int(activities.end[r].max()) for r in rows], dtype=np.int64),
        rows=rows,
        phase=("",) * len(rows),
        tokens=(None,) * len(rows),
        method="launch pattern",
        confidence=cycles.confidence,
        reason=cycles.reason,
        facts=_pattern_facts(cycles),
    )


def _pattern_facts(cycles: Cycles) -> tuple[str, ...]:
    if not cycles.outside:
        return ()
    return (f"{cycles.outside} device activities lie outside the steps that were found.",)


def _none() -> Steps:
    nothing = np.empty(0, dtype=np.int64)
    return Steps(nothing, nothing, (), (), ())


def statistics(steps: tuple[StepTime, ...]) -> tuple[StepStatistics, ...]:
    """Median, interval, variation and outliers of the wall times of each phase."""
    made = []
    for phase in dict.fromkeys(step.phase for step in steps):
        mine = [step for step in steps if step.phase == phase]
        walls = np.array([step.wall_ns for step in mine], dtype=np.float64)
        low, high = median_interval(walls)
        outside = [mine[i].index for i in np.flatnonzero(outliers(walls))]
        mean = float(walls.mean())
        made.append(
            StepStatistics(
                phase=phase,
                count=len(mine),
                median_ns=float(np.median(walls)),
                low_ns=low,
                high_ns=high,
                variation=float(walls.std(ddof=1) / mean) if len(mine) > 1 and mean else 0.0,
                outliers=tuple(outside),
                first_is_outlier=bool(outside) and outside[0] == mine[0].index,
            )
        )
    return tuple(made)


def median_interval(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Order statistics that hold the median with at least 95 % (the range below 6 values)."""
    ordered = np.sort(values)
    n = ordered.size
    below, term = 0.0, 0.5**n if n < 1000 else 0.0
    if n >= 1000:  # the normal approximation of the sign test
        cut = max(int(np.floor(n / 2 - 1.96 * np.sqrt(n) / 2)), 0)
        return float(ordered[cut]), float(ordered[n - 1 - cut])
    cut = 0
    for k in range(n // 2):
        below += term
        if 2 * below > 0.05:
            break
        cut = k
        term *= (n - k) / (k + 1)
    return float(ordered[cut]), float(ordered[n - 1 - cut])


def outliers(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Values beyond 3.5 robust standard deviations; fewer than 4 values have no outliers."""
    if values.size < 4:
        return np.zeros(values.size, dtype=bool)
    middle = float(np.median(values))
    spread = _ROBUST * float(np.median(np.abs(values - middle)))
    # A spread below a thousandth is the clock's grain, not the step's.
    return np.asarray(np.abs(values - middle) > 3.5 * max(spread, 1e-3 * middle))
