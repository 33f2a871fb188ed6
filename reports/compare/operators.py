"""Operator classes and ops of two sides: what changed, where, and what is only renamed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from rooflens.model import OperatorRow, Quantity, Run, absent, known
from rooflens.reports.compare.deltas import MEASURED, changed, count, delta, gap, pool
from rooflens.reports.compare.matching import (
    OpGroup,
    Pairs,
    match_ops,
    module_pattern,
    ops_text,
)
from rooflens.reports.compare.options import Options
from rooflens.reports.compare.records import Delta, OpChange, OperatorChange, Verdict
from rooflens.reports.compare.times import Samples, judge_times
from rooflens.reports.view.basis import basis, class_rank, total
from rooflens.vocabulary import FUSED_CLASSES

_QUANTITIES = (
    "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
    "executed_flops", "elementwise_flops", "time_ns", "floor_ns", "intensity_measured",
    "intensity_minimum",
)  # fmt: skip
_COUNTED = {"requested_bytes": "byte", "requested_flops": "flop", "elementwise_flops": "flop"}
_MOVED = ("moved_bytes", "executed_flops", "intensity_measured")
OVERHEAD_CLASSES = ("mask", "cast", "layout_copy", "other")
"""Classes that no model needs: when one of them is gone, that is an improvement."""


@dataclass(frozen=True)
class Forbidden:
    """Why each aspect must not be compared; empty where it may be."""

    counted: str = ""
    moved: str = ""
    kernels: str = ""
    time: str = ""
    failed: str = ""
    """Which side's own evidence is bad."""


@dataclass(frozen=True)
class Operators:
    """What changed in the operators of a step."""

    changes: list[OperatorChange] = field(default_factory=list)
    ops: list[OpChange] = field(default_factory=list)
    renamed: int = 0
    gone_classes: list[str] = field(default_factory=list)
    """Classes that the model needs and that the head no longer has."""
    compared: bool = False


def compare_operators(
    base: Sequence[Run], head: Sequence[Run], options: Options, forbidden: Forbidden
) -> Operators:
    """Compare operator rows class by class, and ops module by module."""
    pairs: Pairs[OpGroup] = Pairs()
    with_ops = [next((run for run in side if run.ops), None) for side in (base, head)]
    if with_ops[0] and with_ops[1] and not forbidden.counted:
        pairs = match_ops(with_ops[0].ops, with_ops[1].ops)
    sides = [_rows(side) for side in (base, head)]
    _merge_fused(sides[0], sides[1])
    for one, other in pairs.both:
        if one.op_class != other.op_class:
            _reclassify(sides[1], other, one.op_class)
    known_sides = [bool(rows) for rows in sides]
    result = Operators(renamed=_renamed(pairs), compared=all(known_sides))
    if not all(known_sides):
        return result
    words = _words(pairs)
    classes = sorted(set(sides[0]) | set(sides[1]), key=class_rank)
    # One of many classes is above alpha by chance more often than alpha.
    alpha = options.times.alpha / max(len(classes), 1)
    options = replace(options, times=replace(options.times, alpha=alpha))
    for op_class in classes:
        here, there = sides[0].get(op_class), sides[1].get(op_class)
        if _is_gone(here, there) and op_class not in OVERHEAD_CLASSES:
            result.gone_classes.append(op_class)
        times = _class_samples(base, head, op_class)
        change = _operator_change(
            op_class, here, there, options, forbidden, times, words.get(op_class, "")
        )
        if change is not None:
            result.changes.append(change)
    result.ops.extend(_op_changes(pairs))
    return result


def _rows(side: Sequence[Run]) -> dict[str, OperatorRow]:
    """One row a class, pooled over the runs of a side."""
    by_class: dict[str, list[OperatorRow]] = defaultdict(list)
    for run in side:
        for row in basis(run).classes:
            by_class[row.op_class].append(_as_counted(row, run))
    pooled = {}
    for op_class, rows in by_class.items():
        if len(rows) == 1:
            pooled[op_class] = rows[0]
            continue
        quantities = {name: pool([getattr(row, name) for row in rows]) for name in _QUANTITIES}
        pooled[op_class] = msgspec.structs.replace(rows[0], **quantities)
    return pooled


def _as_counted(row: OperatorRow, run: Run) -> OperatorRow:
    """A class without ops in a run whose ops were counted requested nothing: that is a fact."""
    if row.count or not run.ops:
        return row
    return msgspec.structs.replace(row, **_zeros(row))


def _zeros(row: OperatorRow) -> dict[str, Quantity]:
    return {
        name: Quantity(value=0, unit=unit, source="counted")  # type: ignore[arg-type]
        for name, unit in _COUNTED.items()
        if getattr(row, name).value is None
    }


def _merge_fused(base: dict[str, OperatorRow], head: dict[str, OperatorRow]) -> None:
    """Where one side has one fused call for several classes, sum the other side's classes."""
    for fused, members in FUSED_CLASSES.items():
        for rows, others in ((base, head), (head, base)):
            present = [name for name in members if name in rows]
            if present and fused in others and fused not in rows:
                parts = [rows.pop(name) for name in present]
                rows[fused] = msgspec.structs.replace(
                    parts[0],
                    op_class=fused,
                    count=sum(part.count for part in parts),
                    **{name: total([getattr(part, name) for part in parts])
                       for name in _QUANTITIES if not name.startswith("intensity")},
                    intensity_measured=absent("summed over several classes"),
                    intensity_minimum=absent("summed over several classes"),
                )  # fmt: skip


def _reclassify(rows: dict[str, OperatorRow], group: OpGroup, op_class: str) -> None:
    """Book the ops of a renamed module under the class that they had before."""
    amounts = {
        "requested_bytes": group.bytes,
        "requested_flops": group.flops,
        "elementwise_flops": group.elementwise_flops,
    }
    source = rows[group.op_class]
    target = rows.get(op_class)
    if target is None:
        empty = absent("the module was renamed")
        target = msgspec.structs.replace(
            source, op_class=op_class, part=None, count=0, **dict.fromkeys(_QUANTITIES, empty)
        )
    rows[op_class] = _shifted(target, amounts, len(group.ops), 1)
    rows[group.op_class] = _shifted(source, amounts, len(group.ops), -1)
    if rows[group.op_class].count == 0:
        del rows[group.op_class]


def _shifted(row: OperatorRow, amounts: dict[str, int], calls: int, sign: int) -> OperatorRow:
    fields: dict[str, Quantity] = {}
    for name, amount in amounts.items():
        old: Quantity = getattr(row, name)
        unit = old.unit or ("byte" if name.endswith("bytes") else "flop")
        fields[name] = known((old.value or 0) + sign * amount, unit, old.source or "counted")
    for name in (*_MOVED, "time_ns"):
        if getattr(row, name).value is not None:
            fields[name] = absent("the module was renamed, and its kernels changed class with it")
    return msgspec.structs.replace(row, count=row.count + sign * calls, **fields)


def classes_gone(base: Iterable[str], head: Iterable[str]) -> list[str]:
    """Classes a model needs that only the base has, neither fused nor split in the head."""
    there = set(head)
    gone = []
    for name in sorted(set(base) - there - set(OVERHEAD_CLASSES), key=class_rank):
        fused = {whole for whole, members in FUSED_CLASSES.items() if name in members}
        if not (fused & there or there & set(FUSED_CLASSES.get(name, ()))):
            gone.append(name)
    return gone


def _is_gone(here: OperatorRow | None, there: OperatorRow | None) -> bool:
    return here is not None and here.count > 0 and (there is None or there.count == 0)


def _operator_change(
    op_class: str,
    here: OperatorRow | None,
    there: OperatorRow | None,
    options: Options,
    forbidden: Forbidden,
    times: Samples,
    words: str,
) -> OperatorChange | None:
    present = here or there
    assert present is not None
    one, other = here or _nothing(present), there or _nothing(present)
    deltas = [delta("calls", count(one.count), count(other.count), 0, forbidden.counted)]
    for name in _QUANTITIES:
        why = forbidden.moved if name in _MOVED else forbidden.counted
        if name == "time_ns":
            deltas.append(_time_delta(one, other, forbidden, options, times))
            continue
        tolerance = options.moved_tolerance if name in MEASURED else 0.0
        deltas.append(delta(name, getattr(one, name), getattr(other, name), tolerance, why))
    deltas.append(
        delta("gap_ns", gap(one.time_ns, one.floor_ns), gap(other.time_ns, other.floor_ns), 0,
              forbidden.time)
    )  # fmt: skip
    moves = [
        item
        for item in deltas
        if item.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
        or (item.metric in ("minimum_bytes", "minimum_flops", "elementwise_flops") and item.change)
    ]
    if not moves:
        return None
    return OperatorChange(
        op_class=op_class,
        verdict=_row_verdict(here, there, moves),
        deltas=tuple(item for item in deltas if changed(item) and item.change is not None),
        ops=words,
    )


def _row_verdict(
    here: OperatorRow | None, there: OperatorRow | None, moves: list[Delta]
) -> Verdict:
    if _is_gone(here, there):
        return Verdict.GONE
    if _is_gone(there, here):
        return Verdict.NEW
    verdicts = {item.verdict for item in moves}
    for verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        if verdict in verdicts:
            return verdict
    return Verdict.NO_CHANGE_SHOWN


def _nothing(row: OperatorRow) -> OperatorRow:
    """The row of a class that a side does not have."""
    reason = absent("this side has no such operator class")
    fields: dict[str, Quantity] = dict.fromkeys(_QUANTITIES, reason)
    for name in (*_COUNTED, "moved_bytes", "executed_flops"):
        there: Quantity = getattr(row, name)
        if there.value is not None and there.unit is not None and there.source is not None:
            fields[name] = known(0, there.unit, there.source)
    return msgspec.structs.replace(row, count=0, **fields)


def _time_delta(
    one: OperatorRow, other: OperatorRow, forbidden: Forbidden, options: Options, times: Samples
) -> Delta:
    made = delta("time_ns", one.time_ns, other.time_ns, 0, forbidden.time)
    if made.change is None:
        return made
    judged = judge_times(times, options.times)
    verdict = judged.verdict if judged.p is not None else Verdict.CANNOT_JUDGE
    return msgspec.structs.replace(made, verdict=verdict, reason=judged.reason)


def _class_samples(base: Sequence[Run], head: Sequence[Run], op_class: str) -> Samples:
    """Times of one class, one sample a run."""
    sides = []
    for side in (base, head):
        values = []
        for run in side:
            rows = [row for row in basis(run).classes if row.op_class == op_class]
            if len(side) > 1 and rows and rows[0].time_ns.value:
                values.append(float(rows[0].time_ns.value))
        sides.append(tuple(values))
    if not sides[0] or not sides[1]:
        return Samples((), (), absent="one mean a side shows no spread; give several runs a side")
    return Samples(sides[0], sides[1], what="runs")


def _words(pairs: Pairs[OpGroup]) -> dict[str, str]:
    """For every class, what ran before and what runs now in the first place that changed."""
    words: dict[str, str] = {}
    for one, other in pairs.both:
        before, now = ops_text(one), ops_text(other)
        if before != now:
            words.setdefault(one.op_class, f"{before} → {now}")
    return words


def _renamed(pairs: Pairs[OpGroup]) -> int:
    return len({one.module for one, other in pairs.both if one.module != other.module})


def _op_changes(pairs: Pairs[OpGroup]) -> list[OpChange]:
    """Rows for what changed; places that differ only in their layer number share a row."""
    rows: dict[tuple[str, ...], list[tuple[OpGroup | None, OpGroup | None]]] = defaultdict(list)
    candidates: list[tuple[OpGroup | None, OpGroup | None]] = [
        (one, other) for one, other in pairs.both if one.signature() != other.signature()
    ]
    candidates += [(group, None) for group in pairs.gone]
    candidates += [(None, group) for group in pairs.new]
    for one, other in candidates:
        present = one or other
        assert present is not None
        key = (
            module_pattern(one.module) if one else "",
            module_pattern(other.module) if other else "",
            present.op_class,
            ops_text(one),
            ops_text(other),
        )
        rows[key].append((one, other))
    changes = [_op_change(key, places) for key, places in rows.items()]
    return sorted(changes, key=lambda row: (-abs(row.bytes_change), row.module, row.head_module))


def _op_change(
    key: tuple[str, ...], places: list[tuple[OpGroup | None, OpGroup | None]]
) -> OpChange:
    def change(of: str) -> int:
        return sum(
            (getattr(other, of) if other else 0) - (getattr(one, of) if one else 0)
            for one, other in places
        )

    calls = sum(
        (len(other.ops) if other else 0) - (len(one.ops) if one else 0) for one, other in places
    )
    changes = (change("bytes"), change("flops"), calls)
    if places[0][0] is None:
        verdict = Verdict.NEW
    elif places[0][1] is None:
        verdict = Verdict.GONE
    elif any(item > 0 for item in changes):
        verdict = Verdict.REGRESSED
    else:
        verdict = Verdict.IMPROVED if any(changes) else Verdict.NO_CHANGE_SHOWN
    return OpChange(
        verdict=verdict,
        op_class=key[2],
        module=key[0] or key[1],
        head_module=key[1] or key[0],
        layers=len(places),
        base_ops=key[3],
        head_ops=key[4],
        calls_change=calls,
        bytes_change=changes[0],
        flops_change=changes[1],
    )
