"""R07: an attention kernel has fewer blocks than the GPU has multiprocessors."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import rows_of
from rooflens.reports.findings.kernel_numbers import (
    bandwidth_share,
    blocks,
    flop_share,
    multiprocessors,
    waves,
)
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import (
    ATTENTION_BYTES_MIN,
    DECODE_BANDWIDTH_LOW,
    MEMORY_BOUND_FLOP_SHARE_MAX,
)
from rooflens.reports.format import bytes_text, count_text, percent_text


def detect(evidence: Evidence) -> Answer:
    rows = rows_of(evidence.kernels, "attention")
    if not rows:
        return CannotLook("no fused attention kernel is in the capture")
    judged = 0
    found: dict[int, tuple[float, float]] = {}
    lines = []
    for row in rows:
        kernel = evidence.kernels[row]
        filled = waves(kernel, evidence.machine)
        share = bandwidth_share(kernel, evidence.roof)
        if filled is None or share is None:
            continue
        judged += 1
        small = (kernel.dram_bytes.value or 0) < ATTENTION_BYTES_MIN.value
        busy = (flop_share(kernel, evidence.roof) or 0) > MEMORY_BOUND_FLOP_SHARE_MAX.value
        underfilled = filled < 1 and _fewer_blocks_than_sms(evidence, row)
        if small or busy or not underfilled or share >= DECODE_BANDWIDTH_LOW.value:
            continue
        time = (kernel.duration_ns.value or 0) * kernel.count
        found[row] = (0.0, time * (1 - share / DECODE_BANDWIDTH_LOW.value))
        lines.append(
            f"{kernel.short_name}: {count_text(blocks(kernel) or 0)} blocks "
            f"({filled:.2f} waves), {bytes_text(kernel.dram_bytes.value or 0)} at "
            f"{percent_text(share)} of the DRAM roof"
        )
    if not judged:
        return CannotLook("the attention kernels have no grid with bytes and a duration")
    if not found:
        return None
    return Claim(
        title="An attention kernel does not fill the GPU: fewer blocks than multiprocessors",
        kernel_ns=found,
        no_bytes="the bytes are needed; they move too slowly",
        confidence="high",
        confidence_reason="grid, bytes and time are measured",
        evidence=tuple(lines[:4]),
    )


def _fewer_blocks_than_sms(evidence: Evidence, row: int) -> bool:
    """Blocks below SMs where both are known; otherwise the waves have to do."""
    count, sms = blocks(evidence.kernels[row]), multiprocessors(evidence.machine)
    return True if count is None or sms is None else count < sms


RULE = Rule(
    id="R07-decode-attn-underfilled",
    needs=("kernels",),
    looks_for="an attention kernel with fewer blocks than the GPU has multiprocessors",
    clear="Attention kernels fill the GPU or reach the DRAM roof",
    why=(
        "Decode attention has one block per KV head and sequence unless the keys are split. A few "
        "blocks cannot keep the memory busy, however long the context is."
    ),
    remedy=(
        "Split the keys (flash-decoding: num_splits, FlashInfer's scheduler) or choose another "
        "attention backend for small batches"
    ),
    fixed_in="flashinfer#4904: 111.9 to 81.3 µs; TileOPs#2136: 198 to 135 µs on an H200",
    example="28 blocks on 132 multiprocessors at 9 % of the DRAM roof",
    limits="The name flash_fwd_splitkv does not prove a split: the grid does.",
    thresholds=(ATTENTION_BYTES_MIN, DECODE_BANDWIDTH_LOW, MEMORY_BOUND_FLOP_SHARE_MAX),
    detect=detect,
)
