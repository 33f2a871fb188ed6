"""Phases of a serving capture beside the theory of their shapes: bytes, FLOPs and floors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rooflens.model import PhaseTime, Roof, Timeline
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
