"""What several sections of a page rest on: class rows, the roof, and what may be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rooflens.model import OperatorRow, Quantity, Roof, Run, absent
from rooflens.vocabulary import OPERATOR_CLASSES

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("c0", "MLP", ("gate_proj", "up_proj", "gate_up_proj", "activation", "down_proj", "router",
                   "experts")),
    ("c1", "Attention and KV", ("attention", "kv_write", "rope", "mask")),
    ("c2", "Q, K, V, O projections", ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")),
    ("c3", "Logits and embedding", ("lm_head", "embedding", "sampling")),
    ("c4", "Norms and residuals", ("norm", "residual")),
)  # fmt: skip
"""Colour class, name and operator classes: at most five groups can be told apart by colour."""
REST = ("rest", "Other")

MAX_CLASSES = 100
"""Far more than there are words for classes; a bound for files that nobody meant."""
_SUMMED = (
    "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
    "executed_flops", "elementwise_flops", "time_ns", "floor_ns",
)  # fmt: skip


@dataclass(frozen=True)
class Basis:
    """A run with what every section asks first."""

    run: Run
    classes: tuple[OperatorRow, ...]
    """One row a class, in the order of a step."""
    parts: tuple[OperatorRow, ...]
    """The rows that say which part of a class they are."""
    roof: Roof | None
    """The roof that floors use."""
    same_device: bool
    """The roof belongs to the device that was timed: time and floor may be compared."""

    @property
    def per_capture(self) -> bool:
        return is_per_capture(self.run)

    @property
    def time(self) -> Quantity:
        return self.run.totals.step_time_ns

    @property
    def floor(self) -> Quantity:
        return self.run.totals.floor_ns


def basis(run: Run) -> Basis:
    """Sort a run's operator rows into classes and parts and look at its roof."""
    roof = run.roofs[0] if run.roofs else None
    by_class: dict[str, list[OperatorRow]] = {}
    for row in run.operators:
        by_class.setdefault(row.op_class, []).append(row)
    classes = [_class_row(rows) for rows in by_class.values()]
    return Basis(
        run=run,
        classes=tuple(sorted(classes, key=lambda row: class_rank(row.op_class))[:MAX_CLASSES]),
        parts=tuple(row for row in run.operators if row.part is not None),
        roof=roof,
        same_device=roof is not None and not roof.prediction and run.machine.device != "meta",
    )


def class_rank(op_class: str) -> int:
    """Where in a step a class comes; unknown words last."""
    order = (*OPERATOR_CLASSES[:3], "qkv_proj", *OPERATOR_CLASSES[3:10], "gate_up_proj",
             *OPERATOR_CLASSES[10:])  # fmt: skip
    return order.index(op_class) if op_class in order else len(order)


def group_of(op_class: str) -> tuple[str, str]:
    """Colour class and name of the group that an operator class is drawn in."""
    for css, name, members in GROUPS:
        if op_class in members:
            return css, name
    return REST


def _class_row(rows: list[OperatorRow]) -> OperatorRow:
    whole = [row for row in rows if row.part is None]
    if len(rows) == 1 or len(whole) == 1:
        return (whole or rows)[0]
    first = rows[0]
    sums = {name: total([getattr(row, name) for row in rows]) for name in _SUMMED}
    return msgspec.structs.replace(
        first,
        part=None,
        count=sum(row.count for row in rows),
        intensity_measured=quotient(sums["executed_flops"], sums["moved_bytes"]),
        intensity_minimum=quotient(sums["minimum_flops"], sums["minimum_bytes"]),
        **sums,
    )


def total(quantities: Iterable[Quantity]) -> Quantity:
    """Add quantities of one unit; absent where one of them is absent."""
    values = list(quantities)
    gone = [quantity for quantity in values if quantity.value is None]
    if gone or not values:
        return gone[0] if gone else absent("nothing to add")
    first = values[0]
    layers = max((quantity.extrapolated_from for quantity in values), key=len)
    return Quantity(
        value=sum(quantity.value or 0 for quantity in values),
        unit=first.unit,
        source=first.source,
        extrapolated_from=layers,
    )


def quotient(flops: Quantity, nbytes: Quantity) -> Quantity:
    """FLOP per byte of two quantities, absent where it has no meaning."""
    if flops.value is None:
        return flops
    if nbytes.value is None:
        return nbytes
    if nbytes.value <= 0:
        return absent("no bytes")
    return Quantity(value=flops.value / nbytes.value, unit="flop/byte", source=nbytes.source)


def ratio(over: Quantity, under: Quantity) -> float | None:
    """`over` / `under`, or None where either is missing or the divisor is not positive."""
    if over.value is None or under.value is None or under.value <= 0:
        return None
    return over.value / under.value


IMPORTED = "import"
"""The workload's name in a run that `profile import` wrote without being told what ran."""


def is_per_capture(run: Run) -> bool:
    """Kernels and classes are sums over a whole capture, because its steps are not known."""
    if any(capture.regime.get("kernel counts") == "per capture" for capture in run.captures):
        return True
    steps = bool(run.workload.steps) or (run.timeline is not None and bool(run.timeline.steps))
    return run.workload.name == IMPORTED and not steps


def per_what(run: Run) -> str:
    """What counts and savings are of."""
    return "in the capture" if is_per_capture(run) else "a step"


def value(quantity: Quantity) -> float:
    """The number of a quantity, 0 where it is absent (for lengths in pictures only)."""
    return float(quantity.value or 0)


def machine_name(run: Run) -> str:
    """What the step ran on, in words."""
    if run.machine.gpu:
        return run.machine.gpu
    if run.machine.device == "meta":
        return "no device (meta)"
    if run.machine.device == "imported":
        return run.machine.cpu
    return run.machine.cpu or ("this CPU" if run.machine.device == "cpu" else run.machine.device)


def with_article(name: str) -> str:
    """`an RTX 4090`, `a T4`, `an H200`: by how the first letter is spoken."""
    first = name.split()[0] if name.split() else ""
    if first == "NVIDIA":
        return f"an {name}"
    spelled = first[:2].isupper() or any(letter.isdigit() for letter in first)
    vowels = "AEFHILMNORSX" if spelled else "AEIOU"
    return f"{'an' if first[:1].upper() in vowels else 'a'} {name}"
