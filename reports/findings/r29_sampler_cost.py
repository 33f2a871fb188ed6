"""R29: sampling sorts the whole vocabulary."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import base_name, numel
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import sampler_kernels
from rooflens.reports.findings.r08_all_position_logits import lm_heads
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import SAMPLER_TIME_SHARE_MIN, VOCABULARY_MIN
from rooflens.reports.format import bytes_text, count_text, percent_text, plural, time_text

_SORTS = frozenset({"aten.sort", "aten.argsort", "aten.msort"})


def _vocabulary_sorts(evidence: Evidence) -> list[Op]:
    """Sorts of a row of logits (or of anything as long as a vocabulary)."""
    widths = {head.outputs[0].shape[-1] for head in lm_heads(evidence) if head.outputs}
    return [
        op
        for op in evidence.ops
        if base_name(op) in _SORTS
        and op.inputs
        and op.inputs[0].shape
        and (op.inputs[0].shape[-1] in widths or op.inputs[0].shape[-1] >= VOCABULARY_MIN.value)
    ]


def _only_for_the_sort(evidence: Evidence, sort: Op) -> list[Op]:
    """The sort and what is computed from its result alone (softmax, cumsum, scatter back)."""
    inside = {tensor.id for tensor in sort.outputs}
    chain = [sort]
    for op in evidence.ops:
        wide = [tensor for tensor in op.inputs if numel(tensor) > 1]
        if op.index > sort.index and wide and all(tensor.id in inside for tensor in wide):
            chain.append(op)
            inside |= {tensor.id for tensor in op.outputs}
        elif op.index > sort.index and not wide and op.outputs and op.outputs[0].id in inside:
            chain.append(op)
    return chain


def detect(evidence: Evidence) -> Answer:
    sorts = _vocabulary_sorts(evidence)
    if not sorts:
        return _from_kernels(evidence) if not evidence.ops else None
    chain = {op.index: op for sort in sorts for op in _only_for_the_sort(evidence, sort)}
    total = sum(op.bytes_in + op.bytes_out for op in chain.values())
    width = sorts[0].inputs[0].shape[-1]
    names = ", ".join(dict.fromkeys(op.name.removeprefix("aten.") for op in chain.values()))
    return Claim(
        title=f"Sampling sorts all {count_text(width)} logits of a row",
        saved={index: op.bytes_in + op.bytes_out for index, op in chain.items()},
        confidence="high",
        confidence_reason="the sort of the logits is recorded",
        remedy=RULE.remedy + source_of(sorts),
        evidence=(
            f"{plural(len(chain), 'op')} for the sorted order ({names}): {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            "a sort of one row runs on one block of the GPU: its time is far above its bytes",
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = sampler_kernels(evidence)
    spent = evidence.time_of(rows)
    everything = evidence.kernel_ns
    if not rows or not everything or spent / everything < SAMPLER_TIME_SHARE_MIN.value:
        return None
    return Claim(
        title=f"Sampling takes {percent_text(spent / everything)} of the kernel time",
        kernel_ns={row: (0.0, evidence.time_of([row])) for row in rows},
        no_bytes="sampling is known by kernel name only; its bytes were not measured",
        confidence="medium",
        confidence_reason="sort, top-k and sampling kernels are known by name",
        evidence=(
            f"{time_text(spent)} of {time_text(everything)}",
            *evidence.names_of(rows),
        ),
    )


RULE = Rule(
    id="R29-sampler-cost",
    needs=("ops", "kernels"),
    looks_for="a sampler that sorts the vocabulary, or takes a visible share of the step",
    clear="Sampling sorts no vocabulary and takes no visible share of the step",
    why=(
        "Top-p in its plain form sorts all logits, cumulates them and scatters the mask back. A "
        "sort of one row uses one block of the GPU; reports show a third of a decode step."
    ),
    remedy="Take top-k candidates first, then top-p among them; or a fused sampler (FlashInfer)",
    fixed_in="vLLM samples with FlashInfer (vllm#11394: 40.20 to 47.15 requests/s with top-p)",
    example="top_p=0.9 over 512 logits: sort, softmax, cumsum, scatter before one token is drawn",
    thresholds=(VOCABULARY_MIN, SAMPLER_TIME_SHARE_MIN),
    detect=detect,
)
