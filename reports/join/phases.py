"""Phases of a serving capture beside the theory of their shapes: bytes, FLOPs and floors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rooflens.errors import UsageError
from rooflens.model import PhaseTime, Roof, Timeline
from rooflens.reports.format import (
    bandwidth_text,
    bytes_text,
    flop_rate_text,
    flops_text,
    time_text,
)
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.floor import floor_ns, step_floor_ns
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from rooflens.units import NS_PER_S
from rooflens.vocabulary import FUSED_CLASSES


@dataclass(frozen=True)
class PhaseDemand:
    """One phase of a capture against the theory of its shapes (one rank, one step)."""

    phase: PhaseTime
    theory: StepTheory
    compute_ns: float
    """Kernel time without collectives."""
    floor_ns: float | None
    """Absent without a roof."""
    bytes_per_s: float
    """Compulsory bytes over the time of the kernels that are no collectives."""
    flops_per_s: float


def phase_shapes(
    timeline: Timeline, *, sequences: int = 1, dtype: str = "bfloat16", tp: int = 1
) -> dict[str, StepShape]:
    """Shapes of the phases, as far as the capture says: new tokens per step from its kernels.

    Of `sequences` sequences of equal length, the prefill reads all tokens at once; the n decode
    steps after it see contexts that grow by one, so the middle one stands for them.
    """
    shapes: dict[str, StepShape] = {}
    prompt = 0
    for phase in timeline.phases:
        if phase.name == "prefill" and phase.tokens and not phase.tokens % sequences:
            prompt = phase.tokens // sequences
            shapes["prefill"] = StepShape(
                workload="prefill", batch=sequences, context=0, query_tokens=prompt, dtype=dtype,
                tp=tp,
            )  # fmt: skip
    for phase in timeline.phases:
        if phase.name == "decode" and phase.tokens and prompt:
            shapes["decode"] = StepShape(
                workload="decode", batch=phase.tokens, query_tokens=1, dtype=dtype, tp=tp,
                context=prompt + (len(phase.steps) - 1) // 2,
            )  # fmt: skip
    return shapes


def phase_demand(
    timeline: Timeline,
    architecture: Architecture,
    shapes: Mapping[str, StepShape],
    roof: Roof | None = None,
) -> tuple[PhaseDemand, ...]:
    """What theory demands of each phase that has a shape, beside what its kernels took."""
    made = []
    for phase in timeline.phases:
        shape = shapes.get(phase.name)
        if shape is None:
            continue
        theory = step_theory(architecture, shape)
        compute = phase.kernel_ns - phase.communication_ns
        made.append(
            PhaseDemand(
                phase=phase,
                theory=theory,
                compute_ns=compute,
                floor_ns=step_floor_ns(theory, roof) if roof else None,
                bytes_per_s=theory.compulsory_bytes / compute * NS_PER_S if compute else 0.0,
                flops_per_s=theory.tensor_flops / compute * NS_PER_S if compute else 0.0,
            )
        )
    return tuple(made)


@dataclass(frozen=True)
class ClassDemand:
    """One operator class of a phase: its kernels' time beside what theory demands."""

    op_class: str
    time_ns: float
    minimum_bytes: int
    minimum_flops: int
    floor_ns: float | None


def class_demand(demand: PhaseDemand, roof: Roof | None = None) -> tuple[ClassDemand, ...]:
    """Split a phase by class, longest first. A fused class meets the classes that it serves."""
    classes = dict(demand.phase.classes)
    served = {name: fused for fused, names in FUSED_CLASSES.items() if fused in classes
              for name in names}  # fmt: skip
    nbytes: dict[str, int] = {}
    flops: dict[str, int] = {}
    for operator in demand.theory.operators:
        name = served.get(operator.name, operator.name)
        nbytes[name] = nbytes.get(name, 0) + operator.count * operator.bytes
        flops[name] = flops.get(name, 0) + operator.count * operator.flops
    return tuple(
        ClassDemand(
            op_class=name,
            time_ns=time,
            minimum_bytes=nbytes.get(name, 0),
            minimum_flops=flops.get(name, 0),
            floor_ns=floor_ns(flops.get(name, 0), nbytes.get(name, 0), roof) if roof else None,
        )
        for name, time in sorted(classes.items(), key=lambda item: -item[1])
    )


def with_demand(
    timeline: Timeline, theory: StepTheory | None, roof: Roof | None = None, ranks: int = 1
) -> Timeline:
    """A timeline with a sentence per phase on what theory demands of it and what it achieved.

    `theory` names the model and the number of sequences; the shapes are those of the capture.
    `ranks` are taken to be tensor parallel. Without theory or known shapes nothing is added.
    """
    if theory is None or not timeline.phases:
        return timeline
    shape = theory.shape
    shapes = phase_shapes(timeline, sequences=shape.sequences, dtype=shape.dtype, tp=ranks)
    try:
        demands = phase_demand(timeline, theory.architecture, shapes, roof)
    except UsageError as error:  # the ranks do not divide the model: they are not tensor parallel
        said = (f"No theory for the phases: {error.message}",)
        return msgspec.structs.replace(timeline, facts=(*timeline.facts, *said))
    facts = [_sentence(demand, ranks) for demand in demands]
    return msgspec.structs.replace(timeline, facts=(*timeline.facts, *facts))


def _sentence(demand: PhaseDemand, ranks: int) -> str:
    theory = demand.theory
    of = f" of each of {ranks} ranks" if ranks > 1 else ""
    text = (
        f"{demand.phase.name.capitalize()}: theory demands {bytes_text(theory.compulsory_bytes)} "
        f"and {flops_text(theory.tensor_flops)} a step{of}; over {time_text(demand.compute_ns)} of "
        f"kernels without collectives that is {bandwidth_text(demand.bytes_per_s)} and "
        f"{flop_rate_text(demand.flops_per_s)}"
    )
    return f"{text} (floor {time_text(demand.floor_ns)})." if demand.floor_ns else f"{text}."
