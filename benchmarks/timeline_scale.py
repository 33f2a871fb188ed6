"""How the import of a timeline capture scales, against `nsys stats` and a public Python reader.

    python benchmarks/timeline_scale.py [--kernels 10000,100000,1000000] [--peer nsys-ai.whl]

Writes synthetic nsys exports (n kernels in n nested ranges: step, layer, module, op), imports each
in a fresh process and prints seconds and peak memory; the same file then goes to
`nsys stats -r nvtx_gpu_proj_sum` and, if installed, to nsys-ai. Ratios are what counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROCESS = 0x0001_0000_0500_0000
THREAD = PROCESS + 7
FAN_OUT = 10
"""Ops per module, modules per layer, layers per step."""
NAMES = ("ampere_bf16_s16816gemm", "flash_fwd_splitkv_kernel", "vectorized_elementwise_kernel")
CALL, LENGTH, PITCH = 3_000, 4_000, 6_000
"""Lengths of a call and of a kernel, and the time from one launch to the next, in ns."""
LIMIT_S = 900

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
            yield (start + inset, end - inset - 1_000, 59, None, None, None,
                   text if level == 3 else f"{text} {i % FAN_OUT}", THREAD, None, None, 0)  # fmt: skip


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


def run(command: list[str], folder: Path) -> tuple[float, int, bool]:
    """Run a command: wall seconds, peak memory of the process in MiB, whether it succeeded."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, status, usage = _wait(process.pid)
    except TimeoutError:
        process.kill()
        process.wait()
        return LIMIT_S, 0, False
    if process.stderr is not None:
        process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - started, usage.ru_maxrss // 1024, process.returncode == 0


def _wait(pid: int) -> tuple[int, int, resource.struct_rusage]:
    """Wait for a process and its peak memory, up to LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return done, status, usage
        time.sleep(0.02)
    raise TimeoutError


READ = (
    "import sys; from pathlib import Path; from rooflens.parsers import nsys_sqlite; "
    "r = nsys_sqlite.read(Path(sys.argv[1])); assert sum(k.count for k in r.kernels)"
)
PEER = (
    "import sys; from nsys_ai.profile import Profile; from nsys_ai.nvtx_tree import build_nvtx_tree;"
    "p = Profile(sys.argv[1]); t = p.meta.time_range; "
    "build_nvtx_tree(p, 0, t)"
)


def nsys_report() -> str:
    """The name that this version of nsys gives the projection report."""
    listed = subprocess.run(
        ["nsys", "stats", "--help-reports"], capture_output=True, text=True, check=False
    ).stdout
    return "nvtx_gpu_proj_sum" if "nvtx_gpu_proj_sum" in listed else "nvtxgpuproj"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default="10000,100000,1000000")
    parser.add_argument("--peers-up-to", type=int, default=100_000)
    options = parser.parse_args()
    sizes = [int(part) for part in options.kernels.split(",")]
    has_nsys = shutil.which("nsys") is not None
    has_peer = importlib.util.find_spec("nsys_ai") is not None
    print(f"{'kernels':>9} {'ranges':>9} {'reader':<28} {'seconds':>9} {'MiB':>7} {'ratio':>7}")
    previous: tuple[int, float] | None = None
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="timeline-bench-") as name:
            folder = Path(name)
            path = folder / "a.sqlite"
            made = write_export(path, size)
            seconds, memory, good = run([sys.executable, "-c", READ, str(path)], folder)
            assert good, "the import failed"
            growth = f"x{seconds / previous[1]:.1f}" if previous else ""
            print(f"{size:>9} {made:>9} {'rooflens':<28} {seconds:>9.2f} {memory:>7} {growth:>7}",
                  flush=True)  # fmt: skip
            previous = (size, seconds)
            if size > options.peers_up_to:
                continue
            peers = []
            if has_nsys:
                report = nsys_report()
                peers.append((f"nsys stats -r {report}",
                              ["nsys", "stats", "-r", report, "-f", "csv", "-o", "out", str(path)]))  # fmt: skip
            if has_peer:
                peers.append(("nsys-ai nvtx tree", [sys.executable, "-c", PEER, str(path)]))
            for label, command in peers:
                took, used, good = run(command, folder)
                shown = f"{took:.2f}" if good else f">{took:.0f}" if took >= LIMIT_S else "failed"
                print(f"{size:>9} {made:>9} {label:<28} {shown:>9} {used:>7} "
                      f"{took / seconds:>6.1f}x", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
