"""Try the profilers for real on something tiny: queries can pass where a collection fails.

nsys needs no GPU to record NVTX ranges, so it is tried everywhere it is installed: a program that
opens a known number of ranges is recorded, and the ranges are counted in the export. ncu needs a
GPU: there one matrix product of known FLOPs and one copy of known bytes are profiled, and the
counters compared with them.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from rooflens.errors import ProfilerError, RooflensError
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.harness.machine import GpuFacts
from rooflens.harness.process import end_processes_with, run_program
from rooflens.model import Check

RANGES = 3
TIMEOUT_S = 90
NCU_TIMEOUT_S = 180.0
PROBE_DTYPE = "float16"
"""Every GPU with tensor cores has this format."""
# The pause: a process that ends within about half a second of its last range can lose it
# under nsys 2022.4.
_PROGRAM = f"""
import time, nvtx
for _ in range({RANGES}):
    with nvtx.annotate("step", domain="rooflens"):
        pass
time.sleep(0.7)
"""


def tiny_collections(found: Surroundings) -> tuple[Check, ...]:
    """Try nsys, and on a GPU ncu, where they are installed; else there is nothing to try."""
    if not found.temporary_writable:
        return ()
    checks: tuple[Check, ...] = ()
    with tempfile.TemporaryDirectory(prefix="rooflens-doctor-") as name:
        folder = Path(name)
        if found.nsys and "nvtx" in found.packages:
            checks += (nsys_records_ranges(folder, found.nsys),)
        if found.ncu and found.gpus and found.torch_cuda:
            checks += ncu_counts_known_work(folder, found.gpus[0])
    return checks


def ncu_counts_known_work(folder: Path, gpu: GpuFacts) -> tuple[Check, ...]:
    """Profile one product of known FLOPs and one copy of known bytes, and compare the counters."""
    from rooflens.harness.collectors.selfcheck import copy_bytes, self_check
    from rooflens.parsers.ncu_report import read
    from rooflens.reports.theory.gpus import gpu as known_gpu

    report, size = folder / "probe.ncu-rep", copy_bytes(gpu.memory_bytes)
    try:
        known = known_gpu(gpu.name)
        _profile_known_work(known.chip, size, report)
        return self_check(read(report).launches, size, known.l2_bytes)
    except RooflensError as error:
        return (Check(id="ncu-trial", outcome="failed", message=error.message, fix=error.hint),)


def _profile_known_work(chip: str, size: int, report: Path) -> None:
    from rooflens.harness import ncu
    from rooflens.harness.collectors.child import step_command, step_environment
    from rooflens.harness.probe_kernels import COPY, GEMM
    from rooflens.parsers.planner import plan_metrics
    from rooflens.workloads.annotate import DOMAIN

    metrics = plan_metrics(chip, PROBE_DTYPE, "minimal").metrics
    ncu.capture(
        [*step_command(Path(PROBE_DTYPE), main="rooflens.harness.probe_kernels"), str(size)],
        report,
        ncu.NcuOptions(
            metrics=tuple(metric.name for metric in metrics),
            nvtx_include=(f"{DOMAIN}@{GEMM}/", f"{DOMAIN}@{COPY}/"),
        ),
        timeout_s=NCU_TIMEOUT_S,
        environment=step_environment(),
    )


def nsys_records_ranges(folder: Path, version: str) -> Check:
    """Run nsys on a program with RANGES ranges, and count what it kept."""
    failure = _record(folder)
    if failure:
        return _failed(f"nsys {version} cannot record here: {failure}.", "Run `nsys status -e`.")
    count = _ranges_in(folder / "probe.sqlite")
    if count == RANGES:
        message = f"nsys {version} recorded {RANGES} of {RANGES} ranges in a trial."
        return Check(id="nsys-trial", outcome="passed", message=message)
    return _failed(
        f"nsys {version} recorded {count} of {RANGES} ranges in a trial.",
        'pip install "nvtx<=0.2.12", or use nsys 2024.1 or newer.',
    )


def _record(folder: Path) -> str:
    """Record and export; returns what went wrong, or nothing."""
    program = shutil.which("nsys") or "nsys"
    report = folder / "probe.nsys-rep"
    record = [
        program,
        "profile",
        "-t",
        "nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "-o",
        str(report),
    ]
    export = [program, "export", "--type=sqlite", "-o", str(folder / "probe.sqlite"), str(report)]
    for arguments in ([*record, sys.executable, "-c", _PROGRAM], export):
        try:
            done = run_program(
                arguments,
                timeout_s=TIMEOUT_S,
                folder=folder,
                environment=os.environ | {"TMPDIR": str(folder)},
            )
        except ProfilerError as error:
            return error.message.rstrip(".")
        finally:
            end_processes_with(folder)
        if done.timed_out:
            return f"no end after {TIMEOUT_S} s"
        if done.code != 0:
            return done.last_line.rstrip(".")
    return ""


def _ranges_in(file: Path) -> int:
    """Closed push/pop ranges of the export; 0 when it holds no such table."""
    query = "SELECT count(*) FROM NVTX_EVENTS WHERE end IS NOT NULL"
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            return int(database.execute(query).fetchone()[0])
    except sqlite3.Error:
        return 0


def _failed(message: str, fix: str) -> Check:
    return Check(id="nsys-trial", outcome="failed", message=message, fix=fix)
