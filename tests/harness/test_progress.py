"""Progress: stages are timed everywhere and drawn only on a terminal."""

from __future__ import annotations

import io

import pytest

from rooflens.harness.progress import (
    Progress,
    TerminalProgress,
    duration_text,
    terminal_progress,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_stages_are_timed_in_order_and_print_nothing() -> None:
    out = io.StringIO()
    progress = Progress(out)
    with progress.stage("first"):
        pass
    with progress.stage("second", expected_s=3.0, steps=2):
        progress.advance()
    assert [stage.name for stage in progress.stages] == ["first", "second"]
    assert all(stage.seconds >= 0 for stage in progress.stages)
    assert out.getvalue() == ""


def test_a_stage_that_fails_is_still_closed() -> None:
    progress = TerminalProgress(Terminal())
    with pytest.raises(ValueError, match="broken"), progress.stage("work"):
        raise ValueError("broken")
    assert [stage.name for stage in progress.stages] == ["work"]


def test_terminal_shows_what_is_done_and_how_long_it_takes() -> None:
    out = Terminal()
    progress = TerminalProgress(out)
    with progress.stage("Running [the] step", expected_s=7.2, steps=4):
        progress.advance()
    assert "Running [the] step (about 7 seconds)" in out.getvalue()


def test_notes_stay_even_without_a_terminal() -> None:
    out = io.StringIO()
    Progress(out).note("Hint: slow CPU")
    assert out.getvalue() == "Hint: slow CPU\n"


def test_no_terminal_means_no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert type(terminal_progress()) is Progress
    monkeypatch.setattr("sys.stderr", Terminal())
    assert type(terminal_progress()) is TerminalProgress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (1.0, "1 second"), (59.6, "60 seconds"), (150.0, "2 minutes")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
