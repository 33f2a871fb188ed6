"""From the layers that ran to the whole model: step time and the time of every operator class.

Times are never invented: where layers are not alike, or ops were not timed, the time is absent with
its reason. What is scaled from some layers to all says so in `extrapolated_from`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from rooflens.model import Op, OperatorRow, Quantity, absent
from rooflens.quantity import Record


class Sample(Record, frozen=True, kw_only=True):
    """Which layers ran, and why ops may have no time."""

    layers_run: int
    layers_model: int
    no_op_times: str = ""
    """Why no op was timed; empty when ops were."""

    @property
    def whole(self) -> bool:
        """All layers ran."""
        return self.layers_run == self.layers_model

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that were measured, where that is not all of them."""
        return () if self.whole else tuple(range(self.layers_run))

    @property
    def factor(self) -> float:
        """Layers of the model per layer that ran."""
        return self.layers_model / self.layers_run


def step_time(wall_ns: Sequence[float], ops: Sequence[Op], sample: Sample) -> Quantity:
    """Median step of the whole model.

    With sampled layers, the share of the step that its layers took (by the ops' own times) is
    scaled to all layers; the rest of the step happens once and stays as it is.
    """
    if not wall_ns:
        return absent("no step ran")
    median = statistics.median(wall_ns)
    if sample.whole:
        return Quantity(value=median, unit="ns", source="host")
    reason = _cannot_scale(ops, sample)
    if reason:
        return absent(reason)
    timed = [op for op in ops if op.time_ns is not None]
    total = sum(op.time_ns or 0.0 for op in timed)
    inside = sum(op.time_ns or 0.0 for op in timed if op.layer is not None)
    if total <= 0:
        return absent("the ops' times add up to nothing")
    scaled = median * (1 + inside / total * (sample.factor - 1))
    return Quantity(value=scaled, unit="ns", source="host", extrapolated_from=sample.layers)


def with_times(
    rows: Sequence[OperatorRow], ops: Sequence[Op], sample: Sample
) -> tuple[OperatorRow, ...]:
    """Put the time of each class and part into its row."""
    reason = sample.no_op_times or ("" if sample.whole else _cannot_scale(ops, sample))
    if reason:
        return tuple(msgspec.structs.replace(row, time_ns=absent(reason)) for row in rows)
    # A row without a part stands for its whole class where the class has no parts.
    by_key: dict[tuple[str, str | None], list[Op]] = {}
    for op in ops:
        by_key.setdefault((op.op_class, op.part), []).append(op)
    return tuple(
        msgspec.structs.replace(row, time_ns=_class_time(by_key, row, sample)) for row in rows
    )


def _class_time(
    by_key: dict[tuple[str, str | None], list[Op]], row: OperatorRow, sample: Sample
) -> Quantity:
    if row.part is None and (row.op_class, None) not in by_key:
        ops = [op for (name, _), found in by_key.items() if name == row.op_class for op in found]
    else:
        ops = by_key.get((row.op_class, row.part), [])
    if not ops:
        return absent("no op of this class in the step")
    inside = sum(op.time_ns or 0.0 for op in ops if op.layer is not None)
    outside = sum(op.time_ns or 0.0 for op in ops if op.layer is None)
    scaled = bool(sample.layers) and any(op.layer is not None for op in ops)
    return Quantity(
        value=inside * sample.factor + outside,
        unit="ns",
        source="host",
        extrapolated_from=sample.layers if scaled else (),
    )


def _cannot_scale(ops: Sequence[Op], sample: Sample) -> str:
    """Why the layers that ran do not stand for the others; empty when they do."""
    if sample.no_op_times:
        return (
            f"only {sample.layers_run} of {sample.layers_model} layers ran and {sample.no_op_times}"
        )
    if not layers_are_alike(ops):
        return (
            f"only {sample.layers_run} of {sample.layers_model} layers ran, "
            "and the layers of this model are not alike"
        )
    return ""


def layers_are_alike(ops: Sequence[Op]) -> bool:
    """Whether every layer makes the same calls on the same shapes."""
    by_layer: dict[int, list[tuple[object, ...]]] = {}
    for op in ops:
        if op.layer is not None:
            shapes = tuple(t.shape for t in (*op.inputs, *op.outputs))
            by_layer.setdefault(op.layer, []).append((op.name, op.op_class, op.part, shapes))
    signatures = list(by_layer.values())
    return all(signature == signatures[0] for signature in signatures)
