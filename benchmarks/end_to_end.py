"""Where the time of `profile run decode --batch 1` goes, from an empty process to the report.

    python benchmarks/end_to_end.py [--runs 3] [-- further options of profile run]

Runs the command in fresh processes, in turn with a bare process that only imports torch and
transformers, and prints wall and processor time by stage (medians). What is left when that bare
process, the weight and KV fill, the ceilings probe and the model's own steps are taken out is the
overhead of Rooflens itself. Limits, on an idle machine of 2 cores without a GPU: 60 s and 6 GiB in
all, 5 s of overhead; 15 s in all with `-- --device meta`. On a busy machine read the processor
time: other programs lengthen only the wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 60
META_LIMIT_S = 15
LIMIT_BYTES = 6 << 30
OVERHEAD_LIMIT_S = 5
NOT_OURS = ("Loading", "Filling", "Making inputs", "Running", "Timing every op", "Probing")
"""Stages whose time belongs to torch, the model or the machine."""

BARE = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
import transformers.models.qwen2.modeling_qwen2
"""
CHILD = """
import json, sys
from rooflens.harness import progress as module
made = module.Progress()
module.terminal_progress = lambda: made
from rooflens.harness.cli import main
try:
    main(["run", "decode", "--batch", "1", "-o", sys.argv[1], *sys.argv[2:]])
except SystemExit as end:
    code = end.code
stages = [[stage.name, stage.seconds, stage.cpu_seconds] for stage in made.stages]
open(sys.argv[1] + ".stages", "w").write(json.dumps(stages))
sys.exit(code)
"""


@dataclass(frozen=True)
class Cost:
    """Wall and processor seconds."""

    wall: float
    cpu: float

    def minus(self, other: Cost) -> Cost:
        """The rest."""
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(frozen=True)
class Measured:
    """One run: all of it, its stages, the bare process beside it, and peak memory in bytes."""

    whole: Cost
    bare: Cost
    stages: dict[str, Cost]
    peak_bytes: int

    def overhead(self) -> Cost:
        """What is neither imports nor the model's own work."""
        rest = self.whole.minus(self.bare)
        for name, cost in self.stages.items():
            # Imports are in the bare process already.
            if name.startswith(NOT_OURS) and not name.startswith("Loading"):
                rest = rest.minus(cost)
        return rest


def process(arguments: list[str]) -> tuple[Cost, int]:
    """Run a program to its end; returns its cost and peak memory in bytes."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"the run ended with {child.returncode}")
    cost = Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)
    return cost, usage.ru_maxrss * 1024


def one_run(folder: Path, number: int, options: list[str]) -> Measured:
    """Measure the bare process and the command, each in a fresh process."""
    bare, _ = process(["-c", BARE])
    target = folder / f"run-{number}"
    whole, peak = process(["-c", CHILD, str(target), *options])
    rows = json.loads(Path(f"{target}.stages").read_text())
    stages = {name: Cost(wall, cpu) for name, wall, cpu in rows}
    return Measured(whole=whole, bare=bare, stages=stages, peak_bytes=peak)


def median(costs: list[Cost]) -> Cost:
    """Medians of wall and processor time."""
    return Cost(statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs))


def report(runs: list[Measured], limit_s: int) -> None:
    """Print the medians of every stage and the overhead."""

    def line(name: str, cost: Cost, mark: str = "") -> None:
        print(f"{name[:52]:<54}{cost.wall:>8.2f}{cost.cpu:>10.2f}{mark}")

    print(f"{'seconds, median of ' + str(len(runs)):<54}{'wall':>8}{'processor':>10}")
    line("a process that imports torch and transformers", median([r.bare for r in runs]))
    for name in runs[0].stages:
        costs = [run.stages[name] for run in runs if name in run.stages]
        line(name, median(costs), "" if name.startswith(NOT_OURS) else "  ours")
    print()
    line(f"in all (limit {limit_s} s)", median([r.whole for r in runs]))
    overhead = median([r.overhead() for r in runs])
    line(f"overhead of Rooflens (limit {OVERHEAD_LIMIT_S} s)", overhead)
    peak = max(run.peak_bytes for run in runs)
    print(f"peak memory {peak / 2**30:.2f} GiB (limit {LIMIT_BYTES / 2**30:.0f} GiB)")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("options", nargs="*", help="after --: further options of profile run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rooflens-bench-") as folder:
        runs = [
            one_run(Path(folder), number, arguments.options) for number in range(arguments.runs)
        ]
    report(runs, META_LIMIT_S if "meta" in arguments.options else LIMIT_S)


if __name__ == "__main__":
    main()
