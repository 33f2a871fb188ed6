"""Carry out a sweep: compute its points on an engine, measure them here, find the crossings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from rooflens.errors import RooflensError, UsageError
from rooflens.harness.engines import run_points
from rooflens.quantity import Record
from rooflens.reports.format import time_text
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.crossover import projection_crossovers
from rooflens.reports.theory.gpus import Gpu, gpu
from rooflens.reports.theory.step import StepShape
from rooflens.reports.theory.sweep import (
    Sweep,
    SweepRow,
    find_crossings,
    sweep_dimension,
    sweep_shapes,
)


class SweepPlan(Record, frozen=True, kw_only=True):
    """What to sweep over."""

    architecture: Architecture
    model: str
    """As given, for a workload to load."""
    base: StepShape
    """Everything that all points share."""
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    queries: tuple[int, ...]
    gpus: tuple[Gpu, ...] = ()
    engine: str = "local"
    workers: int | None = None


class MeasureOptions(Record, frozen=True, kw_only=True):
    """How `--measure` runs each point."""

    device: str = "auto"
    layers: str = "auto"
    attention: str = "sdpa"
    steps: int = 3
    warmup: int = 1


def run_sweep(plan: SweepPlan) -> Sweep:
    """Compute all points. Raises UsageError for a point that cannot be."""
    shapes = sweep_shapes(plan.base, plan.batches, plan.contexts, plan.queries)
    roofs = tuple(found.roof(plan.base.dtype) for found in plan.gpus)
    along = sweep_dimension(plan.batches, plan.contexts, plan.queries)
    rows = run_points(plan.architecture, shapes, roofs, plan.engine, plan.workers)
    return Sweep(
        workload=plan.base.workload,
        model=plan.architecture.name,
        dtype=plan.base.dtype,
        options=_shared_options(plan.base),
        rows=tuple(rows),
        crossings=find_crossings(plan.architecture, plan.base, rows, roofs, along),
        along=along,
        roofs=roofs,
        crossover_tokens={
            roof.name: projection_crossovers(plan.architecture, shapes[0], roof) for roof in roofs
        },
    )


def measure(
    sweep: Sweep, plan: SweepPlan, options: MeasureOptions, tell: Callable[[str], None]
) -> Sweep:
    """Run the real workload once per point, one after the other, and put its time into the rows.

    A point that cannot run here (memory, say) is told and left without a time. Raises UsageError
    when no point can be measured on this device at all.
    """
    if options.device == "meta":
        raise UsageError("--measure needs a device that runs: meta has no times.")
    refused = [o for o in _shared_options(plan.base) if not o.startswith("logits")]
    if refused:
        raise UsageError(f"--measure runs the plain workload, not one with {', '.join(refused)}.")
    times: dict[tuple[int, int, int], float] = {}
    device = ""
    for shape in sweep_shapes(plan.base, plan.batches, plan.contexts, plan.queries):
        point = (shape.batch, shape.context, shape.query_tokens)
        try:
            device, times[point] = _step_time(shape, plan.model, options)
        except UsageError:
            raise
        except RooflensError as error:
            tell(f"Not measured: {_point_text(shape)}: {error}")
            continue
        tell(f"Measured {_point_text(shape)}: {time_text(times[point])}")
    rows = tuple(_measured(row, times) for row in sweep.rows)
    return msgspec.structs.replace(
        sweep, rows=rows, measured_on=device, measured_gpu=_own_roof(sweep, device)
    )


def _point_text(shape: StepShape) -> str:
    return f"batch {shape.batch}, context {shape.context}, new tokens {shape.query_tokens}"


def _own_roof(sweep: Sweep, device: str) -> str:
    """Only against its own roof says a measured time how far it is from the floor."""
    try:
        label = gpu(device).label
    except UsageError:
        return ""
    return label if label in {roof.name for roof in sweep.roofs} else ""


def _measured(row: SweepRow, times: dict[tuple[int, int, int], float]) -> SweepRow:
    time = times.get((row.batch, row.context, row.query_tokens))
    return msgspec.structs.replace(row, measured_ns=time)


def _step_time(shape: StepShape, model: str, options: MeasureOptions) -> tuple[str, float]:
    """Device and median step time (whole model) of one run."""
    from rooflens.harness.plan import RunOptions, make_plan
    from rooflens.harness.running import run_step

    prefill = shape.workload == "prefill"
    run = run_step(
        make_plan(
            RunOptions(
                workload=shape.workload,
                model=model,
                batch=shape.batch,
                context=shape.context,
                prompt=shape.query_tokens if prefill else None,
                query_tokens=shape.query_tokens if shape.workload == "verify" else None,
                logits="last" if shape.workload == "verify" else shape.logits,
                attention=options.attention,
                dtype=shape.dtype,
                layers=options.layers,
                device=options.device,
                evidence=("theory", "counted"),
                steps=options.steps,
                warmup=options.warmup,
            )
        )
    )
    value = run.totals.step_time_ns.value
    if value is None:
        value = median(run.step_times_ns)
    machine = run.machine
    return machine.gpu or machine.cpu or machine.device, float(value)


def _shared_options(base: StepShape) -> tuple[str, ...]:
    words: Sequence[tuple[str, object, object]] = (
        ("weights", base.weights_dtype, None),
        ("cache", base.kv_dtype, None),
        ("ranks", base.tp, 1),
        ("logits", base.logits, "all" if base.workload == "verify" else "last"),
    )
    return tuple(f"{word} {value}" for word, value, plain in words if value != plain)
