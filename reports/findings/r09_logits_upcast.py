"""R09: the logits are copied to fp32."""

from __future__ import annotations

from rooflens.reports.findings.dataflow import base_name, total_bytes
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.r08_all_position_logits import lm_heads
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, count_text, percent_text

_CASTS = frozenset({"aten._to_copy", "aten.to", "aten.copy_"})


def detect(evidence: Evidence) -> Answer:
    casts = [
        reader
        for head in lm_heads(evidence)
        for reader in evidence.flow.readers(head)
        if base_name(reader) in _CASTS
        and reader.outputs
        and reader.outputs[0].dtype in {"float32", "float64"}
        and head.outputs[0].dtype not in {"float32", "float64"}
        and reader.outputs[0].shape[-1] == head.outputs[0].shape[-1]
    ]
    if not casts:
        return None
    total = total_bytes(casts)
    output = casts[0].outputs[0]
    rows = output.bytes // output.shape[-1] // (8 if output.dtype == "float64" else 4)
    consumers = {
        reader.index: output.bytes - casts[0].bytes_in for reader in evidence.flow.readers(casts[0])
    }
    return Claim(
        title=(
            f"The logits are copied to {output.dtype}: {count_text(rows)} × "
            f"{count_text(output.shape[-1])} values"
        ),
        saved={op.index: op.bytes_in + op.bytes_out for op in casts},
        consumers=consumers,
        confidence="high",
        confidence_reason="the cast reads the output of lm_head",
        remedy=RULE.remedy + source_of(casts),
        evidence=(
            f"{casts[0].name}: {bytes_text(casts[0].bytes_in)} read, "
            f"{bytes_text(casts[0].bytes_out)} written "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
        ),
    )


RULE = Rule(
    id="R09-logits-upcast",
    needs=("ops",),
    looks_for="a copy of the logits in fp32",
    clear="The logits are not copied to fp32",
    why=(
        "Casting all logits makes a second tensor of twice the size before anything is sampled. "
        "With logits for many positions it is often the largest allocation of the step."
    ),
    remedy=(
        "Sample from the model's own dtype, or cast inside the sampling kernel or only the rows "
        "(and candidates) that are sampled: drop logits.float()"
    ),
    fixed_in="vllm#48641 and transformers#33902 removed such copies",
    example="logits.float() for 2048 positions of Qwen2.5-7B: 622.9 MB read, 1.246 GB written",
    limits="For one row per sequence the copy is small: see its share of the step.",
    detect=detect,
)
