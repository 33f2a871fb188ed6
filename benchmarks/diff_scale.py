"""How long does `profile diff` take for two runs of 100,000 kernel rows each? Limit: 5 s.

    python benchmarks/diff_scale.py [rows]

Prints seconds for the whole command (reading both run.json files included), and the ratio to
reading the two files alone, which no diff can avoid.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rooflens.model import (
    SCHEMA_VERSION,
    Join,
    KernelRow,
    Machine,
    Model,
    Run,
    Totals,
    Workload,
    absent,
    known,
)
from rooflens.runfile import encode_run, read_run

LIMIT_S = 5.0
NOT_MEASURED = absent("not measured in this benchmark")


def kernel(index: int, head: bool) -> KernelRow:
    """Every tenth kernel of the head is renamed, every hundredth moves more, some are slower."""
    renamed = head and index % 10 == 0
    slower = 1.2 if head and index % 1000 == 0 else 1.0
    moved = 1.1 if head and index % 100 == 1 else 1.0
    return KernelRow(
        name=f"void kernel_{'v2' if renamed else 'v1'}_{index % 4000}<float, {index % 7}>(int)",
        short_name=f"kernel_{'v2' if renamed else 'v1'}_{index % 4000}",
        family="gemm" if index % 2 else "elementwise",
        op_class=("attention", "up_proj", "norm", "other")[index % 4],
        count=1 + index % 3,
        grid=(1 + index % 64, 1, 1),
        block=(128, 1, 1),
        nvtx=("step", f"layers.{index % 28}", f"op {index}"),
        duration_ns=known(1000.0 * slower + index % 97, "ns", "timeline"),
        dram_bytes=known(moved * (10_000 + 37 * index), "byte", "counters"),
        l2_bytes=NOT_MEASURED,
        flops=NOT_MEASURED,
        intensity=NOT_MEASURED,
        join=Join(method="op id", confidence="high", ops=(index,)),
    )


def run(rows: int, head: bool) -> Run:
    """A run of `rows` kernel rows."""
    return Run(
        schema_version=SCHEMA_VERSION,
        created_at=f"2026-01-0{2 if head else 1}T00:00:00Z",
        command=("profile", "import", "capture.ncu-rep"),
        evidence=("counters", "timeline"),
        machine=Machine(device="cuda", gpu="NVIDIA H200"),
        tools={},
        workload=Workload(name="import"),
        model=Model(name=""),
        roofs=(),
        totals=Totals(**dict.fromkeys(Totals.__struct_fields__, NOT_MEASURED)),
        step_times_ns=(),
        operators=(),
        ops=(),
        kernels=tuple(kernel(index, head) for index in range(rows)),
        graphs=(),
        timeline=None,
        findings=(),
        checks=(),
    )


def main() -> None:
    """Write two runs, time the command on them, and fail above the limit."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder) / name for name in ("base", "head")]
        for side in sides:
            side.mkdir()
            (side / "run.json").write_bytes(encode_run(run(rows, side.name == "head")))
        start = time.perf_counter()
        for side in sides:
            read_run(side)
        reading = time.perf_counter() - start
        size = sum((side / "run.json").stat().st_size for side in sides)
        print(f"2 x {rows:,} kernel rows, {size / 1e6:.0f} MB of JSON, read in {reading:.2f} s")
        slow = False
        for format in ("text", "html", "markdown", "json"):
            command = [
                sys.executable, "-m", "rooflens", "diff", str(sides[0]), str(sides[1]),
                "--fail-on", "never", "--format", format, "-o", f"{folder}/out.{format}",
            ]  # fmt: skip
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds = time.perf_counter() - start
            written = Path(f"{folder}/out.{format}").stat().st_size
            slow |= seconds > LIMIT_S
            print(
                f"diff --format {format:<9} {seconds:5.2f} s  "
                f"{seconds / reading:4.1f} x reading  {written / 1e3:,.0f} kB written"
            )
    if slow:
        sys.exit(f"slower than {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
