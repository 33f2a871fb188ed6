"""Run two Python environments alternately, so that a drift of the machine hits both alike.

    head, base, base, head, head, base, ...      every run in a process of its own

The runs of one session carry the labels `interleave` (the session) and `round`; `profile diff`
compares such runs in pairs. The order flips every round, so that a steady drift cancels.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rooflens.errors import ProfilerError, UsageError
from rooflens.reports.compare.times import GROUP_LABEL, ROUND_LABEL
from rooflens.runfile import next_run_directory

PARENT = Path("rooflens-runs")
MIN_ROUNDS = 6
"""Fewer pairs can never show a difference at alpha 0.05."""
TIMEOUT_S = 3600
_WITH_VALUE = ("--interleave", "--rounds", "-o", "--output", "--format")
_FLAGS = ("--force", "--json")


@dataclass(frozen=True)
class InterleavePlan:
    """Two interpreters, what they run, and where the runs go."""

    base_python: Path
    """The other environment: what the change is compared with."""
    head_python: Path
    arguments: tuple[str, ...]
    """Arguments of `profile run`, without output options."""
    rounds: int
    output: Path
    timeout_s: float = TIMEOUT_S


def find_python(environment: Path) -> Path:
    """The interpreter of a virtual environment, or `environment` itself when it is one.

    Raises UsageError when there is none.
    """
    if environment.is_file():
        return environment.absolute()
    for inside in ("bin/python", "bin/python3", "Scripts/python.exe"):
        if (environment / inside).is_file():
            # Not resolved: the link's own place is what makes it this environment.
            return (environment / inside).absolute()
    raise UsageError(
        f"--interleave {environment}: no Python environment there.",
        "Give the folder of a virtual environment, or its bin/python.",
    )


def run_arguments(command_line: Sequence[str]) -> tuple[str, ...]:
    """What follows `profile` on the command line, without the options that interleaving sets."""
    kept: list[str] = []
    skip = False
    for argument in command_line:
        if skip:
            skip = False
        elif argument in _WITH_VALUE:
            skip = True
        elif not _is_ours(argument):
            kept.append(argument)
    return tuple(kept)


def _is_ours(argument: str) -> bool:
    """An option that interleaving sets, with its value in the same word (or without one)."""
    if argument in _FLAGS or argument.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
        return True
    return argument.startswith("-o") and not argument.startswith("--")


def make_plan(
    other: Path, command_line: Sequence[str], rounds: int, output: Path
) -> InterleavePlan:
    """Plan a session from the command line of `profile run`.

    Raises UsageError for too few rounds, a missing environment, or an output that has runs in it.
    """
    if rounds < MIN_ROUNDS:
        raise UsageError(
            f"--rounds {rounds}: {MIN_ROUNDS} is the least that can show a difference of times."
        )
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} exists and is not empty.", "Use another -o.")
    return InterleavePlan(
        base_python=find_python(other),
        head_python=Path(sys.executable),
        arguments=run_arguments(command_line),
        rounds=rounds,
        output=output,
    )


def interleave(
    plan: InterleavePlan, say: Callable[[str], None] = lambda text: None
) -> tuple[Path, Path]:
    """Run all rounds; returns the folders of the base's and of the head's runs.

    Raises ProfilerError with the child's own message when a run fails; the runs that were made
    before stay.
    """
    session = uuid.uuid4().hex[:12]
    width = len(str(plan.rounds))
    for number in range(1, plan.rounds + 1):
        order = ("base", "head") if number % 2 == 0 else ("head", "base")
        for side in order:
            say(f"Round {number} of {plan.rounds}: {side}")
            directory = plan.output / side / f"round-{number:0{width}d}"
            _run(plan, side, directory, session, number)
    return plan.output / "base", plan.output / "head"


def _run(plan: InterleavePlan, side: str, directory: Path, session: str, number: int) -> None:
    python = plan.base_python if side == "base" else plan.head_python
    command = [
        # -P: a checkout in the working directory must not stand in for what is installed.
        str(python), "-P", "-m", "rooflens", *plan.arguments,
        "-o", str(directory.absolute()),
        "--label", f"{GROUP_LABEL}={session}", "--label", f"{ROUND_LABEL}={number}",
    ]  # fmt: skip
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ProfilerError(f"Cannot start {python}: {error.strerror or error}.") from None
    try:
        _, errors = child.communicate(timeout=plan.timeout_s)
    except subprocess.TimeoutExpired:
        raise ProfilerError(
            f"A run of the {side} took longer than {plan.timeout_s:g} s and was stopped.",
            "Use fewer --steps or --layers.",
        ) from None
    finally:
        # Also on Ctrl-C: no child may outlive the session.
        if child.poll() is None:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=10)
    if child.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("profile: ") if lines else f"exit code {child.returncode}"
        raise ProfilerError(
            f"Round {number} of the {side} failed: {last}",
            f"Is Rooflens installed there? Try: {python} -P -m rooflens doctor",
        )


def interleave_command(
    other: Path, command_line: Sequence[str], rounds: int, output: Path | None
) -> str:
    """`profile run --interleave`: run all rounds, then say what differs.

    Without an `output`, the runs go to a new folder below `rooflens-runs/`.
    """
    from rooflens.harness.progress import terminal_progress
    from rooflens.harness.run_sets import read_runs
    from rooflens.reports.compare import Options, compare
    from rooflens.reports.compare.renderers import render

    folder = output if output is not None else next_run_directory(PARENT, "interleaved")
    plan = make_plan(other, command_line, rounds, folder)
    progress = terminal_progress()
    sides = interleave(plan, progress.note)
    comparison = compare(read_runs([sides[0]]), read_runs([sides[1]]), Options())
    again = f"profile diff {sides[0]} {sides[1]}"
    return f"{render(comparison, (), 'text')}\nWrote {folder} (again: {again})\n"
