"""Run any command under a profiler and import what it recorded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rooflens.errors import ProfilerError, UsageError
from rooflens.harness import machine, ncu, nsys
from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import Imported, import_files
from rooflens.harness.process import Finished
from rooflens.harness.progress import Progress, terminal_progress
from rooflens.harness.writing_imports import write_import
from rooflens.model import Run
from rooflens.units import DTYPE_ALIASES

HINTS = ("gpu", "dtype", "model", "workload", "batch", "context", "prompt", "query_tokens")


@dataclass
class Wrapped:
    """An imported capture whose raw file waits in a scratch folder until it is written."""

    imported: Imported
    report: Path
    notes: tuple[str, ...]
    _scratch: tempfile.TemporaryDirectory[str]

    @property
    def run(self) -> Run:
        """The run that was made of the capture."""
        return self.imported.run

    def write(self, directory: Path, force: bool) -> None:
        """Write the run directory, with the raw report in `captures/`."""
        with self._scratch:
            write_import(self.imported, directory, [self.report], force=force, copy=True)


def wrap(options: Mapping[str, Any], progress: Progress | None = None) -> Wrapped:
    """Run `options["program"]` under the chosen tool and import the report.

    A program that fails is noted, and what was recorded until then is imported. Raises
    ProfilerError when nothing was recorded, with the fix.
    """
    program = list(options["program"])
    if shutil.which(program[0]) is None:
        raise UsageError(f'There is no program "{program[0]}".', "Give the command after `--`.")
    progress = progress or terminal_progress()
    scratch = tempfile.TemporaryDirectory(prefix="rooflens-wrap-")
    try:
        folder = Path(scratch.name)
        take = _under_nsys if options["tool"] == "nsys" else _under_ncu
        with progress.stage(f"Running {program[0]} under {options['tool']}"):
            report, done = take(program, folder, options, progress)
        notes = [] if done.code == 0 else [f"{program[0]} ended with code {done.code}."]
        hints = {name: options[name] for name in HINTS}
        command = ("profile", "wrap", "--tool", options["tool"], "--", Path(program[0]).name, "...")
        imported = import_files(
            [report],
            ImportOptions(command=command, labels=dict(options["labels"]), **hints),
        )
        _refuse_nothing(imported.run, options["tool"], done)
    except BaseException:
        scratch.cleanup()
        raise
    return Wrapped(_with_regime(imported, done), report, (*imported.found, *notes), scratch)


def _refuse_nothing(run: Run, tool: str, done: Finished) -> None:
    """Raise ProfilerError when the capture holds neither kernels nor ranges."""
    ranges = run.timeline is not None and run.timeline.ranges
    if run.kernels or run.graphs or ranges:
        return
    raise ProfilerError(
        f"{tool} recorded neither kernels nor ranges (the program ended with code {done.code}).",
        "Run the program without the profiler first; `profile doctor` says what works here.",
    )


def _with_regime(imported: Imported, done: Finished) -> Imported:
    """Say in the run how its capture was taken: profiler options, never the wrapped command."""
    flags = [word for word in done.arguments[1:] if word.startswith("--") and "/" not in word]
    captures = tuple(
        msgspec.structs.replace(
            capture, regime=capture.regime | {"profiler options": " ".join(flags)}
        )
        for capture in imported.run.captures
    )
    run = msgspec.structs.replace(imported.run, captures=captures)
    return msgspec.structs.replace(imported, run=run)


def _under_nsys(
    program: list[str], folder: Path, options: Mapping[str, Any], progress: Progress
) -> tuple[Path, Finished]:
    report = folder / "capture.nsys-rep"
    chosen = nsys.NsysOptions(
        cuda=bool(machine.gpus()),
        delay_s=options["delay"],
        duration_s=options["duration"],
        capture_range=options["capture_range"],
        nvtx_capture=options["nvtx_capture"],
        passed_on=tuple(options["option"]),
    )
    done = nsys.capture(program, report, chosen, timeout_s=options["time_limit"], folder=Path.cwd())
    return report, done


def _under_ncu(
    program: list[str], folder: Path, options: Mapping[str, Any], progress: Progress
) -> tuple[Path, Finished]:
    from rooflens.parsers.planner import plan_metrics

    report = folder / "capture.ncu-rep"
    dtype = options["dtype"] or "bfloat16"
    plan = plan_metrics(_chip(options["gpu"]), DTYPE_ALIASES.get(dtype, dtype), options["set"])
    chosen = ncu.NcuOptions(
        metrics=tuple(metric.name for metric in plan.metrics),
        clock_control=options["clock_control"],
        cache_control=options["cache_control"],
        replay_mode=options["replay_mode"],
        nvtx_include=tuple(options["nvtx_include"]),
        nvtx_exclude=tuple(options["nvtx_exclude"]),
        kernel_name=options["kernel"],
        launch_skip=options["launch_skip"],
        launch_count=options["launch_count"],
        passed_on=tuple(options["option"]),
    )
    done = ncu.capture(
        program,
        report,
        chosen,
        timeout_s=options["time_limit"],
        folder=Path.cwd(),
        on_kernel=lambda number, name: progress.advance(),
    )
    return report, done


def _chip(gpu: str | None) -> str:
    from rooflens.reports.theory.gpus import gpu as find_gpu

    names = [gpu] if gpu else [facts.name for facts in machine.gpus()]
    if not names:
        raise ProfilerError(
            "Which counters exist depends on the GPU, and none was found here.",
            "Name it: --gpu h100.",
        )
    return find_gpu(names[0]).chip
