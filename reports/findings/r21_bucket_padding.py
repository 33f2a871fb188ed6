"""R21: more rows are computed than there are tokens."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.needed import work
from rooflens.reports.findings.r34_no_kv_cache import NO_THEORY, recomputed
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import PADDING_MIN
from rooflens.reports.format import bytes_text, count_text, flops_text, ratio_text


def detect(evidence: Evidence) -> Answer:
    amount = work(evidence)
    if amount is None:
        return CannotLook(NO_THEORY)
    ratio = amount.rows / amount.rows_needed
    if ratio < PADDING_MIN.value or amount.recomputes_all_keys:
        return None
    saved, flops = recomputed(evidence, amount)
    return Claim(
        title=(
            f"{count_text(amount.rows)} rows are computed for "
            f"{count_text(round(amount.rows_needed))} tokens: the rest is padding"
        ),
        saved=saved,
        saved_flops=flops,
        confidence="medium",
        confidence_reason="rows come from the ops' shapes, tokens from the step's theory",
        evidence=(
            f"projections: {ratio_text(ratio)} of the FLOPs that the tokens need, "
            f"{flops_text(flops)} more",
            f"activations of the padding: {bytes_text(sum(saved.values()))}",
        ),
    )


RULE = Rule(
    id="R21-bucket-padding",
    needs=("ops",),
    looks_for="rows of padding: a graph or pad size above the tokens of the step",
    clear="No padding rows are computed",
    why=(
        "A CUDA graph or a compiled shape has a fixed size; a step that falls between two sizes "
        "computes the larger one. A padded batch pays for its longest text."
    ),
    remedy="Capture denser sizes, pack texts of unequal length instead of padding them",
    fixed_in="no version; sglang#31487 (3208 tokens in a bucket of 8192: 2.55 times the work)",
    example="33 tokens in a bucket of 64: 1.939 times the FLOPs of the projections",
    limits="For a step bound by weight bytes some padding is free: see its time, not its ratio.",
    thresholds=(PADDING_MIN,),
    detect=detect,
)
