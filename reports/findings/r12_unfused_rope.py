"""R12: the rotary embedding runs as a chain of elementwise ops."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.groups import by_layer, fusing_texts, saved_by_fusing
from rooflens.reports.findings.kernel_names import rope_fragments
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import ROPE_OPS_MIN
from rooflens.reports.format import plural


def detect(evidence: Evidence) -> Answer:
    rotations = [
        op for op in evidence.of_class("rope") if op.part != "tables" and op.layer is not None
    ]
    groups = [group for group in by_layer(rotations).values() if len(group) >= ROPE_OPS_MIN.value]
    if not groups:
        return _from_kernels(evidence) if not evidence.ops else None
    saved = saved_by_fusing(groups, evidence)
    ops = sum(len(group) for group in groups)
    return Claim(
        title=(
            f"The rotary embedding of {plural(len(groups), 'layer')} runs as {plural(ops, 'op')}: "
            f"{round(ops / len(groups))} a layer where one is enough"
        ),
        saved=saved,
        confidence="high",
        confidence_reason="the ops between the projections and attention are recorded",
        remedy=RULE.remedy + source_of(groups[0]),
        evidence=fusing_texts(groups, saved, "layer", evidence),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = rope_fragments(evidence)
    if not rows:
        return None
    launches = sum(evidence.kernels[row].count for row in rows)
    return Claim(
        title=f"The rotary embedding runs in pieces: neg is launched {plural(launches, 'time')}",
        no_bytes="which bytes the pieces moved is unknown without recorded ops",
        confidence="low",
        confidence_reason="neg kernels of eager PyTorch are almost only used by rotate_half",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R12-unfused-rope",
    needs=("ops", "kernels"),
    looks_for="rotary embedding as a chain of neg, cat, mul and add",
    clear="The rotary embedding is fused",
    why=(
        "rotate_half in eager PyTorch is neg, cat, two products and a sum for q and again for k: "
        "20 bytes per element where 4 are needed, and ten launches a layer."
    ),
    remedy=(
        "Use a fused rotary kernel (vLLM, FlashInfer or Liger; transformers with use_kernels=True) "
        "or torch.compile; compute cos and sin once per step"
    ),
    fixed_in="pytorch#176223: 100 kernels become 10 under torch.compile",
    example="Qwen2.5-7B, decode: 280 ops for 28 layers",
    thresholds=(ROPE_OPS_MIN,),
    detect=detect,
)
