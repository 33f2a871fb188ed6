"""Public captures against NVIDIA's own numbers: golden `nsys stats` outputs, and nsys itself."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rooflens.parsers import nsys_sqlite, nsys_stats
from rooflens.parsers.timeline.launches import link
from rooflens.parsers.timeline.trace import COPY, GRAPH, KERNEL, MEMSET, Trace
from rooflens.reading import Reading

pytestmark = pytest.mark.conformance

MANIFEST_KERNELS = {
    "cutlass-A40A100-2024": (6, 162_000_609),
    "flashfwd-nvjet-nccl-2xH100-2026.2.1": (3587, 488_835_406),
    "llmc-runtimeonly-T4-2023.4.4": (0, 0),
    "lm-attn-RTX5000Ada-win-2026.2.1": (4485, 34_869_183),
    "lm-nonvtx-A100-2024.6.2": (2768, 57_630_704),
    "lm2.7B-cudagraph-A100-2024.6.2": (30, 78_270),
    "lm2.7B-nvtx-A100-2024.6.2": (7328, 3_408_380_989),
    "nocuda-RTX4060Ti-2024.6.2": (0, 0),
    "nokernels-RTX5060Ti-2025.1.3": (0, 0),
    "nvfuser-nvjet-H100-2024.6.2": (19, 402_301),
    "poweriter-T4-2025.3.1": (3689, 1_131_742_684),
    "reduce-RTX3060-2023.3.3": (1, 1_042_014_582),
    "reduced-2026.1.1": (400, 400_000_000),
    "sglang-prefill-A100-2023.4.4": (122, 500_957),
}
"""Kernels and their total time as MANIFEST.tsv rounds them; the ns by an SQL sum of the tables."""
GOLDEN = [
    "flashfwd-nvjet-nccl-2xH100-2026.2.1",
    "lm2.7B-cudagraph-A100-2024.6.2",
    "lm2.7B-nvtx-A100-2024.6.2",
    "sglang-prefill-A100-2023.4.4",
]
PROJECTED = ["flashfwd-nvjet-nccl-2xH100-2026.2.1", "lm2.7B-nvtx-A100-2024.6.2"]
NSYS_2022_OPENS = [
    "cutlass-A40A100-2024",
    "poweriter-T4-2025.3.1",
    "nvfuser-nvjet-H100-2024.6.2",
    "lm-attn-RTX5000Ada-win-2026.2.1",
]


def sqlite(nsight: Path, stem: str) -> Path:
    return nsight / "nsys-sqlite" / f"{stem}.sqlite"


def golden(nsight: Path, report: str, stem: str) -> list[dict[str, str]]:
    path = nsight / "nsys-csv" / f"gen-{report}-{stem}.csv"
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def sums(reading: Reading) -> dict[str, tuple[int, int]]:
    """Name -> launches and total ns. Means x counts are exact up to rounding of a float."""
    found: dict[str, tuple[int, float]] = {}
    for row in reading.kernels:
        assert row.duration_ns.value is not None
        count, time = found.get(row.name, (0, 0.0))
        found[row.name] = (count + row.count, time + row.count * float(row.duration_ns.value))
    return {name: (count, round(time)) for name, (count, time) in found.items()}


def test_every_export_is_in_the_table(nsight: Path) -> None:
    assert {p.stem for p in (nsight / "nsys-sqlite").glob("*.sqlite")} == set(MANIFEST_KERNELS)


@pytest.mark.parametrize("stem", sorted(MANIFEST_KERNELS))
def test_kernel_count_and_total_time(nsight: Path, stem: str) -> None:
    made = sums(nsys_sqlite.read(sqlite(nsight, stem)))
    count, time = sum(c for c, _ in made.values()), sum(t for _, t in made.values())
    assert (count, time) == MANIFEST_KERNELS[stem]


@pytest.mark.parametrize("stem", GOLDEN)
def test_sums_by_name_equal_nsys_stats(nsight: Path, stem: str) -> None:
    expected = {
        row["Name"]: (int(row["Instances"]), int(row["Total Time (ns)"]))
        for row in golden(nsight, "cuda_gpu_kern_sum", stem)
    }
    assert sums(nsys_sqlite.read(sqlite(nsight, stem))) == expected


@pytest.mark.parametrize("stem", GOLDEN)
def test_copies_equal_nsys_stats(nsight: Path, stem: str) -> None:
    trace = nsys_sqlite.read_trace(sqlite(nsight, stem))
    found: dict[str, list[int]] = {}
    for i in np.flatnonzero((trace.activities.kind == COPY) | (trace.activities.kind == MEMSET)):
        entry = found.setdefault(trace.names[int(trace.activities.name[i])], [0, 0])
        entry[0] += 1
        entry[1] += int(trace.activities.end[i] - trace.activities.start[i])
    expected = {
        row["Operation"]: [int(row["Instances"]), int(row["Total Time (ns)"])]
        for row in golden(nsight, "cuda_gpu_sum", stem)
        if row["Category"] == "MEMORY_OPER"
    }
    assert found == expected


@pytest.mark.parametrize("stem", PROJECTED)
def test_projections_equal_nsys_stats(nsight: Path, stem: str) -> None:
    trace = nsys_sqlite.read_trace(sqlite(nsight, stem))
    linked = link(trace)
    projected = linked.project(np.arange(len(trace.ranges)))
    found: dict[str, list[int]] = {}
    for i in np.flatnonzero(projected.operations):
        entry = found.setdefault(trace.names[int(trace.ranges.name[i])], [0, 0, 0])
        entry[0] += int(projected.end[i] - projected.start[i])
        entry[1] += 1
        entry[2] += int(projected.operations[i])
    expected = {
        row["Range"]: [
            int(row["Total Proj Time (ns)"]),
            int(row["Range Instances"]),
            int(row["Total GPU Ops"]),
        ]
        for row in golden(nsight, "nvtx_gpu_proj_sum", stem)
    }
    assert found.keys() == expected.keys()
    off = {name for name in found if abs(found[name][0] - expected[name][0]) > 1000}
    assert off == set()
    assert {n: v[1:] for n, v in found.items()} == {n: v[1:] for n, v in expected.items()}


def test_graph_time_that_nsys_stats_leaves_out_is_in_graphs(nsight: Path) -> None:
    reading = nsys_sqlite.read(sqlite(nsight, "lm2.7B-cudagraph-A100-2024.6.2"))
    assert len(reading.graphs) == 1
    graph = reading.graphs[0]
    assert graph.launches == 10
    assert graph.duration_ns.value is not None
    assert round(graph.duration_ns.value * graph.launches) == 7_811_141_695
    assert reading.timeline is not None
    assert any("`nsys stats` shows only the latter" in fact for fact in reading.timeline.facts)


@pytest.mark.parametrize("stem", sorted(MANIFEST_KERNELS))
def test_no_device_is_ever_busy_for_more_than_the_time(nsight: Path, stem: str) -> None:
    reading = nsys_sqlite.read(sqlite(nsight, stem))
    assert reading.timeline is not None
    for fact in reading.timeline.facts:
        for percent in re.findall(r"\(([\d.]+)%\)", fact):
            assert float(percent) <= 100.0
    for step in reading.timeline.steps:
        assert 0 <= step.busy_ns <= step.wall_ns
        assert step.busy_ns + step.idle_ns == step.wall_ns
    window = sum(gap.duration_ns for gap in reading.timeline.gaps)
    trace = nsys_sqlite.read_trace(sqlite(nsight, stem)).activities
    span = int(trace.end.max() - trace.start.min()) if len(trace) else 0
    assert window <= span


@pytest.mark.parametrize("stem", sorted(MANIFEST_KERNELS))
def test_missing_tables_are_statements(nsight: Path, stem: str) -> None:
    checks = {c.id: c for c in nsys_sqlite.read(sqlite(nsight, stem)).checks}
    count, _ = MANIFEST_KERNELS[stem]
    assert (checks["timeline-kernels"].outcome == "passed") == (count > 0)
    for found in checks.values():
        assert found.message and "\n" not in found.message
        assert found.fix or found.outcome == "passed"


def test_two_gpus_are_apart_and_collectives_are_not_compute(nsight: Path) -> None:
    reading = nsys_sqlite.read(sqlite(nsight, "flashfwd-nvjet-nccl-2xH100-2026.2.1"))
    assert {row.device for row in reading.kernels} == {0, 1}
    talk = [row for row in reading.kernels if row.op_class == "communication"]
    assert sum(row.count for row in talk) == 62
    assert {row.name.partition("(")[0] for row in talk} == {"ncclDevKernel_SendRecv"}


def _stats(
    nsight: Path, stem: str, report: str, folder: Path, first: str = "Time (%),"
) -> list[dict[str, str]]:
    copy = folder / f"{stem}.sqlite"
    copy.write_bytes(sqlite(nsight, stem).read_bytes())
    done = subprocess.run(
        ["nsys", "stats", "-r", report, "-f", "csv", "-o", "-", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith(first)), None)
    if head is None:
        pytest.fail(f"nsys stats gives no table for {stem}: {done.stdout[-300:]}{done.stderr}")
    return list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))


@pytest.mark.nsight
@pytest.mark.parametrize("stem", NSYS_2022_OPENS)
def test_the_installed_nsys_agrees(nsight: Path, stem: str, tmp_path: Path) -> None:
    expected: dict[str, tuple[int, int]] = {}
    for row in _stats(nsight, stem, "gpukernsum", tmp_path):
        if row.get("Name"):  # nsys 2022.4 has a row per grid and block
            count, time = expected.get(row["Name"], (0, 0))
            time += round(float(row["Total Time (ns)"]))
            expected[row["Name"]] = (count + int(row["Instances"]), time)
    assert sums(nsys_sqlite.read(sqlite(nsight, stem))) == expected


@pytest.mark.nsight
@pytest.mark.parametrize("stem", ["nvfuser-nvjet-H100-2024.6.2", "lm-attn-RTX5000Ada-win-2026.2.1"])
def test_the_installed_nsys_projects_alike(nsight: Path, stem: str, tmp_path: Path) -> None:
    expected = sorted(
        (row["Name"], int(row["Projected Duration (ns)"]), int(row["NumGPUOps"]))
        for row in _stats(nsight, stem, "nvtxgpuproj", tmp_path, first="Name,Projected Start")
        if row.get("Name")
    )
    trace = nsys_sqlite.read_trace(sqlite(nsight, stem))
    projected = link(trace).project(np.arange(len(trace.ranges)))
    found = sorted(
        (trace.names[int(trace.ranges.name[i])], int(projected.end[i] - projected.start[i]),
         int(projected.operations[i]))
        for i in np.flatnonzero(projected.operations)
    )  # fmt: skip
    assert found == expected


@pytest.mark.parametrize("stem", GOLDEN)
def test_tables_of_nsys_stats_give_the_same_sums(nsight: Path, stem: str) -> None:
    path = nsight / "nsys-csv" / f"gen-cuda_gpu_kern_sum-{stem}.csv"
    assert sums(nsys_stats.read(path)) == sums(nsys_sqlite.read(sqlite(nsight, stem)))


@pytest.mark.parametrize("stem", ["lm2.7B-cudagraph-A100-2024.6.2", "sglang-prefill-A100-2023.4.4"])
def test_a_trace_table_gives_the_same_timeline(nsight: Path, stem: str) -> None:
    table = nsys_stats.read(nsight / "nsys-csv" / f"gen-cuda_gpu_trace-{stem}.csv")
    export = nsys_sqlite.read(sqlite(nsight, stem))
    assert sums(table) == sums(export)
    assert {(r.name, r.grid, r.block) for r in table.kernels} == {
        (r.name, r.grid, r.block) for r in export.kernels
    }


@pytest.mark.parametrize("stem", PROJECTED)
def test_the_projection_table_gives_ranges(nsight: Path, stem: str) -> None:
    reading = nsys_stats.read(nsight / "nsys-csv" / f"gen-nvtx_gpu_proj_sum-{stem}.csv")
    expected = golden(nsight, "nvtx_gpu_proj_sum", stem)
    assert reading.timeline is not None
    assert len(reading.timeline.ranges) == len(expected)
    first, row = reading.timeline.ranges[0], expected[0]
    assert first.device_ns.value is not None
    assert round(float(first.device_ns.value) * first.count) == int(row["Total Proj Time (ns)"])


def test_a_console_printout_is_read(nsight: Path) -> None:
    reading = nsys_stats.read(nsight / "nsys-csv" / "stats-text-lm2.7B-A100-2024.6.2.txt")
    assert sum(row.count for row in reading.kernels) == 7328
    assert any(c.outcome == "warning" and "NVTX" in c.message for c in reading.checks)


def activities(trace: Trace, kind: int) -> int:
    return int((trace.activities.kind == kind).sum())


def test_kinds_of_activities_are_kept_apart(nsight: Path) -> None:
    trace = nsys_sqlite.read_trace(sqlite(nsight, "lm2.7B-cudagraph-A100-2024.6.2"))
    assert (activities(trace, KERNEL), activities(trace, GRAPH)) == (30, 10)
