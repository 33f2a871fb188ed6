"""What a long run is doing and how long that takes, on standard error.

Stages are always timed; they are drawn only when standard error is a terminal, so that pipes, CI
logs and `--format json` stay clean. Notes (a hint, a fallback) are printed everywhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rooflens.quantity import Record
from rooflens.reports.format import plural, time_text
from rooflens.units import seconds_to_ns

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class StageTime(Record, frozen=True, kw_only=True):
    """How long one finished stage took."""

    name: str
    seconds: float
    cpu_seconds: float
    """User and system time of all threads; unlike `seconds`, other programs do not lengthen it."""


class Progress:
    """Times stages and shows nothing: for libraries, tests and output that is not a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out if out is not None else sys.stderr
        self.stages: list[StageTime] = []

    @contextmanager
    def stage(self, name: str, expected_s: float | None = None, steps: int = 0) -> Iterator[None]:
        """Time a stage. `expected_s` is shown beside it; `steps` are counted by `advance`."""
        start, cpu = time.perf_counter(), time.process_time()
        self._begin(name, expected_s, steps)
        try:
            yield
        finally:
            self._end()
            self.stages.append(
                StageTime(
                    name=name,
                    seconds=time.perf_counter() - start,
                    cpu_seconds=time.process_time() - cpu,
                )
            )

    def advance(self) -> None:
        """One of the stage's steps is done."""

    def note(self, text: str) -> None:
        """Print a line that stays."""
        print(text, file=self.out, flush=True)

    def _begin(self, name: str, expected_s: float | None, steps: int) -> None:
        """Show that a stage began."""

    def _end(self) -> None:
        """Stop showing it."""


class TerminalProgress(Progress):
    """Draws the running stage with a spinner; the line goes away when the stage ends."""

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__(out)
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def advance(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)
            self._bar.refresh()

    def note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            super().note(text)

    def _begin(self, name: str, expected_s: float | None, steps: int) -> None:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if steps > 1:
            columns.append(MofNCompleteColumn())
        self._bar = Bar(
            *columns,
            TimeElapsedColumn(),
            console=Console(file=self.out),
            transient=True,
            # A stage with steps is being timed: it is drawn between its steps, never during one.
            auto_refresh=not steps,
        )
        self._task = self._bar.add_task(_described(name, expected_s), total=steps or None)
        self._bar.start()
        self._bar.refresh()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None


def terminal_progress() -> Progress:
    """Draw when standard error is a terminal, else only time."""
    return TerminalProgress() if sys.stderr.isatty() else Progress()


def _described(name: str, expected_s: float | None) -> str:
    if expected_s is None or expected_s < 1:
        return name
    return f"{name} (about {duration_text(expected_s)})"


def duration_text(seconds: float) -> str:
    """A duration as a person says it: `7 seconds`, `3 minutes`; below one second exactly."""
    if seconds < 1:
        return time_text(seconds_to_ns(seconds))
    if seconds < 100:
        return plural(round(seconds), "second")
    return plural(round(seconds / 60), "minute")
