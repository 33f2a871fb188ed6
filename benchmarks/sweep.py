"""How long a theory sweep takes: 10,000 points under 5 s, and cost linear in points.

    python benchmarks/sweep.py

Prints CPU times of one process, and the wall time of the whole command; ends with 1 when a limit is
broken.
"""

from __future__ import annotations

import subprocess
import sys
import time

from rooflens.architectures import load_config
from rooflens.harness.engines import run_points
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.step import StepShape
from rooflens.reports.theory.sweep import sweep_shapes

LIMIT_S = 5.0
LINEAR_FACTOR = 1.5
"""Four times the points may take this much more than four times the time."""


def cpu_seconds(points: int, model: Architecture) -> float:
    """CPU time of `points` decode steps on one roof, in one process."""
    contexts = [128 * (i + 1) for i in range(points // 100)]
    shapes = sweep_shapes(StepShape(), range(1, 101), contexts, [1])
    start = time.process_time()
    rows = run_points(model, shapes, [gpu("h100").roof("bfloat16")], workers=1)
    assert len(rows) == points
    return time.process_time() - start


def command_seconds() -> float:
    """The whole command with 10,000 points, start-up and CSV included."""
    arguments = ["sweep", "decode", "--format", "csv", "--gpu", "h100"]
    arguments += ["--batch", ",".join(map(str, range(1, 101)))]
    arguments += ["--context", ",".join(str(128 * (i + 1)) for i in range(100))]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", *arguments], check=True, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 10_001
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and return the exit code."""
    failed = False
    for name in ("qwen2.5-7b", "deepseek-v3"):
        model = Architecture.from_config(load_config(name), name)
        times = {points: cpu_seconds(points, model) for points in (1_000, 10_000, 40_000)}
        growth = times[40_000] / times[10_000] / 4
        failed |= times[10_000] > LIMIT_S or growth > LINEAR_FACTOR
        shown = ", ".join(f"{points:,}: {spent:.2f} s" for points, spent in times.items())
        print(f"{name}: {shown} of CPU (4 times the points cost {4 * growth:.1f} times as much)")
    whole = command_seconds()
    failed |= whole > LIMIT_S
    print(f"profile sweep, 10,000 points, CSV: {whole:.2f} s (limit {LIMIT_S} s)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
