"""R14: a tensor is copied only to change its layout."""

from __future__ import annotations

from collections import Counter

from rooflens.model import Op
from rooflens.reports.findings.dataflow import base_name, is_float, total_bytes
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import copy_kernels
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import COPY_TIME_SHARE_MIN
from rooflens.reports.format import bytes_text, count_text, percent_text, plural, time_text

_COPIES = frozenset({"aten.clone", "aten.copy_", "aten.contiguous"})


def _is_layout_copy(op: Op) -> bool:
    """Same elements, same dtype, other memory; not an expansion, not a write into a cache."""
    if base_name(op) not in _COPIES or len(op.outputs) != 1:
        return False
    output = op.outputs[0]
    sources = [tensor for tensor in op.inputs if tensor.id != output.id]
    if len(sources) != 1 or output.role != "activation":
        return False
    source = sources[0]
    return (
        is_float(source)
        and source.dtype == output.dtype
        and not source.expanded
        and source.bytes == output.bytes
        and len(source.shape) >= 2
    )


def detect(evidence: Evidence) -> Answer:
    copies = [op for op in evidence.ops if _is_layout_copy(op)]
    if not copies:
        return _from_kernels(evidence) if not evidence.ops else None
    total = total_bytes(copies)
    places = Counter(op.op_class for op in copies)
    where = ", ".join(f"{count} in {name}" for name, count in places.most_common(3))
    return Claim(
        title=f"{plural(len(copies), 'copy', 'copies')} that only change a tensor's layout",
        saved={op.index: op.bytes_in + op.bytes_out for op in copies},
        confidence="medium",
        confidence_reason="the copies are recorded; whether each reader could take strides needs a "
        "look at its code",
        remedy=RULE.remedy + source_of(copies),
        evidence=(
            f"they ask for {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            f"where: {where}",
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = copy_kernels(evidence)
    spent = evidence.time_of(rows)
    everything = evidence.kernel_ns
    if not rows or not everything or spent / everything < COPY_TIME_SHARE_MIN.value:
        return None
    launches = sum(evidence.kernels[row].count for row in rows)
    return Claim(
        title=f"Copy kernels take {percent_text(spent / everything)} of the kernel time",
        kernel_ns={row: (0.0, evidence.time_of([row])) for row in rows},
        no_bytes="copies are known by kernel name only; their bytes were not measured",
        confidence="low",
        confidence_reason="a copy kernel's name does not say whether the copy could be avoided",
        evidence=(
            f"{count_text(launches)} launches, {time_text(spent)} of {time_text(everything)}",
            *evidence.names_of(rows),
        ),
    )


RULE = Rule(
    id="R14-layout-copy",
    needs=("ops", "kernels"),
    looks_for="copies (.contiguous(), clone, a reshaped transpose) that change layout only",
    clear="No tensor is copied only to change its layout",
    why=(
        "A transpose is free until something needs the elements in order; then every byte is read "
        "and written once for no arithmetic."
    ),
    remedy="Write into the target layout, or hand strides to the reader; drop .contiguous()",
    fixed_in="no version: sglang#24405 and #25463 removed such copies (268 µs a step)",
    example="Qwen2.5-7B, prefill of 2048, eager: 28 copies of the attention output, 822.1 MB",
    limits="Some readers need the layout; a copy of a few kB costs its launch, not its bytes.",
    thresholds=(COPY_TIME_SHARE_MIN,),
    detect=detect,
)
