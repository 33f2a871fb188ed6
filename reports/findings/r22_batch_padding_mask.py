"""R22: an explicit mask is handed to the fused attention."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import LINEARS, base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import efficient_attention
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural


def _makes_mask(op: Op) -> bool:
    """Accept what builds a mask: anything that reads no weight and is no product."""
    weights = any(tensor.role == "weight" for tensor in op.inputs)
    return not weights and base_name(op) not in LINEARS and not op.flops


def detect(evidence: Evidence) -> Answer:
    calls = [call for call in evidence.fused if call.mask is not None]
    if not calls:
        return _from_kernels(evidence) if not evidence.ops else None
    saved: dict[int, int] = {}
    for call in calls:
        mask = call.mask
        assert mask is not None
        saved[call.op.index] = mask.bytes
        for op in evidence.flow.sources(call.op, mask, _makes_mask):
            saved[op.index] = op.bytes_in + op.bytes_out
    total = sum(saved.values())
    shape = "×".join(str(length) for length in calls[0].mask.shape) if calls[0].mask else ""
    return Claim(
        title=f"{plural(len(calls), 'attention')} take an explicit mask of {shape}",
        saved=saved,
        confidence="medium",
        confidence_reason="the mask is among the call's inputs; which kernel the GPU then chooses "
        "is not seen here",
        remedy=RULE.remedy + source_of([calls[0].op]),
        evidence=(
            f"masks built and read: {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            "FlashAttention kernels of torch take no mask: the call runs on the memory-efficient "
            "kernel or the composite",
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = efficient_attention(evidence)
    if not rows:
        return None
    return Claim(
        title="Attention runs on torch's memory-efficient kernel, as it does when a mask is passed",
        no_bytes="whether a mask was passed, and how large, is unknown without recorded ops",
        confidence="low",
        confidence_reason="fp32 or an old GPU also lead to this kernel",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R22-batch-padding-mask",
    needs=("ops", "kernels"),
    looks_for="an explicit attention mask where causal attention or lengths would do",
    clear="No fused attention takes an explicit mask",
    why=(
        "With a mask torch cannot use its FlashAttention kernel, transformers expands K and V for "
        "a prefill, and each layer builds and reads a mask of queries × keys."
    ),
    remedy=(
        "Pass no attention_mask when no text is padded; pack texts (varlen attention) instead of "
        "padding; for chunks use causal_lower_right or FlashAttention, which align by themselves"
    ),
    fixed_in="transformers#47094: a StaticCache prefill without a mask (+260 % at 8k to 16k)",
    example="two texts of 48 tokens, one padded: a 2×1×48×48 mask in each layer",
    limits="A batch of unequal texts or a static cache needs its mask in this form.",
    detect=detect,
)
