"""How much slower a step is with the recorder on, and how much of that is per op.

python benchmarks/recorder_overhead.py [--layers 4] [--context 512] [--repeats 7]

Compares medians of the same decode step on the CPU, bare and recorded, interleaved. The recorder is
only on for the one step that is recorded, never for the steps that are timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from rooflens.harness.machine import machine_facts
from rooflens.harness.recorder import record
from rooflens.workloads.models import load_model
from rooflens.workloads.registry import workload


def seconds(call: Callable[[], object], reset: Callable[[], None]) -> float:
    reset()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    spec = workload("decode").spec(layers=options.layers, context=options.context, device="cpu")
    loaded = load_model(spec, machine_facts("cpu").last_level_cache_bytes)
    step = workload("decode").build(spec, loaded)
    ops = record(step.run, loaded.model, cache=step.cache)
    bare, recorded = [], []
    for _ in range(options.repeats):
        bare.append(seconds(step.run, step.reset))
        recorded.append(
            seconds(
                lambda: record(step.run, loaded.model, cache=step.cache, timed=True), step.reset
            )
        )
    plain, slow = statistics.median(bare), statistics.median(recorded)
    print(f"{options.layers} layers of the 7B, {len(ops)} ops, median of {options.repeats}")
    print(f"bare step      {plain * 1e3:9.1f} ms")
    print(f"recorded step  {slow * 1e3:9.1f} ms")
    print(f"ratio          {slow / plain:9.2f}")
    print(f"per op         {(slow - plain) / len(ops) * 1e6:9.1f} us")


if __name__ == "__main__":
    main()
