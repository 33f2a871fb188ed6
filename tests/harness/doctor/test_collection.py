"""The doctor's trial of nsys: real where nsys is, planted where it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.harness import machine
from rooflens.harness.doctor.collection import nsys_records_ranges


@pytest.mark.nsight
def test_nsys_records_our_ranges_here(tmp_path: Path) -> None:
    check = nsys_records_ranges(tmp_path, machine.profiler_version("nsys"))
    assert (check.outcome, "3 of 3" in check.message) == ("passed", True), check.message


def plant_nsys(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nsys"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_failing_nsys_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_nsys(tmp_path, monkeypatch, "echo 'perf_event_paranoid is 4.' >&2\nexit 1\n")
    check = nsys_records_ranges(tmp_path, "1.0")
    assert check.outcome == "failed"
    assert "perf_event_paranoid is 4" in check.message


def test_success_without_ranges_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_nsys(tmp_path, monkeypatch, "exit 0\n")
    check = nsys_records_ranges(tmp_path, "1.0")
    assert (check.outcome, "0 of 3" in check.message) == ("failed", True)
    assert "nvtx" in check.fix
