"""Run the step for real: warm up, time it, and time every op in extra steps."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence

import msgspec
import torch

from rooflens.harness.progress import Progress
from rooflens.harness.recorder import record
from rooflens.model import Op
from rooflens.quantity import Record
from rooflens.reports.format import bytes_text, plural
from rooflens.workloads.models import LoadedModel, load_model
from rooflens.workloads.registry import workload
from rooflens.workloads.spec import StepSpec
from rooflens.workloads.step import ModelStep

RECORDINGS = 3
LONG_STEP_NS = 3e9
"""A step that takes longer is recorded once only."""
MATRIX_PRODUCTS = frozenset(
    f"aten.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "addmv")
)
"""torch chooses between these by strides and device; the work is the same."""


class Execution(Record, frozen=True, kw_only=True):
    """What running a step gave. Times are of the layers that ran."""

    wall_ns: tuple[float, ...]
    """Every timed step, in order; warm-up excluded."""
    recorded: tuple[Op, ...]
    """Ops of extra steps with their median host times; empty where host times mean nothing."""
    weights: str
    held_bytes: int
    """Memory of the weights."""


def execute(
    spec: StepSpec,
    *,
    warmup: int,
    steps: int,
    cache_bytes: int | None,
    progress: Progress,
    step_s: float | None = None,
) -> Execution:
    """Build the model and inputs of `spec` and run its step.

    `cache_bytes` is the last-level cache (it decides whether dummy layers may share storage);
    `step_s` is the expected duration of a step, for the progress line.
    """
    with progress.stage("Filling weights"):
        loaded = load_model(spec, cache_bytes)
    with progress.stage("Filling the KV cache" if spec.context else "Making inputs"):
        step = workload(spec.workload).build(spec, loaded)
    wait = torch.cuda.synchronize if spec.device == "cuda" else _nothing_to_wait_for
    name = f"Running {loaded_text(loaded)}"
    total = warmup + steps
    with progress.stage(name, step_s * total if step_s else None, steps=total):
        wall = _timed_steps(step, warmup, steps, wait, progress)
    recorded: tuple[Op, ...] = ()
    if spec.device == "cpu":
        times = RECORDINGS if statistics.median(wall) < LONG_STEP_NS else 1
        name = f"Timing every op in {plural(times, 'further step')}"
        with progress.stage(name, step_s * times if step_s else None, steps=times):
            recorded = _median_times([_recorded(step, loaded, progress) for _ in range(times)])
    weights, held_bytes = loaded.weights, loaded.held_bytes
    del loaded, step
    _give_memory_back(spec.device)
    return Execution(wall_ns=wall, recorded=recorded, weights=weights, held_bytes=held_bytes)


def join_times(
    counted: Sequence[Op], recorded: Sequence[Op], layers_run: int
) -> tuple[tuple[Op, ...], str]:
    """Give the counted ops the host times of the recorded step, matched by order.

    Only ops outside layers and of the first `layers_run` layers ran. Returns the ops and what did
    not match: with any mismatch no op gets a time, because the order cannot be trusted then.
    """
    ran = [op for op in counted if op.layer is None or op.layer < layers_run]
    for position, (mine, theirs) in enumerate(zip(ran, recorded, strict=False)):
        if not _same_call(mine, theirs):
            return tuple(counted), (
                f"op {position} is {mine.name} in {mine.module or 'no module'} where it was "
                f"counted, {theirs.name} in {theirs.module or 'no module'} where it ran"
            )
    if len(ran) != len(recorded):
        return tuple(counted), f"{len(ran)} ops were counted, {len(recorded)} ran"
    times = {mine.index: theirs.time_ns for mine, theirs in zip(ran, recorded, strict=True)}
    return tuple(msgspec.structs.replace(op, time_ns=times.get(op.index)) for op in counted), ""


def _recorded(step: ModelStep, loaded: LoadedModel, progress: Progress) -> tuple[Op, ...]:
    step.reset()
    ops = record(step.run, loaded.model, cache=step.cache, timed=True)
    progress.advance()
    return ops


def _median_times(recordings: Sequence[tuple[Op, ...]]) -> tuple[Op, ...]:
    """The first recording with each op's median time, where all recordings hold the same ops."""
    first = recordings[0]
    if any([op.name for op in other] != [op.name for op in first] for other in recordings):
        return first
    return tuple(
        msgspec.structs.replace(same[0], time_ns=_median_time(same))
        for same in zip(*recordings, strict=True)
    )


def _median_time(same: Sequence[Op]) -> float | None:
    """Median over the recordings that timed an op; None where none did."""
    times = [op.time_ns for op in same if op.time_ns is not None]
    return statistics.median(times) if times else None


def _same_call(mine: Op, theirs: Op) -> bool:
    """Equal module and name; one matrix product may be `mm` on meta and `bmm` on a CPU."""
    if mine.module != theirs.module:
        return False
    if mine.name == theirs.name:
        return True
    products = mine.name in MATRIX_PRODUCTS and theirs.name in MATRIX_PRODUCTS
    return products and mine.flops == theirs.flops and mine.flops > 0


def loaded_text(loaded: LoadedModel) -> str:
    """What runs, in words: `the step (1.6 GB of weights)`."""
    return f"the step ({bytes_text(loaded.held_bytes)} of weights)"


def _timed_steps(
    step: ModelStep, warmup: int, steps: int, wait: Callable[[], None], progress: Progress
) -> tuple[float, ...]:
    """Wall times in ns. Cache reset and garbage collection stay outside the timed range."""
    wall = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(warmup + steps):
            step.reset()
            wait()
            start = time.perf_counter_ns()
            step.run()
            wait()
            took = float(time.perf_counter_ns() - start)
            if number >= warmup:
                wall.append(took)
            progress.advance()
    finally:
        if collecting:
            gc.enable()
    return tuple(wall)


def _give_memory_back(device: str) -> None:
    """Free the model now: a capture of the same step in another process needs the room."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _nothing_to_wait_for() -> None:
    """CPU calls return when they are done."""
