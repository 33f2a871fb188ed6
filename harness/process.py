"""Run another program: an argument list, never a shell string; a time limit; lines as they come.

The program gets a process group of its own, so that a time-out or Ctrl-C ends its children too:
profilers start the program that they profile as a child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rooflens.errors import ProfilerError
from rooflens.quantity import Record

KEPT_LINES = 5000
"""Of a program's output; profilers print a few lines a kernel."""
GRACE_S = 5.0
"""Between asking a process group to end and killing it."""


class Finished(Record, frozen=True, kw_only=True):
    """How a program ended. `output` is its standard output and error, in order, last lines only."""

    arguments: tuple[str, ...]
    code: int
    output: str
    seconds: float
    timed_out: bool = False

    @property
    def last_line(self) -> str:
        """The last line that says something, for messages."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing"


def run_program(
    arguments: Sequence[str],
    *,
    timeout_s: float,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a program in `folder` and wait for its end.

    `environment` replaces this process's environment when given. `on_line` sees every line of
    output when it is printed. A program that does not end in time is ended, and `timed_out` says
    so. Raises ProfilerError when it cannot be started.
    """
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            list(arguments),
            cwd=folder,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ProfilerError(f"{arguments[0]} cannot be started: {error.strerror}.") from None
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    reader = threading.Thread(target=_read_lines, args=(process, lines, on_line), daemon=True)
    reader.start()
    timed_out = False
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        # Also on Ctrl-C: nothing that we started may go on alone.
        if process.poll() is None:
            end_group(process)
    # A grandchild that lives on may hold the pipe open; its output is not ours to wait for.
    reader.join(timeout=GRACE_S)
    return Finished(
        arguments=tuple(arguments),
        code=process.returncode,
        output="".join(lines),
        seconds=time.monotonic() - start,
        timed_out=timed_out,
    )


def end_processes_with(temporary_folder: Path) -> int:
    """Kill every process whose TMPDIR is this folder; returns how many there were.

    nsys leaves an agent in a session of its own, out of reach of its process group. A private
    temporary folder, which a profiler hands on to all that it starts, marks them as ours.
    """
    mark = f"TMPDIR={temporary_folder}".encode()
    ended = 0
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            ours = mark in environment.read_bytes().split(b"\0")
        except OSError:  # another user's process, or one that has just ended
            continue
        pid = int(environment.parent.name)
        if ours and pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
    return ended


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process and all that it started: ask first, then kill."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
            return


def _read_lines(
    process: subprocess.Popen[str], lines: deque[str], on_line: Callable[[str], None] | None
) -> None:
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            lines.append(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))
