"""R16: a product's last wave leaves most of the GPU idle."""

from __future__ import annotations

from math import ceil

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_numbers import bandwidth_share, blocks, flop_share, waves
from rooflens.reports.findings.r15_thin_gemm_low_bw import is_thin
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import WAVE_SHARE_MAX, WAVE_TAIL_WASTE_MIN
from rooflens.reports.format import count_text, percent_text, plural


def detect(evidence: Evidence) -> Answer:
    judged = 0
    lost: dict[int, tuple[float, float]] = {}
    lines = []
    for row in evidence.rows_of("product"):
        kernel = evidence.kernels[row]
        filled = waves(kernel, evidence.machine, evidence.roof)
        compute = flop_share(kernel, evidence.roof)
        memory = bandwidth_share(kernel, evidence.roof)
        if filled is None or compute is None or memory is None:
            continue
        judged += 1
        if is_thin(kernel, evidence):
            continue
        wasted = 1 - filled / ceil(filled) if filled > 1 else 0.0
        if wasted < WAVE_TAIL_WASTE_MIN.value or max(compute, memory) > WAVE_SHARE_MAX.value:
            continue
        lost[row] = (0.0, evidence.time_of([row]) * wasted)
        lines.append(
            f"{kernel.short_name}: {count_text(blocks(kernel) or 0)} blocks, {filled:.2f} waves, "
            f"{percent_text(compute)} of peak"
        )
    if not judged:
        return CannotLook("no product has a grid, a duration and its shares of the roofs")
    if not lost:
        return None
    return Claim(
        title=f"{plural(len(lost), 'product')} whose last wave is nearly empty",
        kernel_ns=lost,
        no_bytes="the loss is idle multiprocessors, not bytes",
        confidence="medium",
        confidence_reason="waves are computed from the grid; blocks may differ in length",
        evidence=tuple(lines[:5]),
    )


RULE = Rule(
    id="R16-tile-wave-waste",
    needs=("kernels",),
    looks_for="products whose block count is just above a multiple of what the GPU holds",
    clear="No product loses much in its last wave",
    why=(
        "Blocks run in waves. With 133 blocks on 132 multiprocessors the last block runs alone and "
        "the product takes twice as long as it should."
    ),
    remedy="Choose another tile or stream-K (cuBLASLt heuristics, autotune), or pad or split M",
    fixed_in="per library",
    example="133 blocks on 132 multiprocessors: 1.01 waves, half of the second is empty",
    limits="Persistent kernels (grid = multiprocessors) schedule tiles themselves: not judged.",
    thresholds=(WAVE_TAIL_WASTE_MIN, WAVE_SHARE_MAX),
    detect=detect,
)
