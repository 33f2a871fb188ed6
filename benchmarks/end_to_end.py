"""Where the time of `profile run decode --batch 1` goes, from an empty process to the report.

    python benchmarks/end_to_end.py [--runs 3] [-- further options of profile run]

Runs the command in fresh processes and prints, per run, wall time, user + system time, peak memory
and the stages; then the median and what is left when imports, weight and KV fill, the ceilings
probe and the model's own steps are taken out: the overhead of Rooflens itself. Limits: 60 s and
6 GiB in all, 5 s of overhead, on 2 cores without a GPU; 15 s with `-- --device meta`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 60
LIMIT_BYTES = 6 << 30
OVERHEAD_LIMIT_S = 5
NOT_OURS = ("import", "Loading", "Filling", "Making inputs", "Running", "Timing every op", "Probing")
"""Stages whose time belongs to torch, the model or the machine."""

CHILD = """
import json, sys, time
began = time.perf_counter()
import torch, transformers
import transformers.models.qwen2.modeling_qwen2
imports = time.perf_counter() - began
from rooflens.harness import progress as module
made = []
plain = module.Progress
def keep():
    made.append(plain())
    return made[-1]
module.terminal_progress = keep
from rooflens.harness.cli import main
try:
    main(["run", "decode", "--batch", "1", "-o", sys.argv[1], *sys.argv[2:]])
except SystemExit as end:
    code = end.code
stages = [["import torch and transformers", imports]]
stages += [[stage.name, stage.seconds] for stage in made[0].stages] if made else []
open(sys.argv[1] + ".stages", "w").write(json.dumps(stages))
sys.exit(code)
"""


def one_run(folder: Path, number: int, options: list[str]) -> dict[str, float]:
    """Run once in a fresh process; returns seconds by stage, with `wall`, `cpu` and `rss`."""
    target = folder / f"run-{number}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", CHILD, str(target), *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    stages = json.loads(Path(f"{target}.stages").read_text())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return dict(stages) | {
        "wall": wall,
        "cpu": cpu,
        "rss": after.ru_maxrss * 1024.0,
    }


def report(runs: list[dict[str, float]]) -> None:
    """Print the median of every stage and the overhead."""
    names = [name for name in runs[0] if name not in ("wall", "cpu", "rss")]
    print(f"{'stage':<60}{'median s':>10}")
    ours = []
    for run in runs:
        foreign = sum(run.get(name, 0.0) for name in names if name.startswith(NOT_OURS))
        ours.append(run["wall"] - foreign)
    for name in names:
        median = statistics.median(run.get(name, 0.0) for run in runs)
        mark = "" if name.startswith(NOT_OURS) else "  (ours)"
        print(f"{name[:58]:<60}{median:>10.2f}{mark}")
    wall = statistics.median(run["wall"] for run in runs)
    cpu = statistics.median(run["cpu"] for run in runs)
    rss = max(run["rss"] for run in runs)
    overhead = statistics.median(ours)
    print(f"\nwall {wall:.1f} s of {LIMIT_S} s; user + system {cpu:.1f} s (median of {len(runs)})")
    print(f"peak memory {rss / 2**30:.2f} GiB of {LIMIT_BYTES / 2**30:.0f} GiB")
    print(f"overhead of Rooflens {overhead:.2f} s of {OVERHEAD_LIMIT_S} s")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("options", nargs="*", help="after --: further options of profile run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rooflens-bench-") as folder:
        runs = []
        for number in range(arguments.runs):
            runs.append(one_run(Path(folder), number, arguments.options))
            print(f"run {number + 1}: {runs[-1]['wall']:.1f} s", file=sys.stderr)
    report(runs)


if __name__ == "__main__":
    main()
