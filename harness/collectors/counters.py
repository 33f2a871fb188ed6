"""Counter evidence: the step once more under ncu, a range around every op.

Two captures: first the set that fits one pass (time, DRAM bytes, the tensor counter of the dtype),
then, where that worked, the standard set with the SASS counters, whose values fill the gaps. Before
the model is loaded, a probe of known work shows whether the counters can be believed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rooflens.errors import ProfilerError
from rooflens.harness import machine, memory, ncu
from rooflens.harness.collectors.child import step_command, step_environment, step_job
from rooflens.harness.collectors.selfcheck import copy_bytes, self_check
from rooflens.harness.execution import join_times
from rooflens.harness.plan import RunPlan
from rooflens.harness.probe_kernels import COPY, GEMM
from rooflens.harness.process import Finished
from rooflens.harness.profiled_step import UNSAMPLED, read_ops
from rooflens.harness.progress import Progress
from rooflens.model import Check, Op, Run
from rooflens.parsers.planner import MetricPlan, plan_metrics
from rooflens.reading import Reading
from rooflens.reports.format import plural
from rooflens.workloads.annotate import DOMAIN, STEP

SAMPLED_LAYERS = 3
"""First, middle and last; --layers all profiles every one."""
KERNELS_PER_OP = 1.2
START_S = 300.0
SLOWDOWN = 20.0
"""A capture that takes so much longer than estimated hangs."""
PROBE_TIMEOUT_S = 180.0


def collect_counters(plan: RunPlan, run: Run, folder: Path, progress: Progress) -> Run:
    """Profile the step and add what the counters say. Raises ProfilerError with the fix."""
    chip = run.machine.gpu_chip or _chip_of(run)
    with tempfile.TemporaryDirectory(prefix="rooflens-counters-") as scratch:
        work = Path(scratch)
        minimal = plan_metrics(chip, plan.dtype, "minimal")
        checks = list(_probe(plan, run, minimal, work, progress))
        layers = sampled_layers(plan)
        _, job = step_job(
            plan, run, work, annotation="ops", warmup=plan.options.warmup, steps=1,
            sampled_layers=layers, ops_file=str(work / "ops.json"),
        )  # fmt: skip
        readings: list[Reading] = []
        for name in ("minimal", "standard"):
            chosen = plan_metrics(chip, plan.dtype, name)
            try:
                reading, said = _capture(plan, run, chosen, job, layers, work, progress)
            except ProfilerError as error:
                if not readings:
                    raise
                checks.append(Check(
                    id="counters-second", outcome="warning", fix=error.hint,
                    message=f"FLOPs outside the tensor cores are missing: {error.message}",
                ))  # fmt: skip
                break
            readings.append(reading)
            checks += said
            shutil.copyfile(work / reading.capture.file, folder / reading.capture.file)
        return with_counter_readings(run, readings, read_ops(work / "ops.json"), checks, folder)


def sampled_layers(plan: RunPlan) -> tuple[int, ...] | None:
    """Which layers are profiled: first, middle and last, or None for all."""
    total = plan.spec.layers or plan.architecture.layers
    if plan.options.layers == "all" or total <= SAMPLED_LAYERS:
        return None
    return (0, total // 2, total - 1)


def _chip_of(run: Run) -> str:
    from rooflens.reports.theory.gpus import gpu

    found = gpu(run.machine.gpu)
    if not found.chip:
        raise ProfilerError(f"No counter list for {run.machine.gpu}.", "Name it with --gpu.")
    return found.chip


def _probe(
    plan: RunPlan, run: Run, metrics: MetricPlan, work: Path, progress: Progress
) -> tuple[Check, ...]:
    """The self-check, before minutes are spent."""
    from rooflens.parsers.ncu_report import read

    report = work / "probe.ncu-rep"
    size = copy_bytes(memory.available_bytes(plan.device))
    with progress.stage("Trying the counters on known work", 30.0):
        ncu.capture(
            [*step_command(Path(plan.dtype), main="rooflens.harness.probe_kernels"), str(size)],
            report,
            ncu.NcuOptions(
                metrics=tuple(metric.name for metric in metrics.metrics),
                nvtx_include=(f"{DOMAIN}@{GEMM}/", f"{DOMAIN}@{COPY}/"),
            ),
            timeout_s=PROBE_TIMEOUT_S,
            environment=step_environment(),
        )
    return self_check(read(report).launches, size, run.machine.last_level_cache_bytes)


def _capture(
    plan: RunPlan,
    run: Run,
    metrics: MetricPlan,
    job: Path,
    layers: tuple[int, ...] | None,
    work: Path,
    progress: Progress,
) -> tuple[Reading, tuple[Check, ...]]:
    from rooflens.parsers.ncu_report import read

    report = work / f"step-{metrics.set}.ncu-rep"
    replay = ncu.choose_replay(
        metrics.passes,
        _resident_bytes(plan, run),
        memory.available_bytes(plan.device),
        machine.memory_available_bytes(),
    )
    options = ncu.NcuOptions(
        metrics=tuple(metric.name for metric in metrics.metrics),
        replay_mode=replay.mode,
        nvtx_include=(f"{DOMAIN}@{STEP}/",),
        nvtx_exclude=(f"{DOMAIN}@{UNSAMPLED}/",) if layers else (),
    )
    expected_s = ncu.estimate_s(expected_launches(run.ops, layers), metrics.passes)
    with progress.stage(f"Profiling with ncu, set {metrics.set}", expected_s):
        done, options = _with_second_try(
            step_command(job), report, options, START_S + SLOWDOWN * expected_s, progress
        )
    reading = read(report)
    if not reading.launches:
        raise ProfilerError("ncu profiled no kernel of the step.", "Run `profile doctor`.")
    warning = ncu.warning_of(done)
    said = (Check(id="ncu-warning", outcome="warning", message=f"ncu: {warning}."),)
    regime = reading.capture.regime | {
        "replay mode": f"{options.replay_mode} ({replay.reason})",
        "clock control": options.clock_control,
        "cache control": options.cache_control,
        "layers": "all" if layers is None else ", ".join(map(str, layers)),
        "passes predicted": str(metrics.passes),
    }
    capture = msgspec.structs.replace(reading.capture, regime=regime)
    return msgspec.structs.replace(reading, capture=capture), said if warning else ()


def _with_second_try(
    target: Sequence[str],
    report: Path,
    options: ncu.NcuOptions,
    timeout_s: float,
    progress: Progress,
) -> tuple[Finished, ncu.NcuOptions]:
    """Capture; where clocks may not be locked or memory not saved, once more without that."""

    def once(chosen: ncu.NcuOptions) -> Finished:
        return ncu.capture(
            target,
            report,
            chosen,
            timeout_s=timeout_s,
            environment=step_environment(),
            on_kernel=lambda number, name: progress.advance(),
        )

    try:
        return once(options), options
    except ncu.NcuFailure as failure:
        other = ncu.second_try(options, failure)
        if other is None:
            raise
        progress.note(f"{failure.message} Trying once more without it.")
        return once(other), other


def expected_launches(ops: Sequence[Op], layers: tuple[int, ...] | None) -> int:
    """About how many kernels a capture will hold."""
    mine = [op for op in ops if layers is None or op.layer is None or op.layer in layers]
    return round(len(mine) * KERNELS_PER_OP)


def _resident_bytes(plan: RunPlan, run: Run) -> int:
    return memory.memory_need(
        plan.architecture,
        plan.spec,
        dtype=plan.dtype,
        kv_bytes_per_token=plan.theory.kv_bytes_per_token,
        shared=memory.shares_storage(plan.architecture, plan.spec, plan.dtype, run.machine),
        ops=run.ops,
    ).total


def with_counter_readings(
    run: Run,
    readings: Sequence[Reading],
    recorded: Sequence[Op],
    checks: Sequence[Check],
    folder: Path | None = None,
) -> Run:
    """A run with what counter readings of its step say.

    `recorded` are the ops of the profiled process, which its op ranges number; they are matched
    with the run's own ops in order, and a mismatch is reported. `folder` gets launches.sqlite.
    """
    from rooflens.harness.launch_store import write_launches
    from rooflens.harness.merging import merge_kernels, merge_launches
    from rooflens.reports.join.counters import with_counter_totals, with_counters
    from rooflens.reports.join.kernel_rows import kernel_rows
    from rooflens.reports.join.kernels import join_launches

    merged = merge_launches(readings)
    launches = [launch for _, launch in merged.launches]
    joined = join_launches(launches, recorded)
    counted, kernel_checks = merge_kernels(run.kernels, kernel_rows(launches, joined))
    operators = with_counters(
        run.operators, launches, joined, layers_model=run.workload.layers_model
    )
    if folder is not None:
        write_launches(folder / "launches.sqlite", merged.launches, joined)
    tools = {name: version for reading in readings for name, version in reading.tools.items()}
    said = [check for reading in readings for check in reading.checks]
    return msgspec.structs.replace(
        run,
        kernels=counted,
        operators=operators,
        totals=with_counter_totals(run.totals, operators),
        captures=(*run.captures, *(reading.capture for reading in readings)),
        tools=run.tools | {name: version for name, version in tools.items() if version},
        checks=(*run.checks, *said, *merged.checks, *kernel_checks, *checks,
                _same_step(run.ops, recorded, run.workload.layers_run)),
    )  # fmt: skip


def _same_step(counted: Sequence[Op], recorded: Sequence[Op], layers_run: int | None) -> Check:
    """Whether the profiled process made the calls that were counted."""
    _, mismatch = join_times(counted, recorded, layers_run or len(counted))
    if mismatch:
        return Check(
            id="counters-order", outcome="failed",
            message=f"The profiled step is not the counted one ({mismatch}): classes still hold, "
            "op numbers of kernels do not.",
            fix="Run both with the same versions of torch and transformers.",
        )  # fmt: skip
    message = f"The profiled step is the counted one: {plural(len(recorded), 'op')} agree in order."
    return Check(id="counters-order", outcome="passed", message=message)
