"""Reports are exported by an installed nsys; without one, or with an older one, say so."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.errors import InputError, ProfilerError
from rooflens.parsers import nsys_rep

HEAD = b"NVIDIA Tegra Profiler Report 2025@6@1@190-256135\n"
PROGRAM = """
import time, nvtx
for s in range(2):
    nvtx.push_range("step", domain="rooflens")
    for layer in range(3):
        nvtx.push_range(f"layer {layer}", domain="rooflens")
        time.sleep(0.002)
        nvtx.pop_range(domain="rooflens")
    nvtx.pop_range(domain="rooflens")
time.sleep(1)
"""


def report(folder: Path) -> Path:
    path = folder / "a.nsys-rep"
    path.write_bytes(HEAD + b"\0" * 64)
    return path


def tool(folder: Path, script: str) -> str:
    path = folder / "nsys"
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_version_is_in_the_first_line(tmp_path: Path) -> None:
    assert nsys_rep.report_version(report(tmp_path)) == "2025.6.1"


def test_without_nsys_the_message_has_the_command(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match=r"not on the PATH.*nsys 2025\.6\.1.*nsys export"):
        nsys_rep.read(report(tmp_path), nsys=str(tmp_path / "none"))


def test_an_older_nsys_is_named_with_the_version_that_is_needed(tmp_path: Path) -> None:
    script = 'echo "Exportation error: newer than your current version (2022.4)"; exit 1'
    with pytest.raises(ProfilerError, match=r"written by nsys 2025\.6\.1.*older"):
        nsys_rep.read(report(tmp_path), nsys=tool(tmp_path, script))


def test_another_failure_shows_the_last_line_without_folders(tmp_path: Path) -> None:
    script = 'echo "Importer error in /home/alice/a.qdstrm" >&2; exit 3'
    with pytest.raises(InputError) as caught:
        nsys_rep.read(report(tmp_path), nsys=tool(tmp_path, script))
    assert "exit code 3" in str(caught.value) and "alice" not in str(caught.value)


def test_a_hanging_nsys_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_rep, "TIMEOUT_S", 0.2)
    with pytest.raises(ProfilerError, match="took longer"):
        nsys_rep.read(report(tmp_path), nsys=tool(tmp_path, "exec sleep 20"))


def test_missing_and_empty_reports(tmp_path: Path) -> None:
    (tmp_path / "empty.nsys-rep").touch()
    for name in ("none.nsys-rep", "empty.nsys-rep", "."):
        with pytest.raises(InputError):
            nsys_rep.read(tmp_path / name)


@pytest.mark.nsight
def test_a_real_capture_without_a_gpu_gives_steps_and_layers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    subprocess.run(
        ["nsys", "profile", "-t", "nvtx", "--sample", "none", "--cpuctxsw", "none", "-o",
         str(tmp_path / "cap"), sys.executable, str(program)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    reading = nsys_rep.read(tmp_path / "cap.nsys-rep")
    assert reading.capture.file == "cap.nsys-rep"
    assert len(reading.step_times_ns) == 2
    assert all(6e6 < time < 1e9 for time in reading.step_times_ns)
    assert reading.timeline is not None
    counts = {r.path: r.count for r in reading.timeline.ranges}
    assert counts == {("step",): 2, ("step", "layer *"): 6}
    assert reading.timeline.phases == ()
