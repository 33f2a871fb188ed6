"""A step on weights that all layers share, against the same step on full weights.

python benchmarks/shared_weights.py [--layers 4] [--repeats 9]

Sharing is only fair if it does not make the step faster: one layer of the 7B is several times the
last-level cache, so its weights come from DRAM either way. The ratio should be 1 within noise.
A narrow model, whose layer fits the cache, shows why the guard is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from rooflens.architectures import DEFAULT_MODEL, load_config
from rooflens.harness.machine import machine_facts
from rooflens.workloads.models import load_model
from rooflens.workloads.registry import workload
from rooflens.workloads.step import ModelStep


def build(model: str, layers: int, weights: str, cache_bytes: int | None) -> tuple[ModelStep, str]:
    spec = workload("decode").spec(model=model, layers=layers, context=256, weights=weights)
    loaded = load_model(spec, cache_bytes)
    held = f"{loaded.weights}, {loaded.held_bytes / 1e9:.2f} GB"
    return workload("decode").build(spec, loaded), held


def compare(model: str, layers: int, repeats: int, cache_bytes: int | None) -> None:
    steps = {
        name: build(model, layers, name, cache_bytes if name == "dummy" else None)
        for name in ("dummy", "dummy-full")
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, (step, _) in steps.items():
            step.reset()
            started = time.perf_counter()
            step.run()
            if repeat:  # the first round warms up
                times[name].append(time.perf_counter() - started)
    for name, (_, held) in steps.items():
        print(f"  {name:11} {statistics.median(times[name]) * 1e3:9.1f} ms  ({held})")
    ratio = statistics.median(times["dummy"]) / statistics.median(times["dummy-full"])
    print(f"  shared / full {ratio:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    cache = machine_facts("cpu").last_level_cache_bytes
    size = "unknown" if cache is None else f"{cache / 2**20:.0f} MiB"
    print(f"last-level cache {size}; {options.layers} layers, decode")
    print("layers of the 7B (466 MB each)")
    compare(DEFAULT_MODEL, options.layers, options.repeats, cache)
    narrow = load_config(DEFAULT_MODEL) | {
        "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": 4096,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(narrow), "utf-8")
        print("narrow layers (30 MB each) that the guard would not share, shared by force")
        compare(str(path), options.layers, options.repeats, 1)


if __name__ == "__main__":
    main()
