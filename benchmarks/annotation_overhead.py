"""What light NVTX annotation costs a step, as paired ratios: annotated / bare, in turns.

python benchmarks/annotation_overhead.py [--layers 28] [--context 2047] [--pairs 9]
nsys profile -t nvtx --sample=none --cpuctxsw=none -o /dev/null python benchmarks/...   (recorded)

Without a profiler attached ranges do next to nothing; run it under nsys to see what a timeline
capture costs. The ratio is of neighbours in time, so a drifting machine does not matter.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from contextlib import AbstractContextManager

from rooflens.harness.machine import machine_facts
from rooflens.workloads.annotate import Ranges, annotate_modules
from rooflens.workloads.models import load_model
from rooflens.workloads.registry import workload
from rooflens.workloads.step import ModelStep


def seconds(step: ModelStep, annotation: AbstractContextManager[object]) -> float:
    step.reset()
    with annotation:
        started = time.perf_counter()
        step.run()
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--context", type=int, default=2047)
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    spec = workload("decode").spec(layers=options.layers, context=options.context, device="cpu")
    loaded = load_model(spec, machine_facts("cpu").last_level_cache_bytes)
    step = workload("decode").build(spec, loaded)
    ranges = Ranges()
    step.reset()
    step.run()
    ratios, bare = [], []
    for pair in range(options.pairs):
        times = {}
        # Which of the two goes first alternates, so that order has no side.
        for annotated in (pair % 2 == 0, pair % 2 == 1):
            around = (
                annotate_modules(loaded.model, ranges) if annotated else contextlib.nullcontext()
            )
            times[annotated] = seconds(step, around)
        bare.append(times[False])
        ratios.append(times[True] / times[False])
    opened = sum(1 for path, _ in loaded.model.named_modules() if path)
    print(f"{options.layers} layers of the 7B, {opened} ranges a step, {options.pairs} pairs")
    print(f"bare step          {statistics.median(bare) * 1e3:9.1f} ms (median)")
    print(f"annotated / bare   {statistics.median(ratios):9.3f} (median of pairs)")
    print(f"                   {min(ratios):9.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
