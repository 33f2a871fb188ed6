"""One number over many runs: how it went, where it changed, and which operator did it.

Runs are ordered by the time they were made and split into series: one for each workload, model,
shape, dtype and device, because nothing else may be compared. Exact numbers change where they
differ. Times change where a rank test over the whole segment says so (binary segmentation; the
smallest p of all splits, corrected for the number of splits).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from rooflens.errors import UsageError, did_you_mean
from rooflens.model import Quantity, Run, absent
from rooflens.reports.budgets import actual, run_facts
from rooflens.reports.compare import compare
from rooflens.reports.compare.deltas import delta
from rooflens.reports.compare.records import Delta, Verdict
from rooflens.reports.compare.renderers.text import MARKS
from rooflens.reports.compare.times import TimeRules
from rooflens.reports.stats import midranks, rank_sum_p
from rooflens.reports.view.basis import basis
from rooflens.vocabulary import FUSED_CLASSES, OPERATOR_CLASSES

METRICS = (
    "requested_bytes", "moved_bytes", "requested_flops", "executed_flops", "ops", "launches",
    "step_time_ns", "floor_ns", "compulsory_bytes", "minimum_bytes",
)  # fmt: skip
OPERATOR_METRICS = (
    "requested_bytes", "moved_bytes", "requested_flops", "executed_flops", "time_ns", "ops",
)  # fmt: skip
MIN_SIDE = 4
"""Runs on each side of a change of times."""
MOVED_TOLERANCE = 0.01


@dataclass(frozen=True)
class Entry:
    """One run with the name of its directory."""

    name: str
    run: Run


@dataclass(frozen=True)
class Point:
    """One number of one run."""

    name: str
    label: str
    created_at: str
    value: Quantity


@dataclass(frozen=True)
class Change:
    """Where a series changed: `index` is the first point after it."""

    index: int
    delta: Delta
    operators: tuple[str, ...]
    """Operator classes that changed there, with their differences."""
    p: float | None = None


@dataclass(frozen=True)
class Series:
    """All runs of one comparable kind, in order."""

    key: str
    metric: str
    operator: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]


def history(
    entries: Sequence[Entry], metric: str, operator: str = "", label: str = "commit",
    rules: TimeRules | None = None,
) -> tuple[Series, ...]:  # fmt: skip
    """Follow one metric (of the step, or of one operator class) over many runs.

    Raises UsageError for an unknown metric or class.
    """
    known = OPERATOR_METRICS if operator else METRICS
    if metric not in known:
        raise UsageError(f'--metric: unknown metric "{metric}".', did_you_mean(metric, known))
    classes = (*OPERATOR_CLASSES, *FUSED_CLASSES)
    if operator and operator not in classes:
        raise UsageError(f'--operator: no class "{operator}".', did_you_mean(operator, classes))
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.run.created_at, entry.name)):
        groups[series_key(entry.run)].append(entry)
    return tuple(
        _series(key, members, metric, operator, label, rules or TimeRules())
        for key, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def series_key(run: Run) -> str:
    """What runs of one series share, in words. The attention implementation is free to change."""
    facts = run_facts(run)
    parts = [str(facts["model"]), str(facts["workload"])]
    parts += [
        f"{key.replace('_', ' ')} {facts[key]}"
        for key in (
            "batch",
            "context",
            "prompt",
            "query_tokens",
            "dtype",
            "logits",
            "device",
            "gpu",
        )
        if facts[key] is not None
    ]
    return ", ".join(parts)


def _series(
    key: str, entries: list[Entry], metric: str, operator: str, label: str, rules: TimeRules
) -> Series:
    points = tuple(
        Point(
            name=entry.name,
            label=entry.run.labels.get(label, "")[:40],
            created_at=entry.run.created_at,
            value=_value(entry.run, metric, operator),
        )
        for entry in entries
    )
    if metric in ("step_time_ns", "time_ns"):
        changes = _time_changes(points, entries, metric, rules)
    else:
        changes = _exact_changes(points, entries, metric)
    return Series(key, metric, operator, points, tuple(changes))


def _value(run: Run, metric: str, operator: str) -> Quantity:
    if operator:
        row = next((row for row in basis(run).classes if row.op_class == operator), None)
        if row is None:
            return absent(f"the run has no operator class {operator}")
        if metric == "ops":
            return Quantity(value=row.count, unit="1", source="counted")
        value: Quantity = getattr(row, metric)
        return value
    if metric in ("ops", "launches"):
        return actual(run, metric)
    total: Quantity = getattr(run.totals, metric)
    return total


def _exact_changes(points: Sequence[Point], entries: Sequence[Entry], metric: str) -> list[Change]:
    changes = []
    tolerance = MOVED_TOLERANCE if metric == "moved_bytes" else 0.0
    last: int | None = None
    for index, point in enumerate(points):
        if point.value.value is None:
            continue
        if last is not None:
            made = delta(_delta_metric(metric), points[last].value, point.value, tolerance)
            if made.change and made.verdict is not Verdict.WITHIN_NOISE:
                changes.append(
                    Change(index, made, _operators(entries[last].run, entries[index].run, metric))
                )
        last = index
    return changes


def _delta_metric(metric: str) -> str:
    return "calls" if metric == "ops" else metric


def _operators(before: Run, after: Run, metric: str) -> tuple[str, ...]:
    """The operator classes that changed between two runs, largest difference first.

    A metric of one operator class names what runs there now instead.
    """
    comparison = compare([before], [after])
    wanted = _delta_metric(metric)
    if wanted in ("launches", "step_time_ns", "time_ns", "floor_ns"):
        wanted = "requested_bytes"
    named = [
        (abs(item.change or 0), f"{change.op_class} {MARKS[item.verdict]}".strip())
        for change in comparison.operators
        for item in change.deltas
        if item.metric == wanted and item.change
    ]
    if not named:
        named = [
            (abs(change.time_ns.change or 0), f"{change.op_class} (kernel {change.kind})")
            for change in comparison.kernels
        ]
    names = [name for _, name in sorted(named, key=lambda item: (-item[0], item[1]))]
    return tuple(dict.fromkeys(names))[:3]


def _time_changes(
    points: Sequence[Point], entries: Sequence[Entry], metric: str, rules: TimeRules
) -> list[Change]:
    known = [index for index, point in enumerate(points) if point.value.value]
    values = [float(points[index].value.value or 0) for index in known]
    changes = []
    for split, p, start, end in _splits(values, 0, len(values), rules):
        before, after = median(values[start:split]), median(values[split:end])
        quantity = points[known[split]].value
        sides = [
            Quantity(value=value, unit="ns", source=quantity.source) for value in (before, after)
        ]
        made = delta(metric, sides[0], sides[1])
        runs = entries[known[split - 1]].run, entries[known[split]].run
        changes.append(Change(known[split], made, _operators(*runs, metric), p))
    return sorted(changes, key=lambda change: change.index)


def _splits(
    values: Sequence[float], start: int, end: int, rules: TimeRules
) -> list[tuple[int, float, int, int]]:
    """Change points of values[start:end] as (split, p, start, end), found by halving segments."""
    segment = values[start:end]
    count = len(segment)
    if count < 2 * MIN_SIDE:
        return []
    ranks = midranks(segment)
    best, at, total = -1.0, 0, 0.0
    for size in range(1, count):
        total += ranks[size - 1]
        if size < MIN_SIDE or count - size < MIN_SIDE:
            continue
        spread = math.sqrt(size * (count - size) * (count + 1) / 12)
        z = abs(total - size * (count + 1) / 2) / spread
        if z > best:
            best, at = z, size
    # Cheap first: an exact p is only computed where the normal one could pass.
    if 2 * (1 - NormalDist().cdf(best)) > 0.5:
        return []
    p = min(1.0, rank_sum_p(segment[:at], segment[at:]) * (count - 2 * MIN_SIDE + 1))
    ratio = median(segment[at:]) / median(segment[:at])
    if p >= rules.alpha or abs(math.log(ratio)) < math.log1p(rules.threshold):
        return []
    split = start + at
    return [
        *_splits(values, start, split, rules),
        (split, p, start, end),
        *_splits(values, split, end, rules),
    ]
