"""Timeline evidence: the step once more, under nsys, or under torch's profiler where nsys is not.

On a CPU-only machine the capture holds our NVTX ranges with host times and no kernels; that is what
it is then used for. On a GPU kernels, launches and gaps come from it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from rooflens.errors import ProfilerError
from rooflens.harness import nsys
from rooflens.harness.collectors.child import step_command, step_environment, step_job
from rooflens.harness.plan import RunPlan
from rooflens.harness.process import run_program
from rooflens.harness.progress import Progress
from rooflens.model import Check, KernelRow, Run
from rooflens.reading import Reading

START_S = 60.0
"""Imports, weights and nsys' own start-up, on a slow machine."""
SLOWDOWN = 10.0
"""A step under a profiler that takes longer than this many plain steps hangs."""
NO_KERNEL_CHECKS = ("timeline-kernels",)
"""Checks about missing kernels, which say nothing where no GPU was used."""
FALLBACK = (
    "nsys or the nvtx package is missing: times are from torch's profiler (Kineto), "
    "without OS ranges."
)
FALLBACK_FIX = (
    "Install Nsight Systems and nvtx for launches, OS calls and CUDA-graph nodes as well."
)


def collect_timeline(plan: RunPlan, run: Run, folder: Path, progress: Progress) -> Run:
    """Capture the step and add what the timeline says. Raises ProfilerError with the fix."""
    with tempfile.TemporaryDirectory(prefix="rooflens-timeline-") as scratch:
        reading, raw, checks = _captured(plan, run, Path(scratch), progress)
        for file in raw:
            shutil.copyfile(file, folder / file.name)
    return with_timeline(run, reading, checks)


def with_timeline(run: Run, reading: Reading, checks: Sequence[Check] = ()) -> Run:
    """A run with what one timeline reading of its step says.

    Step times stay those of the undisturbed steps when there are any.
    """
    from rooflens.reports.join.counters import with_classes
    from rooflens.reports.join.timeline import kernel_time_by_class, with_times

    operators = run.operators
    kernels = _joined(run, reading)
    if kernels:
        times = kernel_time_by_class(kernels)
        roof = run.roofs[0] if run.roofs else None
        operators = with_times(with_classes(operators, times), times, roof)
    on_gpu = run.machine.device == "cuda"
    said = [c for c in reading.checks if on_gpu or c.id not in NO_KERNEL_CHECKS]
    return msgspec.structs.replace(
        run,
        timeline=reading.timeline,
        kernels=kernels,
        graphs=reading.graphs,
        operators=operators,
        step_times_ns=run.step_times_ns or reading.step_times_ns,
        captures=(*run.captures, reading.capture),
        tools=run.tools | {name: version for name, version in reading.tools.items() if version},
        checks=(*run.checks, *said, *checks),
    )


def _joined(run: Run, reading: Reading) -> tuple[KernelRow, ...]:
    """Kernel rows with the ops that their NVTX path, order or name leads to.

    Single launches know their layer and their place in the step; rows are over all layers.
    """
    from rooflens.reports.join.kernel_rows import kernel_rows
    from rooflens.reports.join.kernels import join_launches
    from rooflens.reports.join.timeline import join_step

    if reading.launches:
        return kernel_rows(reading.launches, join_step(reading.launches, run.ops))
    kernels = reading.kernels
    joined = join_launches(kernels, run.ops)
    return tuple(
        msgspec.structs.replace(row, join=to.join, op_class=to.op_class)
        for row, to in zip(kernels, joined, strict=True)
    )


def _captured(
    plan: RunPlan, run: Run, scratch: Path, progress: Progress
) -> tuple[Reading, tuple[Path, ...], tuple[Check, ...]]:
    steps = plan.options.steps
    _, job = step_job(
        plan, run, scratch, annotation="modules", warmup=plan.options.warmup, steps=steps
    )
    limit_s = _time_limit_s(run, plan.options.warmup + steps)
    if shutil.which("nsys") is None or find_spec("nvtx") is None:
        with progress.stage("Recording the step with torch's profiler", limit_s / SLOWDOWN):
            reading, trace = _torch_trace(job, scratch, limit_s)
        note = Check(id="timeline-fallback", outcome="warning", message=FALLBACK, fix=FALLBACK_FIX)
        return reading, (trace,), (note,)
    with progress.stage("Recording the step with nsys", limit_s / SLOWDOWN):
        reading, report = _nsys(job, scratch, plan.device == "cuda", limit_s)
    nsys.check_reading(reading, steps, plan.device == "cuda")
    return reading, (report,), ()


def _time_limit_s(run: Run, steps: int) -> float:
    step_s = max(run.step_times_ns, default=1e9) / 1e9
    return START_S * 3 + SLOWDOWN * step_s * steps


def _nsys(job: Path, scratch: Path, cuda: bool, limit_s: float) -> tuple[Reading, Path]:
    from rooflens.parsers.nsys_sqlite import read

    report = scratch / "step.nsys-rep"
    done = nsys.capture(
        step_command(job),
        report,
        nsys.NsysOptions(cuda=cuda),
        timeout_s=limit_s,
        attempts=2,
        environment=step_environment(),
    )
    nsys.check_program(done)
    reading = read(nsys.export_sqlite(report))
    capture = msgspec.structs.replace(
        reading.capture, file=report.name, regime=reading.capture.regime | _regime(done.arguments)
    )
    return msgspec.structs.replace(reading, capture=capture), report


def _regime(arguments: Sequence[str]) -> dict[str, str]:
    """The profiler's own options, without paths."""
    options = [a for a in arguments[1:] if a.startswith("-t") or "=" in a]
    traced = arguments[arguments.index("-t") + 1]
    return {"command": " ".join(["nsys profile -t", traced, *(o for o in options if o != "-t")])}


def _torch_trace(job: Path, scratch: Path, limit_s: float) -> tuple[Reading, Path]:
    from rooflens.parsers.torch_trace import read

    trace = scratch / "step.trace.json.gz"
    done = run_program(
        [*step_command(job), "--torch-trace", str(trace)],
        timeout_s=limit_s,
        folder=scratch,
        environment=step_environment(),
    )
    if done.timed_out:
        raise ProfilerError(f"torch's profiler did not end within {limit_s:.0f} s.", "Try again.")
    nsys.check_program(done)
    return read(trace), trace
