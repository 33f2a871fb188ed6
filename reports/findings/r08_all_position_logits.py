"""R08: lm_head runs over every prompt position."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import LINEARS, base_name, numel
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.needed import attention_shape
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import VERIFY_TOKENS_MAX
from rooflens.reports.format import bytes_text, count_text, flops_text, percent_text


def lm_heads(evidence: Evidence) -> list[Op]:
    """The products of the output projection."""
    return [op for op in evidence.of_class("lm_head") if base_name(op) in LINEARS]


def logit_rows(op: Op) -> int:
    """Positions for which the op computes logits."""
    output = op.outputs[0]
    return numel(output) // output.shape[-1]


def sequences(evidence: Evidence) -> int | None:
    """Sequences in the batch, from the attention calls; None when no attention was recognised."""
    if evidence.fused:
        return evidence.fused[0].batch
    for call in evidence.composites:
        for op in call.between:
            if len(op.outputs[0].shape) == 4:
                return op.outputs[0].shape[0]
    return None


def _is_first_pass(evidence: Evidence) -> bool:
    """True when the step attends to nothing but its own tokens: a prefill, however short."""
    shape = attention_shape(evidence)
    return shape is not None and shape.queries == shape.keys


def detect(evidence: Evidence) -> Answer:
    heads = lm_heads(evidence)
    if not heads:
        return None
    batch = sequences(evidence)
    if batch is None:
        return CannotLook("no attention was recognised, so the number of sequences is unknown")
    head = max(heads, key=logit_rows)
    rows = logit_rows(head)
    if rows <= batch or (rows / batch <= VERIFY_TOKENS_MAX.value and not _is_first_pass(evidence)):
        return None
    spare = (rows - batch) / rows
    activations = [tensor for tensor in head.inputs if tensor.role != "weight"]
    weights = [tensor for tensor in head.inputs if tensor.role == "weight"]
    if not weights:
        weight = min(activations, key=lambda tensor: abs(numel(tensor) - _weight_size(head)))
        activations = [tensor for tensor in activations if tensor is not weight]
    per_row = sum(tensor.bytes for tensor in activations) + head.bytes_out
    saved = int(per_row * spare)
    flops = int(head.flops * spare)
    return Claim(
        title=(
            f"Logits are computed for {count_text(rows)} positions; the next token of "
            f"{count_text(batch)} needs {count_text(batch)}"
        ),
        saved={head.index: saved},
        saved_flops=flops,
        confidence="medium",
        confidence_reason="the rows of lm_head are counted; whether all logits are wanted "
        "(scoring, perplexity, training) cannot be seen from here",
        remedy=RULE.remedy + source_of([head]),
        evidence=(
            f"lm_head: {count_text(rows)} rows × {count_text(head.outputs[0].shape[-1])} logits, "
            f"{bytes_text(head.bytes_out)} written",
            f"{flops_text(flops)} and {bytes_text(saved)} of it are for positions that are not "
            f"sampled ({percent_text(saved / evidence.step_bytes)} of the step's requested bytes)",
        ),
    )


def _weight_size(head: Op) -> int:
    output = head.outputs[0]
    inner = max(
        (tensor.shape[-1] for tensor in head.inputs if tensor.shape[-1] != output.shape[-1]),
        default=1,
    )
    return inner * output.shape[-1]


RULE = Rule(
    id="R08-all-position-logits",
    needs=("ops",),
    looks_for="an output projection over all prompt positions where only the last is sampled",
    clear="Logits are computed only where a token can be sampled",
    why=(
        "A prefill needs the logits of the last position of each sequence. Computing them for "
        "every position multiplies the FLOPs of the largest matrix of the model by the prompt "
        "length and writes prompt × vocabulary values that nobody reads."
    ),
    remedy="Call the model with logits_to_keep=1 (generate() does so by itself)",
    fixed_in="transformers 4.45 and newer take it (first as num_logits_to_keep); default: all",
    example=(
        "Qwen2.5-7B, prefill of 2048 tokens: 637.2 MB and 2.231 TFLOP for 2,047 idle positions"
    ),
    limits="Scoring and perplexity runs need all logits; a verify step needs those of its tokens.",
    thresholds=(VERIFY_TOKENS_MAX,),
    detect=detect,
)
