"""The doctor's trial of nsys: real where nsys is, planted where it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rooflens.errors import ProfilerError
from rooflens.harness import machine, ncu
from rooflens.harness.doctor import report as doctor_report
from rooflens.harness.doctor.collection import ncu_counts_known_work, nsys_records_ranges
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.harness.machine import GpuFacts
from rooflens.model import Check


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


GPU = GpuFacts(
    name="NVIDIA H200", driver="580.65.06", compute_capability="9.0",
    memory_bytes=143 << 30, mig=False,
)  # fmt: skip


def test_a_refused_counter_capture_is_a_failed_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def refuse(target: list[str], report: Path, options: Any, **_: object) -> None:
        asked.update(target=target, options=options)
        raise ProfilerError("ERR_NVGPUCTRPERM.", "Run with sudo.")

    monkeypatch.setattr(ncu, "capture", refuse)
    (check,) = ncu_counts_known_work(tmp_path, GPU)
    assert (check.id, check.outcome) == ("ncu-trial", "failed")
    assert (check.message, check.fix) == ("ERR_NVGPUCTRPERM.", "Run with sudo.")
    assert asked["target"][1:3] == ["-m", "rooflens.harness.probe_kernels"]
    # Hopper's own names, from the plan for its chip.
    assert any(name.startswith("dram__bytes") for name in asked["options"].metrics)


def test_an_unknown_gpu_is_a_failed_trial_and_no_crash(tmp_path: Path) -> None:
    unknown = msgspec.structs.replace(GPU, name="NVIDIA Q9000")
    (check,) = ncu_counts_known_work(tmp_path, unknown)
    assert check.outcome == "failed" and "Q9000" in check.message


def test_a_failed_trial_outweighs_passed_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Surroundings(
        packages={"torch": "2.13.0", "transformers": "5.24.0", "nvtx": "0.2.11"},
        torch_cuda=True, gpus=(GPU,), ncu="2025.3.1", can_profile=True,
        memory_available_bytes=16 << 30,
    )  # fmt: skip
    failed = Check(id="ncu-trial", outcome="failed", message="ncu crashed.", fix="Update ncu.")
    for trials, works in (((), True), ((failed,), False)):
        monkeypatch.setattr(doctor_report, "tiny_collections", lambda found, t=trials: t)
        levels = {level.name: level for level in doctor_report.diagnose(found).evidence}
        assert levels["counters"].works is works
    assert levels["counters"].reason == "ncu crashed"


def test_success_without_ranges_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_nsys(tmp_path, monkeypatch, "exit 0\n")
    check = nsys_records_ranges(tmp_path, "1.0")
    assert (check.outcome, "0 of 3" in check.message) == ("failed", True)
    assert "nvtx" in check.fix
