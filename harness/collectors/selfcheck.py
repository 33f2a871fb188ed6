"""Do the counters show work that is known? One GEMM of 2MNK, one copy of known bytes."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.harness.probe_kernels import COPY, GEMM, GEMM_FLOPS
from rooflens.model import Check, Launch
from rooflens.reports.format import bytes_text, flops_text, percent_text

TOLERANCE = 0.02
COPY_BYTES = 4 << 30
"""Read and written together: so large that what stays in the L2 is within the tolerance."""


def copy_bytes(free_device_bytes: int | None) -> int:
    """Bytes to copy (read + written), at most a quarter of the free GPU memory."""
    if free_device_bytes is None:
        return COPY_BYTES
    return min(COPY_BYTES, free_device_bytes // 4 // 4096 * 4096)


def self_check(
    launches: Sequence[Launch], copied_bytes: int, l2_bytes: int | None
) -> tuple[Check, ...]:
    """Judge the probe's counters. `copied_bytes` is read plus written.

    Up to one L2 of written bytes may not have reached DRAM when the kernel ended.
    """
    gemm = _sum(launches, GEMM, "flops")
    moved = _sum(launches, COPY, "dram_bytes")
    slack = TOLERANCE + (l2_bytes or 0) / copied_bytes
    return (
        _judged("self-check-flops", "FLOP counter", gemm, GEMM_FLOPS, TOLERANCE, flops_text),
        _judged("self-check-bytes", "DRAM counter", moved, copied_bytes, slack, bytes_text),
    )


def _sum(launches: Sequence[Launch], name: str, field: str) -> float | str:
    mine = [launch for launch in launches if name in launch.nvtx]
    if not mine:
        return f"no kernel of the {name} was profiled"
    total = 0.0
    for launch in mine:
        quantity = getattr(launch, field)
        if quantity.value is None:
            return str(quantity.absent)
        total += float(quantity.value)
    return total


def _judged(
    id: str, what: str, seen: float | str, known: float, slack: float, text: object
) -> Check:
    assert callable(text)
    if isinstance(seen, str):
        return Check(
            id=id, outcome="could_not_look", message=f"The {what} could not be tried: {seen}."
        )
    off = abs(seen - known) / known
    said = f"The {what} shows {text(seen)} where {text(known)} were done"
    if off <= slack:
        return Check(id=id, outcome="passed", message=f"{said} ({percent_text(off)} off).")
    return Check(
        id=id,
        outcome="failed",
        message=f"{said}: {percent_text(off)} off.",
        fix="Do not use this run's counters; is the GPU idle, and ncu new enough for it?",
    )
