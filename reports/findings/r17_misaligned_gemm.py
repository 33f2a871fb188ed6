"""R17: a 16-bit product runs on a kernel for unaligned shapes."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import misaligned_products
from rooflens.reports.findings.kernel_numbers import bandwidth_share, flop_share
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import MISALIGNED_FLOP_SHARE_MAX, THIN_BANDWIDTH_LOW
from rooflens.reports.format import percent_text, plural


def _is_fast(evidence: Evidence, row: int) -> bool:
    """True when the kernel reaches a roof in spite of its family."""
    kernel = evidence.kernels[row]
    compute = flop_share(kernel, evidence.roof)
    memory = bandwidth_share(kernel, evidence.roof)
    return (compute or 0) > MISALIGNED_FLOP_SHARE_MAX.value or (
        memory or 0
    ) >= THIN_BANDWIDTH_LOW.value


def detect(evidence: Evidence) -> Answer:
    if not evidence.rows_of("product"):
        return CannotLook("no matrix product is in the capture")
    rows = [row for row in misaligned_products(evidence) if not _is_fast(evidence, row)]
    if not rows:
        return None
    unaligned = any("align1" in evidence.kernels[row].name for row in rows)
    lines = []
    for row in rows[:5]:
        kernel = evidence.kernels[row]
        share = flop_share(kernel, evidence.roof)
        reached = "" if share is None else f", {percent_text(share)} of peak"
        lines.append(f"{kernel.count} × {kernel.name[:90]}{reached}")
    measured = all(flop_share(evidence.kernels[row], evidence.roof) is not None for row in rows)
    return Claim(
        title=f"{plural(len(rows), 'product')} on kernels for unaligned shapes or tiny tiles",
        kernel_ns={row: (0.0, evidence.time_of([row])) for row in rows if evidence.time_of([row])},
        no_bytes="the loss is a slow kernel, not bytes",
        confidence="high" if unaligned else "medium" if measured else "low",
        confidence_reason=(
            "align1 in the name: the kernel loads one element at a time"
            if unaligned
            else "WMMA or SIMT kernels are the library's fallback family"
        ),
        evidence=tuple(lines),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R17-misaligned-gemm",
    needs=("kernels",),
    looks_for="16-bit products on align1, WMMA or SIMT kernels",
    clear="Products run on kernels for aligned shapes",
    why=(
        "Tensor-core kernels load 16 bytes at a time. When K or N is odd, or a pointer unaligned, "
        "the library falls back to kernels that are up to a hundred times slower."
    ),
    remedy="Pad the dimension to a multiple of 8 (16 for FP8), align storage, drop a fused bias",
    fixed_in="open: pytorch#146817; sglang#37835 (bias epilogue: 4.02 to 0.66 ms)",
    example="cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1",
    limits="For a handful of rows a WMMA kernel can be the right choice: bandwidth decides.",
    thresholds=(MISALIGNED_FLOP_SHARE_MAX, THIN_BANDWIDTH_LOW),
    detect=detect,
)
