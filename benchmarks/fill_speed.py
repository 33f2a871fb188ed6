"""Filling weights with random values against copying memory, the physical limit.

python benchmarks/fill_speed.py [--mib 1024]

Every speed is bytes written per second to memory that has been touched before; the first touch of
fresh memory is shown beside it, because that is what a first run pays for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from rooflens.workloads.fill import fill, random_block


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    size = parser.parse_args().mib * 1024 * 1024
    target = torch.empty(size // 2, dtype=torch.bfloat16)
    block = random_block(torch.bfloat16, 0, 0.02)
    first = seconds(lambda: fill(target, block))
    tiled = min(seconds(lambda: fill(target, block)) for _ in range(3))
    source = target.clone()
    copied = min(seconds(lambda: target.copy_(source)) for _ in range(3))
    drawn = seconds(lambda: target.normal_()) if size <= 2**30 else None
    print(f"{size / 2**20:.0f} MiB of bfloat16, {torch.get_num_threads()} threads")
    print(f"first touch    {size / first / 1e9:8.2f} GB/s")
    print(f"fill           {size / tiled / 1e9:8.2f} GB/s")
    print(f"copy           {size / copied / 1e9:8.2f} GB/s written")
    print(f"fill / copy    {copied / tiled:8.2f}")
    if drawn is not None:
        print(f"normal_()      {size / drawn / 1e9:8.2f} GB/s (drawing every value)")


if __name__ == "__main__":
    main()
