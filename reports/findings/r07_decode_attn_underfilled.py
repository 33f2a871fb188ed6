"""R07: an attention kernel has fewer blocks than the GPU has multiprocessors."""

from __future__ import annotations

from rooflens.model import KernelRow
from rooflens.reports.findings.evidence import Evidence
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
    rows = evidence.rows_of("attention")
    if not rows:
        return CannotLook("no fused attention kernel is in the capture")
    found: dict[int, tuple[float, float]] = {}
    lines = []
    unknown = ""
    without_flops = False
    for row in rows:
        kernel = evidence.kernels[row]
        if _fills(evidence, kernel):
            continue
        share, flops = bandwidth_share(kernel, evidence.roof), flop_share(kernel, evidence.roof)
        moved = kernel.dram_bytes.value
        if share is None or moved is None:
            unknown = unknown or _why_unknown(evidence, kernel)
            continue
        small = moved < ATTENTION_BYTES_MIN.value
        busy = flops is not None and flops > MEMORY_BOUND_FLOP_SHARE_MAX.value
        filled = waves(kernel, evidence.machine, evidence.roof)
        if filled is None:
            unknown = unknown or _why_unknown(evidence, kernel)
        elif not (small or busy or filled >= 1 or share >= DECODE_BANDWIDTH_LOW.value):
            time = evidence.time_of([row])
            without_flops = without_flops or flops is None
            found[row] = (0.0, time * (1 - share / DECODE_BANDWIDTH_LOW.value))
            lines.append(
                f"{kernel.short_name}: {count_text(blocks(kernel) or 0)} blocks "
                f"({filled:.2f} waves), {bytes_text(moved)} at "
                f"{percent_text(share)} of the DRAM roof"
            )
    if not found:
        return CannotLook(unknown) if unknown else None
    return Claim(
        title="An attention kernel does not fill the GPU: fewer blocks than multiprocessors",
        kernel_ns=found,
        no_bytes="the bytes are needed; they move too slowly",
        confidence="medium" if without_flops else "high",
        confidence_reason="grid, bytes and time are measured"
        + ("; FLOPs are not: it may be bound by compute" if without_flops else ""),
        evidence=tuple(lines[:4]),
    )


def _fills(evidence: Evidence, kernel: KernelRow) -> bool:
    """True when there is a block for every multiprocessor: then this rule has nothing to say."""
    count, sms = blocks(kernel), multiprocessors(evidence.machine, evidence.roof)
    return count is not None and sms is not None and count >= sms


def _why_unknown(evidence: Evidence, kernel: KernelRow) -> str:
    """What is missing to judge a kernel that may not fill the GPU."""
    if blocks(kernel) is None:
        return f"{kernel.short_name} has no grid in the capture"
    if multiprocessors(evidence.machine, evidence.roof) is None:
        return (
            f"{kernel.short_name} has {count_text(blocks(kernel) or 0)} blocks, but the GPU is "
            "not named in the capture"
        )
    reason = kernel.dram_bytes.absent or "no share of the DRAM roof"
    return f"{kernel.short_name} has no DRAM rate: {reason}"


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
