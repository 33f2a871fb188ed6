"""R26: experts run one by one."""

from __future__ import annotations

from rooflens.reports.findings.dataflow import LINEARS, base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.groups import by_layer
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import EXPERT_PRODUCTS_MIN
from rooflens.reports.format import plural


def detect(evidence: Evidence) -> Answer:
    experts = evidence.of_class("experts")
    looped = {
        layer: products
        for layer, ops in by_layer(experts).items()
        if len(products := [op for op in ops if base_name(op) in LINEARS])
        >= EXPERT_PRODUCTS_MIN.value
    }
    if not looped:
        return None
    products = [op for ops in looped.values() for op in ops]
    rows = sorted({op.outputs[0].shape[0] for op in products})
    waits = [op for op in experts if base_name(op) in {"aten._local_scalar_dense", "aten.nonzero"}]
    others = len(experts) - len(products)
    return Claim(
        title=(
            f"Experts run one by one: {plural(len(products), 'product')} in "
            f"{plural(len(looped), 'layer')}"
        ),
        no_bytes="the loop costs launches and waits; the experts' weights are read once either way",
        confidence="high",
        confidence_reason="the products of single experts are recorded",
        remedy=RULE.remedy + source_of(products),
        evidence=(
            f"{rows[0]} to {rows[-1]} rows a product",
            f"{len(waits)} reads back to the host decide which expert comes next",
            f"{others} further ops gather, weigh and add the experts' rows",
        ),
        ops=tuple(op.index for op in (*products, *waits)),
    )


RULE = Rule(
    id="R26-moe-tiny-gemm",
    needs=("ops",),
    looks_for="experts of a Mixture-of-Experts layer that run one by one",
    clear="Experts, if any, run in grouped products",
    why=(
        "Each active expert gets a few tokens: its product is too small to fill the GPU, and the "
        "loop over experts asks the host for each next one."
    ),
    remedy=(
        'Use grouped products: model.set_experts_implementation("grouped_mm") in transformers, '
        "fused_moe in vLLM and SGLang"
    ),
    fixed_in="transformers 5.24 has grouped_mm experts",
    example="8 experts, top 2, one layer: 4 expert products and 10 reads back in one decode step",
    thresholds=(EXPERT_PRODUCTS_MIN,),
    detect=detect,
)
