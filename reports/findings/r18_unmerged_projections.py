"""R18: projections of the same input run as separate products."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import LINEARS, base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural

_FAMILIES = {
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up",
}  # fmt: skip


def _groups(evidence: Evidence) -> list[tuple[list[Op], int]]:
    """Products of one family that read the same activation, with that activation's bytes."""
    groups: dict[tuple[int | None, str, int], list[Op]] = {}
    sizes: dict[tuple[int | None, str, int], int] = {}
    for op in evidence.of_class(*_FAMILIES):
        if base_name(op) not in LINEARS:
            continue
        for tensor in op.inputs:
            if tensor.role == "weight":
                continue
            key = (op.layer, _FAMILIES[op.op_class], tensor.id)
            groups.setdefault(key, []).append(op)
            sizes[key] = tensor.bytes
    return [(ops, sizes[key]) for key, ops in groups.items() if len(ops) > 1]


def detect(evidence: Evidence) -> Answer:
    groups = _groups(evidence)
    if not groups:
        return None
    saved = {op.index: size for ops, size in groups for op in ops[1:]}
    total = sum(saved.values())
    launches = sum(len(ops) - 1 for ops, _ in groups)
    families = sorted({_FAMILIES[ops[0].op_class] for ops, _ in groups}, reverse=True)
    return Claim(
        title=(
            f"{' and '.join(families)} run unmerged: {plural(launches, 'product')} a step read an "
            "input that the one before just read"
        ),
        saved=saved,
        confidence="high",
        confidence_reason="the products read the same tensor, in the same layer",
        remedy=RULE.remedy + source_of(groups[0][0]),
        evidence=(
            f"the input is read again for {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            f"{launches} launches could go; k and v alone are too small to fill a GPU",
        ),
    )


RULE = Rule(
    id="R18-unmerged-projections",
    needs=("ops",),
    looks_for="q, k, v (and gate, up) as separate products of one input",
    clear="Projections of one input are merged",
    why=(
        "Three products read the same activation three times, and the small ones (k and v of "
        "grouped heads) leave most of a GPU idle. At batch 1 it is launches more than bytes."
    ),
    remedy="Concatenate the weights into one qkv_proj and one gate_up_proj (vLLM and SGLang do)",
    fixed_in="not in transformers' Qwen2 and Llama: their weights stay separate",
    example="Qwen2.5-7B, prefill of 2048 tokens: 1.233 GB of repeated reads, 84 launches",
    limits="With adapters or quantisation per projection merging can be impossible.",
    detect=detect,
)
