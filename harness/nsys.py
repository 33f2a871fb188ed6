"""Timeline captures with Nsight Systems: the command, the capture, the export, what can go wrong.

    report = capture(command_of_step, folder)       `nsys profile ...`
    export_sqlite(report)                           `nsys export --type sqlite`

A capture that ends well can still be empty, so our own ranges in it are counted afterwards
(`check_reading`): zero ranges is a named failure with its fix, never an empty report.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rooflens.errors import ProfilerError
from rooflens.harness.failures import recognise
from rooflens.harness.process import Finished, end_processes_with, run_program
from rooflens.quantity import Record
from rooflens.reading import Reading

EXPORT_TIMEOUT_S = 600.0
_NOISE = re.compile(r"\[\d+/\d+\]|Generat|\s*/|==PROF==|\s*$")
"""Lines of the profilers themselves."""
NVTX_FIX = 'pip install "nvtx==0.2.11" (newer ones are not recorded by nsys before 2024).'
INSTALL_FIX = "Install Nsight Systems (package nsight-systems), or drop --evidence timeline."


class NsysOptions(Record, frozen=True, kw_only=True):
    """What a capture records; `passed_on` are further nsys options of the user."""

    cuda: bool
    delay_s: int = 0
    duration_s: int = 0
    capture_range: str = "none"
    """none, cudaProfilerApi or nvtx."""
    nvtx_capture: str = ""
    passed_on: tuple[str, ...] = ()


def find_nsys() -> str:
    """Path of nsys. Raises ProfilerError when it is not on the PATH."""
    program = shutil.which("nsys")
    if program is None:
        raise ProfilerError("nsys is not on the PATH, so there is no timeline.", INSTALL_FIX)
    return program


def profile_arguments(
    program: str, report: Path, target: Sequence[str], options: NsysOptions
) -> list[str]:
    """The argument list of `nsys profile`. Child processes are followed (nsys does by default)."""
    traced = "cuda,nvtx,osrt" if options.cuda else "nvtx,osrt"
    arguments = [program, "profile", "-t", traced, "--sample=none", "--cpuctxsw=none"]
    if options.cuda:
        # Without node tracing a CUDA graph hides its kernels.
        arguments.append("--cuda-graph-trace=node")
    if options.delay_s:
        arguments.append(f"--delay={options.delay_s}")
    if options.duration_s:
        arguments.append(f"--duration={options.duration_s}")
    if options.capture_range != "none":
        arguments += [f"--capture-range={options.capture_range}", "--capture-range-end=stop"]
    if options.nvtx_capture:
        arguments.append(f"--nvtx-capture={options.nvtx_capture}")
    arguments += options.passed_on
    return [*arguments, "--force-overwrite=true", "-o", str(report), *target]


def capture(
    target: Sequence[str],
    report: Path,
    options: NsysOptions,
    *,
    timeout_s: float,
    attempts: int = 1,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Record `target` into `report` (a .nsys-rep), in `environment` (default: this process's)
    and `folder` (default: the report's).

    nsys 2022.4 sometimes hangs for no visible reason; with `attempts` above 1 it is then tried
    again. Raises ProfilerError with the fix when nsys fails, hangs, or leaves no report.
    """
    arguments = profile_arguments(find_nsys(), report, target, options)
    for _ in range(attempts):
        try:
            done = run_program(
                arguments,
                timeout_s=timeout_s,
                folder=folder or report.parent,
                environment=_private(environment, report.parent),
                on_line=on_line,
            )
        finally:
            end_processes_with(report.parent)
        if not done.timed_out:
            break
        report.unlink(missing_ok=True)
    if done.timed_out:
        raise ProfilerError(
            f"nsys did not end within {timeout_s:.0f} s.",
            "Give it more time (--time-limit), or capture less (--delay, --duration).",
        )
    if not report.is_file():
        raise failure_of(done, "nsys wrote no report")
    return done


def _private(environment: Mapping[str, str] | None, folder: Path) -> dict[str, str]:
    """The environment with a temporary folder of its own: locks of other users are not in it."""
    return dict(os.environ if environment is None else environment) | {"TMPDIR": str(folder)}


def check_program(done: Finished) -> None:
    """Raise ProfilerError when the program under the profiler failed (its code is passed on)."""
    if done.code:
        lines = [x for x in done.output.splitlines() if x and not _NOISE.match(x)]
        said = lines[-1] if lines else "it printed nothing"
        raise ProfilerError(
            f"The step failed under the profiler (code {done.code}): {said}.",
            "Run it without --evidence first.",
        )


def export_sqlite(report: Path) -> Path:
    """Export a report to SQLite beside it. Raises ProfilerError with the fix."""
    target = report.with_suffix(".sqlite")
    done = run_program(
        [find_nsys(), "export", "--type=sqlite", "--force-overwrite=true", "-o", str(target),
         str(report)],
        timeout_s=EXPORT_TIMEOUT_S,
        folder=report.parent,
        environment=_private(None, report.parent),
    )  # fmt: skip
    if done.timed_out or not target.is_file():
        raise failure_of(done, "nsys could not export its report")
    return target


def failure_of(done: Finished, what: str) -> ProfilerError:
    """The error for a run of nsys that failed: by its own words where they are known."""
    known = recognise("nsys", done.output)
    if known is not None:
        return ProfilerError(f"{what}: {known.means}.", known.fix)
    ended = f"it ended with code {done.code}: {done.last_line}"
    return ProfilerError(f"{what}; {ended}", "Run `profile doctor`.")


def check_reading(reading: Reading, steps: int, cuda: bool) -> None:
    """Raise ProfilerError when a capture of our own step misses what it was made for."""
    timeline = reading.timeline
    found = 0 if timeline is None else len(timeline.steps)
    if timeline is None or not timeline.ranges:
        raise ProfilerError("The capture holds none of our NVTX ranges.", NVTX_FIX)
    if found < steps:
        raise ProfilerError(
            f"The capture holds {found} of {steps} steps: nsys lost ranges.",
            "Run it again; with nsys 2022.4 a busy machine can lose the last ranges.",
        )
    if cuda and not reading.kernels and not reading.graphs:
        raise ProfilerError(
            "The capture holds no kernels although the step ran on the GPU.",
            "WSL2, MIG and some driver and nsys pairs record none: run `profile doctor`.",
        )
