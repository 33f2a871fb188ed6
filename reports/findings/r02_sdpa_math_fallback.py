"""R02: scaled_dot_product_attention was called and torch ran its composite."""

from __future__ import annotations

from dataclasses import replace

from rooflens.model import Op
from rooflens.reports.findings.attention import Composite
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.r01_unfused_scores import scores_claim
from rooflens.reports.findings.rule import Answer, Rule
from rooflens.reports.format import bytes_text, plural

_PREPARATION = frozenset({
    "aten._to_copy", "aten.mul", "aten.where", "aten.ones", "aten.tril", "aten.scalar_tensor",
    "aten.masked_fill", "aten.zeros", "aten.full", "aten.logical_not", "aten.fill_",
})  # fmt: skip
"""What the composite does to its inputs before the first product."""

_THROUGH = _PREPARATION | {"aten.clone"}
"""Also walked through: the copy of expanded keys, which is R03's."""


def _preparation(evidence: Evidence, call: Composite) -> list[Op]:
    """Casts, scaling and mask building around the two products, and the cast of the result."""
    flow = evidence.flow
    found: dict[int, Op] = {}
    for step in (call.scores, *call.between, call.values):
        for tensor in step.inputs:
            for op in flow.sources(step, tensor, lambda op: base_name(op) in _THROUGH):
                if base_name(op) in _PREPARATION and op.index > 0:
                    found[op.index] = op
    for op in flow.readers(call.values):
        if base_name(op) == "aten._to_copy":
            found[op.index] = op
    inside = {op.index for op in call.between}
    return [op for index, op in sorted(found.items()) if index not in inside]


def detect(evidence: Evidence) -> Answer:
    calls = [call for call in evidence.composites if call.safe_softmax]
    if not calls:
        return None
    title = (
        "scaled_dot_product_attention fell back to its composite: {per_call} of {shape} in each "
        "of {calls}"
    )
    claim = scores_claim(evidence, calls, title, RULE.remedy)
    around = [op for call in calls for op in _preparation(evidence, call)]
    extra = {op.index: op.bytes_in + op.bytes_out for op in around}
    return replace(
        claim,
        saved={**claim.saved, **extra},
        confidence_reason="_safe_softmax between two products is used by torch's composite only",
        evidence=(
            *claim.evidence,
            f"{plural(len(around), 'op')} around the products (casts, scaling, mask) ask for "
            f"{bytes_text(sum(extra.values()))}",
        ),
    )


RULE = Rule(
    id="R02-sdpa-math-fallback",
    needs=("ops",),
    looks_for="torch's composite (MATH) behind scaled_dot_product_attention",
    clear="No scaled_dot_product_attention fell back to the composite",
    why=(
        "A constraint removed every fused backend: a head dimension above 256, fp32 or a float "
        "mask together with enable_gqa, grouped heads on a GPU older than sm80. The composite "
        "casts q, k and v, expands the heads, and writes the scores in fp32."
    ),
    remedy=(
        "Ask torch which constraint it is: torch.backends.cuda.can_use_flash_attention(params, "
        "debug=True) and can_use_efficient_attention; then pass no mask, or expand the heads "
        "only where enable_gqa has no fused kernel, or pad the head dimension"
    ),
    fixed_in="transformers#48633 (closed) describes one case: enable_gqa on a T4",
    example="Qwen2.5-7B under SDPBackend.MATH, 2048 tokens: fp32 scores of 469.8 MB a layer",
    limits="Found by torch's own _safe_softmax; other libraries' fallbacks are R01.",
    detect=detect,
)
