"""R06: a decode attention kernel reads K and V once per query head from L2."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_numbers import bandwidth_share, flop_share
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import (
    ATTENTION_BYTES_MIN,
    DECODE_BANDWIDTH_LOW,
    L2_REREAD_MIN,
    MEMORY_BOUND_FLOP_SHARE_MAX,
)
from rooflens.reports.format import bytes_text, percent_text, ratio_text


def detect(evidence: Evidence) -> Answer:
    rows = evidence.rows_of("attention")
    if not rows:
        return CannotLook("no fused attention kernel is in the capture")
    measured = [
        row
        for row in rows
        if evidence.kernels[row].dram_bytes.value is not None
        and evidence.kernels[row].l2_bytes.value is not None
        and bandwidth_share(evidence.kernels[row], evidence.roof) is not None
    ]
    if not measured:
        first = evidence.kernels[rows[0]]
        reason = first.dram_bytes.absent or first.l2_bytes.absent or "no share of the DRAM roof"
        return CannotLook(f"{first.short_name} has no DRAM and L2 bytes to compare: {reason}")
    found: dict[int, tuple[float, float]] = {}
    evidence_lines = []
    without_flops = False
    for row in measured:
        kernel = evidence.kernels[row]
        moved, through_l2 = kernel.dram_bytes.value or 0, kernel.l2_bytes.value or 0
        share = bandwidth_share(kernel, evidence.roof) or 0
        if moved < ATTENTION_BYTES_MIN.value or share >= DECODE_BANDWIDTH_LOW.value:
            continue
        flops = flop_share(kernel, evidence.roof)
        if flops is not None and flops > MEMORY_BOUND_FLOP_SHARE_MAX.value:
            continue
        if through_l2 / moved < L2_REREAD_MIN.value:
            continue
        without_flops = without_flops or flops is None
        time = (kernel.duration_ns.value or 0) * kernel.count
        found[row] = (0.0, time * (1 - share / DECODE_BANDWIDTH_LOW.value))
        evidence_lines.append(
            f"{kernel.short_name}: {bytes_text(moved)} from DRAM, {bytes_text(through_l2)} through "
            f"L2 ({ratio_text(through_l2 / moved)}), {percent_text(share)} of the DRAM roof"
        )
    if not found:
        return None
    return Claim(
        title="Attention reads K and V per query head: L2 carries several times the DRAM bytes",
        kernel_ns=found,
        no_bytes="DRAM moves the bytes once; the repeated reads are served by L2",
        confidence="low" if without_flops else "medium",
        confidence_reason="bytes are measured; that the query heads of a group are the reason is "
        "inferred"
        + ("; FLOPs are not measured: it may be bound by compute" if without_flops else ""),
        evidence=tuple(evidence_lines[:4]),
    )


RULE = Rule(
    id="R06-gqa-not-packed",
    needs=("kernels",),
    looks_for="a decode attention kernel whose L2 traffic is a multiple of its DRAM traffic",
    clear="Attention kernels reach the DRAM roof or read K and V about once",
    why=(
        "With grouped heads each key serves several query heads. A kernel that gives every query "
        "head its own block reads each key once per head: L2 bandwidth becomes the limit."
    ),
    remedy=(
        "Use a kernel that packs the group (FlashAttention pack_gqa, FlashInfer with tensor cores "
        "for groups of 4 and more); check that the group size has an instantiation"
    ),
    fixed_in="sparkinfer#863: group 6 had no instantiation, 1.10 times the decode rate after",
    example="28 query and 4 KV heads: 67 MB from DRAM, 470 MB through L2 at 35 % of the roof",
    limits="Packing lowers the number of blocks and was slower in VeloxQuant-MLX#307.",
    thresholds=(ATTENTION_BYTES_MIN, DECODE_BANDWIDTH_LOW, L2_REREAD_MIN),
    detect=detect,
)
