"""Counter captures with Nsight Compute: the command, replay, progress, what can go wrong.

    options = NcuOptions(metrics=..., nvtx_include=("rooflens@step/",))
    capture(command_of_step, report, options, timeout_s=600)

Arguments are a list and never a shell string: quotes inside a filter silently match nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rooflens.errors import ProfilerError, UsageError
from rooflens.harness.failures import recognise
from rooflens.harness.process import Finished, run_program
from rooflens.quantity import Record

GRAPH_PROFILING_SINCE = (2023, 1)
"""--graph-profiling came with this release; older ones see graphs as nodes anyway."""
PASS_S = 0.02
LAUNCH_S = 0.05
"""For an estimate only: public reports speak of about a minute per 100 kernels at 30 passes."""
HOST_SHARE = 0.8
"""Of the free host memory that a save of GPU memory may take."""
INSTALL_FIX = "Install Nsight Compute (package nsight-compute), or drop --evidence counters."
_PROFILING = re.compile(r'==PROF== Profiling "(?P<name>.+?)"(?: - (?P<number>\d+))?')
_VERSION = re.compile(r"Version (\d{4})\.(\d+)")


class NcuOptions(Record, frozen=True, kw_only=True):
    """What a capture collects and of which kernels."""

    metrics: tuple[str, ...] = ()
    clock_control: str = "base"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    nvtx_include: tuple[str, ...] = ()
    nvtx_exclude: tuple[str, ...] = ()
    kernel_name: str = ""
    launch_skip: int = 0
    launch_count: int = 0
    """0 is all."""
    passed_on: tuple[str, ...] = ()
    """Further ncu options of the user."""


class Replay(Record, frozen=True, kw_only=True):
    """How kernels are repeated for further passes, and why so."""

    mode: str
    reason: str


class NcuFailure(ProfilerError):
    """ncu failed; `known` is the row of failures.toml that its output matched, if one did."""

    def __init__(self, message: str, hint: str, known: str = "") -> None:
        super().__init__(message, hint)
        self.known = known


WITHOUT: dict[str, dict[str, str]] = {
    "clock-control": {"clock_control": "none"},
    "memory-save": {"replay_mode": "application"},
    "memory-backup": {"replay_mode": "application"},
}
"""Known failures after which a second try with other options makes sense."""


def second_try(options: NcuOptions, failure: NcuFailure) -> NcuOptions | None:
    """Options for another try after a failure that they avoid, or None when there is none."""
    changes = WITHOUT.get(failure.known)
    if changes is None:
        return None
    other = msgspec.structs.replace(options, **changes)
    return None if other == options else other


def find_ncu() -> str:
    """Path of ncu. Raises ProfilerError when it is not on the PATH."""
    program = shutil.which("ncu")
    if program is None:
        raise ProfilerError("ncu is not on the PATH, so there are no counters.", INSTALL_FIX)
    return program


def installed_version(program: str, folder: Path) -> tuple[int, int] | None:
    """(year, release) of an ncu, or None when it does not say."""
    done = run_program([program, "--version"], timeout_s=60, folder=folder)
    found = _VERSION.search(done.output)
    return (int(found[1]), int(found[2])) if found else None


def profile_arguments(
    program: str,
    version: tuple[int, int] | None,
    report: Path,
    target: Sequence[str],
    options: NcuOptions,
) -> list[str]:
    """The argument list of a capture. Raises UsageError for a filter that can match nothing."""
    arguments = [program, "--target-processes", "all"]
    if version is None or version >= GRAPH_PROFILING_SINCE:
        arguments += ["--graph-profiling", "node"]
    arguments += ["--clock-control", options.clock_control]
    arguments += ["--cache-control", options.cache_control]
    arguments += ["--replay-mode", options.replay_mode]
    if options.nvtx_include or options.nvtx_exclude:
        arguments.append("--nvtx")
    for flag, filters in (
        ("--nvtx-include", options.nvtx_include),
        ("--nvtx-exclude", options.nvtx_exclude),
    ):
        for pattern in filters:
            refuse_bad_filter(pattern)
            arguments += [flag, pattern]
    if options.kernel_name:
        arguments += ["--kernel-name", options.kernel_name]
    if options.launch_skip:
        arguments += ["--launch-skip", str(options.launch_skip)]
    if options.launch_count:
        arguments += ["--launch-count", str(options.launch_count)]
    if options.metrics:
        arguments += ["--metrics", ",".join(options.metrics)]
    arguments += options.passed_on
    # ncu adds .ncu-rep itself.
    stem = str(report).removesuffix(".ncu-rep")
    return [*arguments, "--force-overwrite", "-o", stem, *target]


def refuse_bad_filter(pattern: str) -> None:
    """Raise UsageError for NVTX filters that ncu takes and that match nothing."""
    if pattern[:1] in "\"'" or pattern[-1:] in "\"'":
        raise UsageError(
            f"The NVTX filter {pattern} has quotes of its own.",
            "The shell's quotes are enough: --nvtx-include 'step/'.",
        )
    if pattern.startswith("<default domain>:"):
        bare = pattern.partition(":")[2]
        raise UsageError(
            f'"{pattern}" is how ncu prints a range, not how it is asked for.',
            f'Write "{bare}/" for a push/pop range of the default domain.',
        )
    if ";" in pattern:
        raise UsageError(
            f'The NVTX filter "{pattern}" holds several patterns.', "Give the option once for each."
        )


def choose_replay(
    passes: int, resident_bytes: int, free_device_bytes: int | None, free_host_bytes: int | None
) -> Replay:
    """Kernel replay where GPU memory can be saved for it, else application replay.

    One pass needs no save. For more, ncu keeps a copy of what a kernel may write, on the device
    when it fits there and else on the host.
    """
    if passes <= 1:
        return Replay(mode="kernel", reason="one pass needs no save and restore")
    room = max(free_device_bytes or 0, int((free_host_bytes or 0) * HOST_SHARE))
    if free_device_bytes is None and free_host_bytes is None:
        return Replay(mode="kernel", reason="free memory is not known")
    if resident_bytes <= room:
        return Replay(mode="kernel", reason=f"a copy of {resident_bytes:,} bytes fits")
    return Replay(
        mode="application",
        reason=f"a copy of {resident_bytes:,} bytes fits neither on the GPU nor in host memory",
    )


def estimate_s(launches: int, passes: int) -> float:
    """About how long profiling takes, without the program's own start (seconds)."""
    return launches * (LAUNCH_S + passes * PASS_S)


def capture(
    target: Sequence[str],
    report: Path,
    options: NcuOptions,
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    on_kernel: Callable[[int, str], None] | None = None,
) -> Finished:
    """Profile `target` into `report` (a .ncu-rep).

    `on_kernel` is told the number and name of each kernel when its profiling begins. ncu gets a
    temporary folder of its own, because its lock file there may belong to another user. Raises
    ProfilerError with the fix when ncu fails, hangs (the kernel is named), or leaves no report.
    """
    program = find_ncu()
    version = installed_version(program, report.parent)
    arguments = profile_arguments(program, version, report, target, options)
    seen = _Kernels(on_kernel)
    given = dict(os.environ if environment is None else environment)
    done = run_program(
        arguments,
        timeout_s=timeout_s,
        folder=folder or report.parent,
        environment=given | {"TMPDIR": str(report.parent)},
        on_line=seen.line,
    )
    if done.timed_out:
        raise ProfilerError(
            f"ncu did not end within {timeout_s:.0f} s{seen.where}.",
            "Collectives hang under replay: leave them out (--kernel-name 'regex:^(?!nccl)'), "
            "or give it more time (--time-limit).",
        )
    if not report.is_file():
        raise failure_of(done)
    return done


class _Kernels:
    """Follows ncu's progress lines."""

    def __init__(self, told: Callable[[int, str], None] | None) -> None:
        self._told = told
        self.count = 0
        self.last = ""

    def line(self, text: str) -> None:
        found = _PROFILING.search(text)
        if found is None:
            return
        self.count += 1
        self.last = found["name"]
        if self._told is not None:
            self._told(self.count, self.last)

    @property
    def where(self) -> str:
        return f'; the last kernel was number {self.count}, "{self.last[:80]}"' if self.last else ""


def failure_of(done: Finished) -> NcuFailure:
    """The error for a run of ncu that failed: by its own words where they are known."""
    known = recognise("ncu", done.output)
    if known is not None:
        still = f" Still possible: {known.still}." if known.still else ""
        return NcuFailure(f"ncu: {known.means}.", f"{known.fix}{still}", known.id)
    return NcuFailure(
        f"ncu wrote no report; it ended with code {done.code}: {done.last_line}",
        "Run `profile doctor`.",
    )


def warning_of(done: Finished) -> str:
    """What a run that left a report complained about, in known words; else nothing."""
    known = recognise("ncu", done.output)
    return known.means if known is not None else ""
