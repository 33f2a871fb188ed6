"""Join counted ops with the theory of the step: one row per operator class, and one per part.

Rows with `part` None are classes: they cover every op exactly once, so they sum to the step. Rows
with a part split one class further and must not be added to them. Sum the rows that
`class_rows` returns.

Theory knows classes, not parts, so part rows have no minimum. A class that the theory does not have
(mask, casts, copies, the copying of a cache) has a minimum of 0 bytes: an ideal step needs none.
A class written for one fused call (`qkv_proj`) is compared with the classes that it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rooflens.model import Op, OperatorRow, Quantity, Roof, Totals, Unit, absent, known
from rooflens.reports.theory.floor import bound, operator_floor_ns, step_floor_ns
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepTheory
from rooflens.vocabulary import FUSED_CLASSES, OPERATOR_CLASSES, PARTS

ClassPart = tuple[str, str | None]

NO_COUNTERS = absent("not collected: no counter capture in this run")
NO_ROOF = absent("no roof: name a GPU with --gpu, or run where ceilings can be measured")
NO_THEORY = absent("no theory for this step")
NOT_PER_PART = absent("theory is per operator class, not per part")
NOT_TIMED = absent("not timed in this run")
NOT_COUNTED = absent("not counted: no recorded op of this class")


@dataclass
class _Counted:
    """Sums over the ops of one row."""

    count: int = 0
    bytes: int = 0
    flops: int = 0
    elementwise_flops: int = 0
    times: list[float | None] = field(default_factory=list)

    def add(self, op: Op) -> None:
        self.count += 1
        self.bytes += op.bytes_in + op.bytes_out
        self.flops += op.flops
        self.elementwise_flops += op.elementwise_flops
        self.times.append(op.time_ns)


def operator_rows(
    ops: Sequence[Op],
    step_theory: StepTheory | None = None,
    roof: Roof | None = None,
    times: Mapping[ClassPart, Quantity] | None = None,
) -> tuple[OperatorRow, ...]:
    """Rows per class in the order of a step, each followed by its parts where it has any.

    Bytes and FLOPs are of the whole step. `times` are per (class, part), e.g. from `times_by_class`
    of a timed recording of some layers; without it, the ops' own times are used where all have one.
    A class of the theory without any op (a fused call did its work, or nothing was recorded) keeps
    its row, with count 0.
    """
    counted: dict[ClassPart, _Counted] = {}
    for op in ops:
        counted.setdefault((op.op_class, None), _Counted()).add(op)
        if op.part is not None:
            counted.setdefault((op.op_class, op.part), _Counted()).add(op)
    theory = _theory_by_class(step_theory, {name for name, part in counted if part is None})
    for name in theory:
        counted.setdefault((name, None), _Counted())
    return tuple(
        _row(key, counted[key], theory.get(key[0], ()) if step_theory else None, roof, times)
        for key in sorted(counted, key=_order)
    )


def class_rows(rows: Iterable[OperatorRow]) -> tuple[OperatorRow, ...]:
    """The rows that sum to the step: one per class."""
    return tuple(row for row in rows if row.part is None)


def totals(
    ops: Sequence[Op],
    step_theory: StepTheory | None = None,
    roof: Roof | None = None,
    step_time_ns: Quantity | None = None,
) -> Totals:
    """Sums per step. Without ops, what would be counted is absent; so is theory without theory."""
    requested = sum(op.bytes_in + op.bytes_out for op in ops)
    explained = sum(op.bytes_in + op.bytes_out for op in ops if op.op_class != "other")
    uncounted = absent("not counted: nothing was recorded")
    no_floor = NO_ROOF if step_theory is not None else NO_THEORY
    floors = step_theory is not None and roof is not None
    return Totals(
        minimum_bytes=_theory(step_theory, "ideal_op_bytes", "byte"),
        compulsory_bytes=_theory(step_theory, "compulsory_bytes", "byte"),
        requested_bytes=known(requested, "byte", "counted") if ops else uncounted,
        moved_bytes=NO_COUNTERS,
        minimum_flops=_theory(step_theory, "tensor_flops", "flop"),
        requested_flops=known(sum(op.flops for op in ops), "flop", "counted") if ops else uncounted,
        executed_flops=NO_COUNTERS,
        elementwise_flops=known(sum(op.elementwise_flops for op in ops), "flop", "counted")
        if ops
        else uncounted,
        intensity=known(step_theory.intensity, "flop/byte", "theory") if step_theory else NO_THEORY,
        step_time_ns=step_time_ns or NOT_TIMED,
        floor_ns=known(step_floor_ns(step_theory, roof), "ns", "theory")
        if floors and step_theory and roof
        else no_floor,
        operator_floor_ns=known(_floor(step_theory.operators, roof), "ns", "theory")
        if floors and step_theory and roof
        else no_floor,
        coverage=known(explained / requested, "1", "counted") if requested else uncounted,
    )


def times_by_class(
    timed_ops: Sequence[Op], layers_model: int | None = None
) -> dict[ClassPart, Quantity]:
    """Host time per (class, part) of one timed, classified recording.

    When the recording ran fewer layers than the model has, the layers' share is their mean times
    `layers_model` plus what lies outside layers, and the quantity says from which layers.
    """
    layers = sorted({op.layer for op in timed_ops if op.layer is not None})
    scale = layers_model / len(layers) if layers_model and layers else 1.0
    sampled = tuple(layers) if layers and layers_model and layers_model != len(layers) else ()
    sums: dict[ClassPart, float] = {}
    for op in timed_ops:
        if op.time_ns is None:
            continue
        keys: set[ClassPart] = {(op.op_class, None), (op.op_class, op.part)}
        for key in keys:
            sums[key] = sums.get(key, 0.0) + op.time_ns * (scale if op.layer is not None else 1.0)
    return {
        key: Quantity(value=value, unit="ns", source="host", extrapolated_from=sampled)
        for key, value in sums.items()
    }


def _theory_by_class(
    step_theory: StepTheory | None, recorded: set[str]
) -> dict[str, tuple[OperatorTheory, ...]]:
    """Theory operators per recorded class; those of a fused class go to it."""
    if step_theory is None:
        return {}
    owner = {
        member: fused
        for fused, members in FUSED_CLASSES.items()
        for member in members
        if fused in recorded and member not in recorded
    }
    found: dict[str, tuple[OperatorTheory, ...]] = {}
    for operator in step_theory.operators:
        name = owner.get(operator.name, operator.name)
        found[name] = (*found.get(name, ()), operator)
    return found


def _row(
    key: ClassPart,
    counted: _Counted,
    theory: Sequence[OperatorTheory] | None,
    roof: Roof | None,
    times: Mapping[ClassPart, Quantity] | None,
) -> OperatorRow:
    name, part = key
    if part is not None:
        minimum_bytes = minimum_flops = intensity = floor = NOT_PER_PART
        limit = "none"
    else:
        minimum_bytes, minimum_flops, intensity, floor, limit = _minimum(theory, roof)
    nothing = counted.count == 0
    return OperatorRow(
        op_class=name,
        part=part,
        count=counted.count,
        minimum_bytes=minimum_bytes,
        requested_bytes=NOT_COUNTED if nothing else known(counted.bytes, "byte", "counted"),
        moved_bytes=NO_COUNTERS,
        minimum_flops=minimum_flops,
        requested_flops=NOT_COUNTED if nothing else known(counted.flops, "flop", "counted"),
        executed_flops=NO_COUNTERS,
        elementwise_flops=NOT_COUNTED
        if nothing
        else known(counted.elementwise_flops, "flop", "counted"),
        time_ns=_time(key, counted, times),
        floor_ns=floor,
        intensity_measured=NO_COUNTERS,
        intensity_minimum=intensity,
        bound=limit,
    )


def _minimum(
    theory: Sequence[OperatorTheory] | None, roof: Roof | None
) -> tuple[Quantity, Quantity, Quantity, Quantity, str]:
    """Minimum bytes, FLOPs, intensity, floor and bound of one class."""
    if theory is None:
        return NO_THEORY, NO_THEORY, NO_THEORY, NO_THEORY, "none"
    size = sum(operator.count * operator.bytes for operator in theory)
    tensor_flops = sum(operator.count * operator.flops for operator in theory if operator.tensor)
    all_flops = sum(operator.count * operator.flops for operator in theory)
    return (
        known(size, "byte", "theory"),
        known(tensor_flops, "flop", "theory"),
        known(all_flops / size, "flop/byte", "theory")
        if size
        else absent("an ideal step moves no bytes for this class"),
        known(_floor(theory, roof), "ns", "theory") if roof is not None else NO_ROOF,
        bound(all_flops, size, roof),
    )


def _floor(theory: Iterable[OperatorTheory], roof: Roof) -> float:
    return sum(operator.count * operator_floor_ns(operator, roof) for operator in theory)


def _theory(step_theory: StepTheory | None, name: str, unit: Unit) -> Quantity:
    if step_theory is None:
        return NO_THEORY
    return known(getattr(step_theory, name), unit, "theory")


def _time(
    key: ClassPart, counted: _Counted, times: Mapping[ClassPart, Quantity] | None
) -> Quantity:
    if times is not None:
        return times.get(key, NOT_TIMED)
    measured = [time for time in counted.times if time is not None]
    if not measured or len(measured) < len(counted.times):
        return NOT_TIMED
    return known(sum(measured), "ns", "host")


def _order(key: ClassPart) -> tuple[int, int, str]:
    """Classes as a step meets them; a fused class where its first member stands; parts after it."""
    name, part = key
    anchor = FUSED_CLASSES.get(name, (name,))[0]
    position = (
        OPERATOR_CLASSES.index(anchor) if anchor in OPERATOR_CLASSES else len(OPERATOR_CLASSES)
    )
    parts = PARTS.get(name, ())
    place = 0 if part is None else 1 + (parts.index(part) if part in parts else len(parts))
    return position, place, f"{name} {part or ''}"
