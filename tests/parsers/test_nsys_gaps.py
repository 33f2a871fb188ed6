"""Idle stretches of a step: their likely cause, and host-bound or device-bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.model import Timeline
from rooflens.parsers import nsys_sqlite
from tests.captures import THREAD, ExportFile

US = 1000


def step(end: int) -> ExportFile:
    export = ExportFile()
    export.domain(3, "rooflens")
    export.range(0, end, "step", domain=3)
    return export


def read(export: ExportFile, folder: Path) -> Timeline:
    found = nsys_sqlite.read(export.write(folder / "a.sqlite")).timeline
    assert found is not None
    return found


def causes(found: Timeline) -> list[tuple[float, float, str]]:
    return [(gap.start_ns / US, gap.duration_ns / US, gap.cause) for gap in found.gaps]


def test_host_work_names_the_call_and_the_range(tmp_path: Path) -> None:
    export = step(110 * US)
    export.range(60 * US, 90 * US, "sample", domain=3)
    export.launch(0, 0, 20 * US, "a")
    export.launch(70 * US, 75 * US, 110 * US, "b")
    assert causes(read(export, tmp_path)) == [
        (20, 55, "host work before cudaLaunchKernel in sample")
    ]


def test_a_synchronisation_under_the_gap_is_its_cause(tmp_path: Path) -> None:
    export = step(100 * US)
    export.launch(0, 0, 20 * US, "a")
    export.call(10 * US, 60 * US, 99, "cudaStreamSynchronize_v3020")
    export.launch(62 * US, 65 * US, 100 * US, "b")
    assert causes(read(export, tmp_path)) == [
        (20, 45, "host in cudaStreamSynchronize (synchronisation) in step")
    ]


def test_another_threads_calls_are_no_cause(tmp_path: Path) -> None:
    export = step(100 * US)
    export.launch(0, 0, 20 * US, "a")
    export.call(10 * US, 60 * US, 99, "cudaMalloc_v3020", thread=THREAD + 1)
    export.launch(62 * US, 65 * US, 100 * US, "b")
    assert causes(read(export, tmp_path))[0][2] == "host work before cudaLaunchKernel in step"


def test_latency_dependencies_and_graphs_are_told_apart(tmp_path: Path) -> None:
    export = step(400 * US)
    export.launch(0, 0, 20 * US, "a")
    export.launch(21 * US, 30 * US, 60 * US, "late")
    export.launch(22 * US, 100 * US, 120 * US, "waits")
    export.launch(23 * US, 123 * US, 200 * US, "next")
    export.call(24 * US, 26 * US, 50, "cudaGraphLaunch_v10000")
    export.kernel(210 * US, 300 * US, "n1", correlation=50, node=1)
    export.kernel(302 * US, 400 * US, "n2", correlation=50, node=2)
    assert [cause for *_, cause in causes(read(export, tmp_path))] == [
        "launch latency of cudaLaunchKernel",
        "the next work was launched, but waited: a stream or event dependency",
        "from one kernel to the next, both launched before",
        "the next work was launched, but waited: a stream or event dependency",
        "between kernels of one CUDA graph",
    ]


def test_work_on_any_stream_fills_a_gap(tmp_path: Path) -> None:
    export = step(100 * US)
    export.launch(0, 0, 50 * US, "a")
    export.launch(1 * US, 40 * US, 100 * US, "b", stream=9)
    assert causes(read(export, tmp_path)) == []


@pytest.mark.parametrize(
    ("pitch", "early", "bound"), [(20, False, "host"), (10, True, "device"), (12, False, "")]
)
def test_the_verdict(tmp_path: Path, pitch: int, early: bool, bound: str) -> None:
    """Kernels of 10 us, launched just in time (host-bound when far apart) or long before."""
    export = step(100 * pitch * US)
    for i in range(100):
        start = i * pitch * US
        at = i * US // 100 if early else max(start - 3 * US, 0)
        export.launch(at, start, start + 10 * US, f"k{i % 3}")
    found = read(export, tmp_path)
    assert found.bound == bound
    assert f"idle {(pitch - 10) / pitch:.0%} of the step" in found.bound_reason


def test_waiting_for_the_device_is_not_host_bound(tmp_path: Path) -> None:
    export = step(2000 * US)
    for i in range(100):
        export.launch(i * 100, i * 20 * US, i * 20 * US + 10 * US, "k")
    found = read(export, tmp_path)
    assert found.bound == ""
    assert "not for want of launches" in found.bound_reason


def test_a_capture_without_steps_has_gaps_but_no_verdict(tmp_path: Path) -> None:
    export = ExportFile()
    export.launch(0, 0, 20 * US, "a")
    export.launch(70 * US, 75 * US, 110 * US, "b")
    found = read(export, tmp_path)
    assert found.bound == ""
    assert found.bound_reason.startswith("no steps were found; the device is idle 50% of the")
    assert causes(found) == [(20, 55, "host work before cudaLaunchKernel")]


def test_reads_of_a_few_bytes_are_named(tmp_path: Path) -> None:
    export = step(100 * US)
    export.launch(0, 0, 20 * US, "a")
    export.call(21 * US, 30 * US, 77, "cudaMemcpyAsync_v3020")
    export.copy(28 * US, 29 * US, kind=2, correlation=77, bytes=4)
    facts = read(export, tmp_path).facts
    assert any("at most 8 bytes to the host" in fact and fact.endswith("1.") for fact in facts)
