"""How fast counter captures are read.

    python benchmarks/ncu_reading.py [REPORT.ncu-rep ...]

- A wide CSV of 10,000 launches and 475 columns, made here: seconds, launches per second and peak
  memory, also for 20,000 launches (memory must grow linearly).
- Every given `.ncu-rep`: our reading against a bare loop over NVIDIA's ncu_report that asks for the
  same metrics of the same kernels and keeps them in a dict; the ratio of the two (best of three).

Prints one line per measurement and exits with 1 when a target is missed: 3 s for the CSV, 1.3x for
the reports together.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

CSV_SECONDS = 3.0
REPORT_RATIO = 1.3
COLUMNS = 475
RUNS = 3

IDENTITY = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
            "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
SASS = "smsp__sass_thread_inst_executed_op_"
METRICS = {
    "device__attribute_chip": ("", "384"),
    "device__attribute_display_name": ("", "NVIDIA H100 80GB HBM3"),
    "gpu__time_duration.sum": ("ns", "526272"),
    "dram__bytes_read.sum": ("byte", "467704320"),
    "dram__bytes_write.sum": ("byte", "252374272"),
    "dram__bytes.sum.peak_sustained": ("byte/cycle", "1280"),
    "dram__cycles_elapsed.avg.per_second": ("hz", "1592831083.5461"),
    "lts__t_sectors.sum": ("sector", "36915717"),
    "lts__t_sector_hit_rate.pct": ("%", "40.08"),
    "sm__cycles_elapsed.avg.per_second": ("hz", "1103019904.58"),
    "smsp__cycles_elapsed.avg": ("cycle", "580488.49"),
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum": ("", "34359738368"),
    "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained": (
        "",
        "540672",
    ),
    f"{SASS}fadd_pred_on.sum.per_cycle_elapsed": ("inst/cycle", "723.7"),
    f"{SASS}fmul_pred_on.sum.per_cycle_elapsed": ("inst/cycle", "241.2"),
    f"{SASS}ffma_pred_on.sum.per_cycle_elapsed": ("inst/cycle", "271.4"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "93.73"),
    "launch__registers_per_thread": ("register/thread", "23"),
}


def write_wide(path: Path, rows: int) -> None:
    """A wide table as `ncu --page raw --csv` prints it."""
    filler = [f"smsp__filler_{number}.sum" for number in range(COLUMNS - len(METRICS) - 11)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([*IDENTITY, *METRICS, *filler])
        writer.writerow(
            ["" for _ in IDENTITY] + [u for u, _ in METRICS.values()] + ["inst"] * len(filler)
        )
        values = [value for _, value in METRICS.values()] + ["123456.789"] * len(filler)
        for number in range(rows):
            name = f"void gemm_kernel<(int){number % 40}>(const float *, float *)"
            writer.writerow([number, 1, "python", "host", name, 1, 7, "(256, 1, 1)",
                             f"({number % 97 + 1}, 1, 1)", 0, "9.0", *values])  # fmt: skip


def time_csv(folder: Path, rows: int) -> tuple[float, float]:
    """Seconds and peak MiB of reading a wide table of `rows` launches."""
    from rooflens.parsers.ncu_csv import read

    path = folder / f"{rows}.csv"
    write_wide(path, rows)
    seconds = best(read, path)
    tracemalloc.start()
    kept = read(path)
    assert len(kept.launches) == rows
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert kept.launches[0].dram_bytes.value == 467704320 + 252374272
    return seconds, peak


class Asked:
    """Notes which metrics our reader asks a kernel for."""

    def __init__(self, action: Any, names: set[str]) -> None:
        self._action = action
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._action, name)

    def metric_by_name(self, name: str) -> Any:
        self._names.add(name)
        return self._action.metric_by_name(name)


def metrics_asked_for(path: Path) -> list[str]:
    """The metrics that our reader asks the first kernel of a report for."""
    import ncu_report

    from rooflens.parsers import ncu_report as reader

    names: set[str] = set()
    chip = reader.read(path).machine.gpu_chip
    asked = Asked(ncu_report.load_report(str(path)).range_by_idx(0).action_by_idx(0), names)
    reader._launch(0, asked, reader.ActionCounters(asked), chip)
    return sorted(names)


def bare_loop(path: Path, names: list[str]) -> list[dict[str, Any]]:
    """What anybody would write: load, loop, keep value and unit of the metrics wanted."""
    import ncu_report

    kernels = []
    context = ncu_report.load_report(str(path))
    for number in range(context.num_ranges()):
        results = context.range_by_idx(number)
        for index in range(results.num_actions()):
            action = results.action_by_idx(index)
            kernel: dict[str, Any] = {"name": action.name()}
            for name in names:
                metric = action.metric_by_name(name)
                if metric is not None:
                    kernel[name] = (metric.value(), metric.unit())
            kernels.append(kernel)
    return kernels


def best(function: Any, *arguments: Any) -> float:
    """Fastest of several runs in seconds of this process, so that a busy machine does not count."""
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        function(*arguments)
        times.append(time.process_time() - begin)
    return min(times)


def main(reports: list[str]) -> int:
    """Run both measurements; returns the exit code."""
    from rooflens.parsers.ncu_report import read

    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        for rows in (10_000, 20_000):
            seconds, peak = time_csv(Path(scratch), rows)
            rate = rows / seconds
            print(
                f"wide CSV, {rows} rows x {COLUMNS}: {seconds:.2f} s, {rate:.0f}/s, {peak:.0f} MiB"
            )
            missed |= rows == 10_000 and seconds > CSV_SECONDS
    ours = bare = 0.0
    for path in map(Path, reports):
        names = metrics_asked_for(path)
        mine, theirs = best(read, path), best(bare_loop, path, names)
        ours, bare = ours + mine, bare + theirs
        ratio = mine / theirs
        print(f"{path.name}: {mine * 1e3:.0f} ms, bare {theirs * 1e3:.0f} ms, {ratio:.2f}x")
    if reports:
        print(f"all reports: {ours / bare:.2f}x of the bare loop")
        missed |= ours / bare > REPORT_RATIO
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
