"""R01: the attention scores are written to memory and read back."""

from __future__ import annotations

from rooflens.reports.findings.attention import Composite
from rooflens.reports.findings.dataflow import total_bytes
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, count_text, percent_text, plural


def scores_claim(evidence: Evidence, calls: list[Composite], title: str, remedy: str) -> Claim:
    """The claim for attentions that write their scores (shared with R02)."""
    between = [op for call in calls for op in call.between]
    queries, keys = calls[0].rows
    heads = calls[0].scores.outputs[0].bytes // _row_bytes(calls[0])
    consumers = {call.scores.index: call.scores.outputs[0].bytes for call in calls}
    for call in calls:
        last = {tensor.id: tensor.bytes for op in call.between for tensor in op.outputs}
        consumers[call.values.index] = sum(
            tensor.bytes for tensor in call.values.inputs if tensor.id in last
        )
    saved = {op.index: op.bytes_in + op.bytes_out for op in between}
    total = total_bytes(between)
    names = ", ".join(dict.fromkeys(op.name.removeprefix("aten.") for op in calls[0].between))
    return Claim(
        title=title.format(
            per_call=plural(len(calls[0].between) + 1, "tensor"),
            shape=f"{heads}×{queries}×{keys}",
            calls=plural(len(calls), "attention"),
        ),
        saved=saved,
        consumers=consumers,
        confidence="high",
        confidence_reason="the score-shaped tensors are in the recorded ops, between two products",
        remedy=remedy + source_of(between),
        evidence=(
            f"{plural(len(between), 'op')} between the two products of {len(calls)} attentions: "
            f"{names}",
            f"each works on {heads} × {count_text(queries)} queries × {count_text(keys)} keys",
            f"they ask for {bytes_text(total)}, {percent_text(total / evidence.step_bytes)} of the "
            "step's requested bytes",
        ),
        ops=tuple(op.index for call in calls for op in (call.scores, call.values)),
    )


def _row_bytes(call: Composite) -> int:
    """Bytes of the scores of one head."""
    output = call.scores.outputs[0]
    queries, keys = call.rows
    count = 1
    for length in output.shape:
        count *= length
    return max(1, queries * keys * output.bytes // count)


def detect(evidence: Evidence) -> Answer:
    calls = [call for call in evidence.composites if not call.safe_softmax]
    if not calls:
        return None
    title = "Attention scores are written to memory: {per_call} of {shape} in each of {calls}"
    return scores_claim(evidence, calls, title, RULE.remedy)


RULE = Rule(
    id="R01-unfused-scores",
    needs=("ops",),
    looks_for="attention scores (queries × keys) that are written to memory between two products",
    clear="No attention writes its scores to memory",
    why=(
        "The queries × keys matrix is written by the first product, read and written again by "
        "scale, mask, casts and softmax, and read once more by the second product. A fused "
        "attention keeps it on chip; the cost grows with the square of the prompt."
    ),
    remedy=(
        'Load the model with attn_implementation="sdpa" (or "flash_attention_2"), do not ask for '
        "output_attentions; in own code call torch.nn.functional.scaled_dot_product_attention"
    ),
    fixed_in="transformers takes sdpa by default since 4.36; torch has it since 2.0",
    example=(
        "Qwen2.5-7B, prefill of 2048 tokens, eager: 140 ops on 28×2048×2048 scores ask for "
        "92.31 GB of the step's 166.8 GB"
    ),
    limits=(
        "For one query and a short context a composite can be as fast as a fused kernel: look at "
        "the bytes. torch's own composite behind scaled_dot_product_attention is R02."
    ),
    detect=detect,
)
