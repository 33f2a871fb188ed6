"""Prefill, decode, verify: which phase each step is, by its range or by what it launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rooflens.model import Confidence, PhaseTime, StepTime
from rooflens.parsers.steps import Steps
from rooflens.parsers.timeline.labels import Labels
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.names import GRAPH_LAUNCH, KV_WRITE, SPLIT_KV
from rooflens.parsers.timeline.trace import KERNEL, NONE, Int

STEP = "step"
"""Phase of a step when nothing says which it is."""
SIMILAR = 0.9
"""Steps belong together when this share of their launches (by name) is the same."""
PREFILL_FACTOR = 1.5
"""A group is prefill by time alone when its kernels take this many times longer."""


def name_phases(linked: Linked, steps: Steps) -> tuple[Steps, Confidence, str]:
    """Give every step a phase. Returns the steps, the confidence, and why."""
    tokens = tuple(
        known if known is not None else written_tokens(linked, rows)
        for known, rows in zip(steps.tokens, steps.rows, strict=True)
    )
    if len(steps) and all(steps.phase):
        return _with(steps, steps.phase, tokens), steps.confidence, steps.reason
    if not any(rows.size for rows in steps.rows):
        named = tuple(p or STEP for p in steps.phase)
        return _with(steps, named, tokens), steps.confidence, steps.reason
    names, confidence, reason = _by_pattern(linked, steps, tokens)
    if steps.confidence == "low" or (steps.method == "launch pattern" and confidence == "high"):
        confidence = steps.confidence
    merged = tuple(said or guess for said, guess in zip(steps.phase, names, strict=True))
    return _with(steps, merged, tokens), confidence, f"{steps.reason}; {reason}"


def _with(steps: Steps, phase: tuple[str, ...], tokens: tuple[int | None, ...]) -> Steps:
    return Steps(**{**vars(steps), "phase": phase, "tokens": tokens})


def written_tokens(linked: Linked, rows: Int) -> int | None:
    """New tokens of a step, from the grid of vLLM's KV write (one block per token)."""
    trace = linked.trace
    wanted = [i for i, name in enumerate(trace.names) if KV_WRITE.search(name)]
    if not wanted:
        return None
    mine = rows[np.isin(trace.activities.name[rows], wanted)]
    grids = {trace.configs[c][0] for c in trace.activities.config[mine].tolist() if c != NONE}
    sizes = {grid[0] for grid in grids if grid}
    return sizes.pop() if len(sizes) == 1 else None


def _by_pattern(
    linked: Linked, steps: Steps, tokens: Sequence[int | None]
) -> tuple[tuple[str, ...], Confidence, str]:
    """Group steps by what they launch, then tell the groups apart."""
    group = _groups(linked, steps)
    count = int(group.max()) + 1
    split = [
        any(SPLIT_KV.search(n) for n in _names_of(linked, steps, group, g)) for g in range(count)
    ]
    if count == 1:
        if split[0]:
            reason = "all steps launch the same kernels, split-KV attention among them"
            return ("decode",) * len(steps), "low", reason
        return (STEP,) * len(steps), "low", "all steps launch the same kernels"
    typical = [_kernel_time(linked, steps, group, g) for g in range(count)]
    sizes = np.bincount(group, minlength=count)
    decode = int(np.lexsort((np.array(typical), -sizes))[0])
    names = [_phase_of_group(g, decode, typical, split) for g in range(count)]
    reasons = _reasons(group, decode, tokens, split, _replayed(linked, steps, group, count))
    if not reasons:
        return (STEP,) * len(steps), "low", "steps differ, but nothing says which is prefill"
    if "prefill" in names:
        ratio = max(typical[g] for g in range(count) if names[g] == "prefill") / typical[decode]
        reasons.append(f"prefill kernels take {ratio:.1f} times as long")
    confidence: Confidence = "high" if len(reasons) >= 3 else "medium"
    return tuple(names[int(g)] for g in group), confidence, "; ".join(reasons)


def _phase_of_group(
    number: int, decode: int, typical: Sequence[float], split: Sequence[bool]
) -> str:
    if number == decode:
        return "decode"
    if typical[number] >= PREFILL_FACTOR * typical[decode] and not split[number]:
        return "prefill"
    return "decode" if split[number] or not split[decode] else "mixed"


def _reasons(
    group: Int, decode: int, tokens: Sequence[int | None], split: Sequence[bool],
    replayed: Sequence[bool],
) -> list[str]:  # fmt: skip
    """What tells decode from prefill besides time. Empty: nothing does."""
    reasons = []
    many = [t for t, g in zip(tokens, group, strict=True) if t is not None and g != decode]
    few = [t for t, g in zip(tokens, group, strict=True) if t is not None and g == decode]
    if many and few and min(many) > max(few):
        reasons.append(f"the KV write has {max(few)} against {min(many)} blocks")
    if split[decode] and not all(split):
        reasons.append("only decode splits the keys and combines")
    if replayed[decode] and not all(replayed):
        reasons.append("only decode is replayed from CUDA graphs")
    return reasons


def _replayed(linked: Linked, steps: Steps, group: Int, count: int) -> list[bool]:
    """Whether the first step of each group was launched by graph launches, at least in part."""
    trace = linked.trace
    graphs = [i for i, name in enumerate(trace.names) if GRAPH_LAUNCH.search(name)]
    found = []
    for g in range(count):
        rows = steps.rows[int(np.flatnonzero(group == g)[0])]
        call = linked.call[rows]
        found.append(bool(np.isin(trace.calls.name[call[call != NONE]], graphs).any()))
    return found


def _groups(linked: Linked, steps: Steps) -> Int:
    """Number of the group of each step; a group's first step is its measure."""
    activities = linked.trace.activities
    heads: list[dict[int, int]] = []
    group = np.zeros(len(steps), dtype=np.int64)
    known: dict[frozenset[tuple[int, int]], int] = {}
    for i, rows in enumerate(steps.rows):
        ids, counts = np.unique(activities.name[rows], return_counts=True)
        launches = {int(n): int(c) for n, c in zip(ids, counts, strict=True)}
        key = frozenset(launches.items())
        if key not in known:
            near = [g for g, head in enumerate(heads) if similarity(launches, head) >= SIMILAR]
            if near:
                known[key] = near[0]
            elif len(heads) < 100:
                known[key] = len(heads)
                heads.append(launches)
            else:
                known[key] = 0
        group[i] = known[key]
    return group


def similarity(one: Mapping[int, int], other: Mapping[int, int]) -> float:
    """Launches in common over launches in either (multisets of names)."""
    both = sum(min(count, other.get(name, 0)) for name, count in one.items())
    either = sum(one.values()) + sum(other.values()) - both
    return both / either if either else 1.0


def _names_of(linked: Linked, steps: Steps, group: Int, number: int) -> list[str]:
    first = steps.rows[int(np.flatnonzero(group == number)[0])]
    trace = linked.trace
    return [trace.names[int(i)] for i in np.unique(trace.activities.name[first])]


def _kernel_time(linked: Linked, steps: Steps, group: Int, number: int) -> float:
    activities = linked.trace.activities
    lengths = activities.end - activities.start
    sums = [float(lengths[steps.rows[int(i)]].sum()) for i in np.flatnonzero(group == number)]
    return float(np.median(sums))


def phase_times(
    linked: Linked,
    steps: Steps,
    times: Sequence[StepTime],
    classes: Labels,
    families: Labels,
    confidence: Confidence,
    reason: str,
) -> tuple[PhaseTime, ...]:
    """Sum up each phase; nothing without device work. The labels are those of every activity."""
    activities = linked.trace.activities
    spent = (activities.end - activities.start).astype(np.float64)
    made: list[PhaseTime] = []
    if not any(rows.size for rows in steps.rows):
        return ()
    for phase in dict.fromkeys(steps.phase):
        mine = [i for i, name in enumerate(steps.phase) if name == phase]
        rows = np.concatenate([steps.rows[i] for i in mine])
        kernels = rows[activities.kind[rows] == KERNEL]
        tokens = {steps.tokens[i] for i in mine}
        per_class = _per_step(classes.sums(kernels, spent), len(mine))
        made.append(
            PhaseTime(
                name=phase,
                steps=tuple(times[i].index for i in mine),
                method=steps.method,
                confidence=confidence,
                reason=reason,
                tokens=tokens.pop() if len(tokens) == 1 else None,
                kernels=kernels.size / len(mine),
                graph_launches=_graph_launches(linked, rows) / len(mine),
                wall_ns=float(np.median([times[i].wall_ns for i in mine])),
                busy_ns=float(np.median([times[i].busy_ns for i in mine])),
                kernel_ns=float(spent[kernels].sum()) / len(mine),
                communication_ns=per_class.get("communication", 0.0),
                classes=per_class,
                families=_per_step(families.sums(kernels, spent), len(mine)),
            )
        )
    return tuple(made)


def _graph_launches(linked: Linked, rows: Int) -> int:
    """Graph launch calls among the calls that launched these activities."""
    trace = linked.trace
    graphs = [i for i, name in enumerate(trace.names) if GRAPH_LAUNCH.search(name)]
    launching = np.unique(linked.call[rows][linked.call[rows] != NONE])
    return int(np.isin(trace.calls.name[launching], graphs).sum())


def _per_step(sums: Mapping[str, float], steps: int) -> dict[str, float]:
    means = [(name, value / steps) for name, value in sums.items() if value > 0]
    return dict(sorted(means, key=lambda pair: -pair[1]))
