"""Failures of the profilers are recognised from their own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.harness.failures import failures, recognise

OUTPUT = Path(__file__).resolve().parents[1] / "data" / "profiler-output"

REAL = {  # what ncu 2022.3 and nsys 2022.4 printed when we made them fail
    "ncu-2022.3-application-failed.txt": "application-failed",
    "ncu-2022.3-load-failed.txt": "report-unreadable",
    "ncu-2022.3-no-kernels.txt": "no-kernels",
    "ncu-2022.3-unknown-option.txt": "option-unknown",
    "ncu-2022.3-unknown-section.txt": "section-unknown",
    "nsys-2022.4-importer-missing.txt": "nsys-importer-missing",
    "nsys-2022.4-unknown-option.txt": "option-unknown",
}

REPORTED = {  # messages that are known from public reports only
    "ncu": {
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
        "Performance Counters on the target device 0.": "counter-permission",
        "==ERROR== InterprocessLockFailed": "lock-file",
        "==ERROR== Cuda driver is not compatible with Nsight Compute.": "driver-older-than-ncu",
        "==ERROR== Failed to load Nsight Compute CUDA modules": "chip-newer-than-ncu",
        "==WARNING== No ranges were profiled": "no-ranges",
        "==WARNING== Backing up device memory in system memory. \n==ERROR== UnknownError":
            "memory-backup",
        "==ERROR== Unhandled C++ exception: bad allocation": "memory-backup",
        "Failed to save memory for replay ... consider using --replay-mode application":
            "memory-save",
        "third-party Profiling module returned an unrecoverable error": "other-owner",
        "could not deploy stock section files": "section-files",
        "torch.OutOfMemoryError: CUDA out of memory.": "out-of-gpu-memory",
    },
    "nsys": {
        "Report was created in Nsight Systems version (2024.1), newer than your current version":
            "nsys-older-than-report",
        "ModuleNotFoundError: No module named 'nsysstats'": "nsys-stats-module",
        "Hardware tracing used for CUDA tracing": "nsys-hardware-tracing",
        "SKIPPED: x.sqlite does not contain CUDA kernel data.": "nsys-no-cuda-data",
    },
}  # fmt: skip


@pytest.mark.parametrize(("file", "id"), REAL.items())
def test_real_output_is_recognised(file: str, id: str) -> None:
    found = recognise(file.partition("-")[0], (OUTPUT / file).read_text("utf-8"))
    assert found is not None
    assert found.id == id
    assert found.seen == "output"


@pytest.mark.parametrize(
    ("tool", "message", "id"),
    [(t, m, id) for t, rows in REPORTED.items() for m, id in rows.items()],
)
def test_reported_messages_are_recognised(tool: str, message: str, id: str) -> None:
    found = recognise(tool, f"noise\n{message}\nnoise")
    assert found is not None
    assert found.id == id


def test_unknown_output_is_no_failure() -> None:
    assert recognise("ncu", "==PROF== Connected to process 1") is None


def test_every_row_is_whole_and_marked() -> None:
    ids = [failure.id for failure in failures()]
    assert len(ids) == len(set(ids))
    real = set(REAL.values()) | {"nsys-no-cuda-data"}
    for failure in failures():
        re.compile(failure.pattern)
        assert failure.means and failure.fix.endswith((".", ")"))
        assert failure.tool in ("ncu", "nsys", "any")
        assert failure.seen == ("output" if failure.id in real else "report")
