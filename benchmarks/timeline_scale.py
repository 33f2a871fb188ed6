"""How the import of a timeline capture scales, against `nsys stats` and a public Python reader.

    python benchmarks/timeline_scale.py [--kernels 10000,100000,1000000]

Writes synthetic nsys exports (n kernels in n nested ranges: step, layer, module, op), imports each
in a fresh process and prints seconds and peak memory. The same file then goes to
`nsys stats -r nvtx_gpu_proj_sum` and to nsys-ai (0.3.0 was used; it reads an export and says which
range each kernel belongs to), if they are installed. Ratios are what counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROCESS = 0x0001_0000_0500_0000
THREAD = PROCESS + 7
FAN_OUT = 10
"""Ops per module, modules per layer, layers per step."""
NAMES = ("ampere_bf16_s16816gemm", "flash_fwd_splitkv_kernel", "vectorized_elementwise_kernel")
CALL, LENGTH, PITCH = 3_000, 4_000, 6_000
"""Lengths of a call and of a kernel, and the time from one launch to the next, in ns."""
LIMIT_S = 600

KERNEL_COLUMNS = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "mangledName", "launchType", "gridX", "gridY", "gridZ", "blockX",
    "blockY", "blockZ", "graphNodeId",
)  # fmt: skip
RUNTIME_COLUMNS = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId",
                   "returnValue")  # fmt: skip
NVTX_COLUMNS = (
    "start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid",
    "endGlobalTid", "textId", "domainId",
)  # fmt: skip


def kernels(count: int) -> Iterator[tuple[int | None, ...]]:
    """One kernel every 6 us, some of them behind a queue."""
    for i in range(count):
        start = i * PITCH + 4_000 + (i % 7) * 200
        name = 1 + i % len(NAMES)
        yield (start, start + LENGTH - (i % 5) * 300, 0, 1, 7 + i % 2, i + 1, PROCESS, name, name,
               name, 1, 1 + i % 4, 1, 1, 128, 1, 1, None)  # fmt: skip


def calls(count: int) -> Iterator[tuple[int, ...]]:
    """The launch of each kernel."""
    for i in range(count):
        yield (i * PITCH + 500, i * PITCH + 500 + CALL, 0, THREAD, i + 1, 10, 0)


def ranges(count: int) -> Iterator[tuple[int | str | None, ...]]:
    """Op ranges around nine of ten launches, and module, layer and step ranges around them."""
    texts = ("op", "module", "layer", "step")
    for level, text in enumerate(texts):
        width = FAN_OUT**level
        inset = 100 * (3 - level)
        for i in range(count // width):
            if not level and i % FAN_OUT == 9:
                continue
            start, end = i * width * PITCH, (i + 1) * width * PITCH
            name = text if level == 3 else f"{text} {i % FAN_OUT}"
            yield (start + inset, end - inset - 1_000, 59, None, None, None, name, THREAD, None,
                   None, 0)  # fmt: skip


def write_export(path: Path, count: int) -> int:
    """Write an export of `count` kernels; returns the number of ranges."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for table, columns, rows in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL_COLUMNS, kernels(count)),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME_COLUMNS, calls(count)),
            ("NVTX_EVENTS", NVTX_COLUMNS, ranges(count)),
        ):
            typed = ", ".join(f"{c} {'TEXT' if c == 'text' else 'INTEGER'}" for c in columns)
            connection.execute(f"CREATE TABLE {table} ({typed})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)",
            [*((i + 1, name) for i, name in enumerate(NAMES)), (10, "cudaLaunchKernel_v7000")],
        )
        connection.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER)")
        connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 0)")
        connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        connection.executemany(
            "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
            [("EXPORT_SCHEMA_VERSION", "3.1.0"), ("EXPORT_PRODUCT_VERSION", "2022.4.2.1")],
        )
        (made,) = connection.execute("SELECT count(*) FROM NVTX_EVENTS").fetchone()
    connection.close()
    return int(made)


@dataclass(frozen=True)
class Usage:
    """What one process took."""

    wall_s: float
    cpu_s: float
    mebibytes: int
    good: bool


def run(command: list[str], folder: Path) -> Usage:
    """Run a command to its end, or until LIMIT_S; measures the process and its children."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            process.returncode = os.waitstatus_to_exitcode(status)
            wall = time.perf_counter() - started
            cpu = usage.ru_utime + usage.ru_stime
            return Usage(wall, cpu, usage.ru_maxrss // 1024, process.returncode == 0)
        time.sleep(0.01)
    process.kill()
    process.wait()
    return Usage(LIMIT_S, 0.0, 0, False)


READ = (
    "import sys; from pathlib import Path; from rooflens.parsers import nsys_sqlite; "
    "r = nsys_sqlite.read(Path(sys.argv[1])); assert sum(k.count for k in r.kernels)"
)
SAME_JOB = (
    "import sys; from pathlib import Path; from rooflens.parsers.nsys_sqlite import read_trace; "
    "from rooflens.parsers.timeline.launches import link; "
    "linked = link(read_trace(Path(sys.argv[1]))); assert linked.path_of_activity.size"
)
PEER = (
    "import sqlite3, sys; from nsys_ai.nvtx_attribution import attribute_kernels_to_nvtx; "
    "assert attribute_kernels_to_nvtx(sqlite3.connect(sys.argv[1]), sqlite_path=sys.argv[1])"
)


def nsys_report() -> str:
    """The name that this version of nsys gives the projection report."""
    listed = subprocess.run(
        ["nsys", "stats", "--help-reports"], capture_output=True, text=True, check=False
    ).stdout
    return "nvtx_gpu_proj_sum" if "nvtx_gpu_proj_sum" in listed else "nvtxgpuproj"


def peers(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Programs that do a part of it: nsys' projection, and nsys-ai's attribution of kernels."""
    yield "rooflens, ranges only", [sys.executable, "-c", SAME_JOB, str(path)]
    if importlib.util.find_spec("nsys_ai") is not None:
        yield "nsys-ai, ranges only", [sys.executable, "-c", PEER, str(path)]
    if shutil.which("nsys") is not None:
        report = nsys_report()
        command = ["nsys", "stats", "-r", report, "-f", "csv", "-o", "out", str(path)]
        yield f"nsys stats -r {report}", command


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernels", default="10000,100000,1000000")
    parser.add_argument("--nsys-up-to", type=int, default=100_000)
    options = parser.parse_args()
    print(f"{'kernels':>9} {'ranges':>9} {'reader':<30} {'wall s':>8} {'cpu s':>8} {'MiB':>6} "
          f"{'to rooflens':>11}")  # fmt: skip
    for size in [int(part) for part in options.kernels.split(",")]:
        with tempfile.TemporaryDirectory(prefix="timeline-bench-") as name:
            path = Path(name) / "a.sqlite"
            made = write_export(path, size)
            ours = run([sys.executable, "-c", READ, str(path)], Path(name))
            show(size, made, "rooflens, whole import", ours, ours)
            for label, command in peers(path):
                if label.startswith("nsys stats") and size > options.nsys_up_to:
                    continue
                show(size, made, label, run(command, Path(name)), ours)


def show(size: int, made: int, label: str, found: Usage, ours: Usage) -> None:
    """Print one line; the ratio is of wall times."""
    wall = f"{found.wall_s:.2f}" if found.good else f">{found.wall_s:.0f}"
    print(f"{size:>9} {made:>9} {label:<30} {wall:>8} {found.cpu_s:>8.2f} {found.mebibytes:>6} "
          f"{found.wall_s / ours.wall_s:>10.2f}x", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
