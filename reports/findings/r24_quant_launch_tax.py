"""R24: activations are quantised by kernels of their own."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import QUANT_TIME_SHARE_MIN
from rooflens.reports.format import percent_text, plural, time_text


def detect(evidence: Evidence) -> Answer:
    everything = evidence.kernel_ns
    if not everything:
        return CannotLook("the kernels have no durations")
    rows = evidence.rows_of("quantise")
    spent = evidence.time_of(rows)
    if not rows or spent / everything < QUANT_TIME_SHARE_MIN.value:
        return None
    launches = sum(evidence.kernels[row].count for row in rows)
    return Claim(
        title=(
            f"Quantising activations takes {percent_text(spent / everything)} of the kernel time: "
            f"{plural(launches, 'launch', 'launches')}"
        ),
        kernel_ns={row: (0.0, evidence.time_of([row])) for row in rows},
        no_bytes="the kernels are short: launches cost more than bytes",
        confidence="medium",
        confidence_reason="the kernels are known by name",
        evidence=(
            f"{time_text(spent)} of {time_text(everything)}",
            *evidence.names_of(rows),
        ),
    )


RULE = Rule(
    id="R24-quant-launch-tax",
    needs=("kernels",),
    looks_for="per-token quantisation in kernels of its own with a visible share of the time",
    clear="Quantising activations takes no visible share of the time",
    why=(
        "Each 8-bit product first needs its input quantised. As a kernel of its own that is one "
        "more launch per projection; at small batches it eats what the narrow product wins."
    ),
    remedy="Fuse quantisation into the norm or activation before it, or keep 16 bits at low batch",
    fixed_in="per library (vLLM: fuse_norm_quant and fuse_act_quant passes)",
    example="112 launches of scaled_fp8_quant in a decode step of 28 layers",
    thresholds=(QUANT_TIME_SHARE_MIN,),
    detect=detect,
)
