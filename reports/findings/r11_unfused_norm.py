"""R11: a norm runs as a chain of elementwise ops."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.groups import fusing_texts, runs_of, saved_by_fusing
from rooflens.reports.findings.kernel_names import norm_fragments
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import NORM_OPS_MIN
from rooflens.reports.format import plural


def detect(evidence: Evidence) -> Answer:
    groups = [
        group
        for group in runs_of(evidence.of_class("norm"), lambda op: op.module)
        if len(group) >= NORM_OPS_MIN.value
    ]
    if not groups:
        return _from_kernels(evidence) if not evidence.ops else None
    saved = saved_by_fusing(groups, evidence)
    asked, share = fusing_texts(groups, saved, "norm", evidence)
    ops = sum(len(group) for group in groups)
    return Claim(
        title=(
            f"{plural(len(groups), 'norm')} run as {plural(ops, 'op')}: "
            f"{round(ops / len(groups))} each where one is enough"
        ),
        saved=saved,
        confidence="high",
        confidence_reason="the ops of each norm are recorded; one call would read its input once",
        remedy=RULE.remedy + source_of(groups[0][:1]),
        evidence=(
            asked,
            f"ops of one: {', '.join(op.name.removeprefix('aten.') for op in groups[0])}",
            share,
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = norm_fragments(evidence)
    if not rows:
        return None
    launches = sum(evidence.kernels[row].count for row in rows)
    return Claim(
        title=f"Norms run in pieces: {plural(launches, 'launch', 'launches')} of mean and rsqrt",
        no_bytes="which of a norm's bytes each kernel moved is unknown without recorded ops",
        confidence="medium",
        confidence_reason="mean and rsqrt kernels of eager PyTorch stand beside each other",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R11-unfused-norm",
    needs=("ops", "kernels"),
    looks_for="RMSNorm or LayerNorm as a chain of elementwise ops",
    clear="Each norm is one call",
    why=(
        "RMSNorm in eager PyTorch is a cast to fp32, pow, mean, add, rsqrt, two products and a "
        "cast back: 36 bytes per element where 4 are needed, and eight launches for one. In decode "
        "the launches weigh more than the bytes."
    ),
    remedy=(
        "Use a fused RMSNorm (with the residual add: vLLM, Liger or FlashInfer kernels, "
        "torch.nn.functional.rms_norm on CUDA) or torch.compile"
    ),
    fixed_in="recent transformers load a fused RMSNorm with use_kernels=True",
    example="Qwen2.5-7B, prefill of 2048 tokens: 57 norms as 456 ops, 15.06 GB where 1.674 GB do",
    limits="The fp32 arithmetic inside is wanted; only its traffic is not.",
    thresholds=(NORM_OPS_MIN,),
    detect=detect,
)
