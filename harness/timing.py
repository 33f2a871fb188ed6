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
from rooflens.reports.join.counted import times_by_class


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


def class_times(
    ops: Sequence[Op], sample: Sample
) -> tuple[dict[tuple[str, str | None], Quantity], str]:
    """Host time per (class, part) of the whole model, or why there is none."""
    reason = sample.no_op_times or ("" if sample.whole else _cannot_scale(ops, sample))
    if reason:
        return {}, reason
    timed = [op for op in ops if op.time_ns is not None]
    in_layers = {(op.op_class, part) for op in timed if op.layer is not None
                 for part in (None, op.part)}  # fmt: skip
    # What happens once a step (lm_head, embedding) was measured in full.
    return {
        key: time if key in in_layers else msgspec.structs.replace(time, extrapolated_from=())
        for key, time in times_by_class(timed, sample.layers_model).items()
    }, ""


def without_times(rows: Sequence[OperatorRow], reason: str) -> tuple[OperatorRow, ...]:
    """Say in every row why it has no time."""
    return tuple(msgspec.structs.replace(row, time_ns=absent(reason)) for row in rows)


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
