"""What light annotation costs a step: NVTX ranges down to modules, while nsys records them.

    python benchmarks/timeline_annotation.py [--layers 8] [--context 512] [--pairs 15]

Runs itself under nsys, if there is one. Bare and annotated steps take turns in one process; the
median of their ratios is printed. The limit that we hold is 3 %.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INSIDE = "ROOFLENS_BENCH_INSIDE_NSYS"


def measure(layers: int, context: int, pairs: int) -> list[float]:
    """Ratios annotated / bare of neighbouring decode steps on the CPU."""
    from rooflens.harness.machine import machine_facts
    from rooflens.workloads.annotate import Ranges, annotate_modules
    from rooflens.workloads.models import load_model
    from rooflens.workloads.registry import workload

    spec = workload("decode").spec(layers=layers, context=context, device="cpu")
    loaded = load_model(spec, machine_facts("cpu").last_level_cache_bytes)
    step = workload("decode").build(spec, loaded)
    ranges = Ranges()

    def seconds(annotated: bool) -> float:
        step.reset()
        if not annotated:
            started = time.perf_counter()
            step.run()
            return time.perf_counter() - started
        with annotate_modules(loaded.model, ranges):
            started = time.perf_counter()
            with ranges.step():
                step.run()
            return time.perf_counter() - started

    seconds(True), seconds(False)
    found = []
    for pair in range(pairs):
        first = pair % 2 == 0
        one, other = seconds(first), seconds(not first)
        found.append(one / other if first else other / one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    nsys = shutil.which("nsys")
    if nsys and not os.environ.get(INSIDE):
        with tempfile.TemporaryDirectory(prefix="annotation-bench-") as folder:
            command = [nsys, "profile", "-t", "nvtx", "--sample=none", "--cpuctxsw=none",
                       "-o", str(Path(folder) / "cap"), sys.executable, *sys.argv]  # fmt: skip
            done = subprocess.run(
                command, env=os.environ | {INSIDE: "1"}, capture_output=True, text=True, check=True
            )
        print(next(line for line in done.stdout.splitlines() if line.startswith("annotated")))
        return
    ratios = sorted(measure(options.layers, options.context, options.pairs))
    where = "under nsys" if os.environ.get(INSIDE) else "without a profiler"
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    print(
        f"annotated / bare, {options.layers} layers, {where}: {statistics.median(ratios):.4f} "
        f"(middle half {low:.4f} to {high:.4f}, {len(ratios)} pairs)"
    )


if __name__ == "__main__":
    main()
