"""The program that runs under a profiler: `python -m rooflens.harness.profiled_step JOB.json`
(`--torch-trace FILE` records with torch's profiler, where there is no nsys).

It runs the same step as the run that asked for it, with the same seed, inside NVTX ranges. A
timeline capture uses light annotation (down to modules), so that the gaps stay true; a counter
capture opens a range around every op, and leaves the recorded ops beside the job, so that each
kernel can name its op.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from rooflens.model import Op
from rooflens.quantity import Record
from rooflens.workloads.spec import StepSpec

WARM_UP = "warm-up"
UNSAMPLED = "unsampled layer"
"""Range around the layers that a counter capture leaves out."""
SETTLE_S = 0.8
"""nsys 2022.4 loses ranges of a process that ends within about half a second of its last range."""


class Job(Record, frozen=True, kw_only=True):
    """What to run. Written by the harness, read by this program."""

    spec: dict[str, str | int | None]
    """Fields of StepSpec."""
    annotation: Literal["modules", "ops"]
    warmup: int
    steps: int
    cache_bytes: int | None = None
    sampled_layers: tuple[int, ...] | None = None
    """Layers to profile under counters; None is all."""
    ops_file: str = ""
    """Where the recorded ops go (annotation `ops`)."""


def job_of(spec: StepSpec, **fields: Any) -> Job:
    """A job for a spec."""
    return Job(spec=dataclasses.asdict(spec), **fields)


def write_job(job: Job, file: Path) -> None:
    """Write a job file."""
    file.write_bytes(msgspec.json.encode(job))


def read_ops(file: Path) -> tuple[Op, ...]:
    """The ops that a job with annotation `ops` recorded."""
    return msgspec.json.decode(file.read_bytes(), type=tuple[Op, ...])


def run_job(job: Job, torch_trace: Path | None = None) -> None:
    """Build the step and run it inside ranges.

    With `torch_trace` the steps run under torch's own profiler, which writes that file; its ranges
    are then the profiler's.
    """
    import torch

    from rooflens.workloads.annotate import Ranges, annotate_modules
    from rooflens.workloads.models import load_model
    from rooflens.workloads.registry import workload

    spec = StepSpec(**job.spec)  # type: ignore[arg-type]  # StepSpec checks its fields itself
    loaded = load_model(spec, job.cache_bytes)
    step = workload(spec.workload).build(spec, loaded)
    wait = torch.cuda.synchronize if spec.device == "cuda" else _nothing
    ranges: Any = Ranges() if torch_trace is None else _ProfilerRanges()
    profiled = contextlib.nullcontext() if torch_trace is None else _torch_profiler(torch_trace)
    for _ in range(job.warmup):
        step.reset()
        with ranges.range(WARM_UP):
            step.run()
            wait()
    with profiled, annotate_modules(loaded.model, ranges), _leave_out(loaded.model, job, ranges):
        for _ in range(job.steps):
            step.reset()
            wait()
            # The step waits for the device inside its range: the range is the step's true length.
            with ranges.step():
                if job.annotation == "ops":
                    _record_step(step, loaded.model, ranges, Path(job.ops_file))
                else:
                    step.run()
                wait()
    time.sleep(SETTLE_S)


class _ProfilerRanges:
    """The ranges of `workloads.annotate.Ranges`, as torch's profiler records them."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def push(self, name: str) -> None:
        import torch

        self._open.append(torch.profiler.record_function(name))
        self._open[-1].__enter__()

    def pop(self) -> None:
        self._open.pop().__exit__(None, None, None)

    @contextlib.contextmanager
    def range(self, name: str) -> Iterator[None]:
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    def step(self) -> contextlib.AbstractContextManager[None]:
        return self.range("step")


@contextlib.contextmanager
def _torch_profiler(file: Path) -> Iterator[None]:
    from torch.profiler import profile

    with profile() as profiler:
        yield
    profiler.export_chrome_trace(str(file))


def _record_step(step: Any, model: Any, ranges: Any, ops_file: Path) -> None:
    from rooflens.harness.recorder import record
    from rooflens.reports.classify import classify

    ops = record(step.run, model, cache=step.cache, op_range=ranges.op)
    ops_file.write_bytes(msgspec.json.encode(classify(ops)))


@contextlib.contextmanager
def _leave_out(model: Any, job: Job, ranges: Any) -> Iterator[None]:
    """Open a range around each decoder layer that is not sampled; ncu's filter excludes it."""
    handles: list[Any] = []
    if job.sampled_layers is not None:
        layers = model.get_submodule("model.layers")
        for number, layer in enumerate(layers):
            if number not in job.sampled_layers:
                handles.append(layer.register_forward_pre_hook(_pusher(ranges)))
                handles.append(layer.register_forward_hook(_popper(ranges), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _pusher(ranges: Any) -> Callable[..., None]:
    def push(*_: Any) -> None:
        ranges.push(UNSAMPLED)

    return push


def _popper(ranges: Any) -> Callable[..., None]:
    def pop(*_: Any) -> None:
        ranges.pop()

    return pop


def _nothing() -> None:
    """CPU calls return when they are done."""


if __name__ == "__main__":
    wanted = Path(sys.argv[3]) if sys.argv[2:3] == ["--torch-trace"] else None
    run_job(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job), wanted)
