"""R23: quantised weights are expanded to 16 bits in every step."""

from __future__ import annotations

from rooflens.model import Op, Tensor
from rooflens.reports.findings.dataflow import MATMULS, Flow, base_name, is_float, numel
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import dequantisers
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural

_NARROW = ("int8", "uint8", "int4", "uint4", "int32", "float8", "int16")


def _narrow_weight(flow: Flow, op: Op) -> Tensor | None:
    """The quantised weight that the op reads whole, if its result is no product."""
    if base_name(op) in MATMULS or op.flops or not op.outputs:
        return None
    for tensor in op.inputs:
        wide = numel(op.outputs[0]) >= numel(tensor)
        old = tensor.role == "weight" or flow.producer(op, tensor) is None
        if old and tensor.dtype.startswith(_NARROW) and wide:
            return tensor if len(tensor.shape) >= 2 else None
    return None


def detect(evidence: Evidence) -> Answer:
    saved: dict[int, int] = {}
    consumers: dict[int, int] = {}
    weights: set[int] = set()
    for op in evidence.ops:
        weight = _narrow_weight(evidence.flow, op)
        if weight is None:
            continue
        walked, ends = evidence.flow.reach(
            op, lambda reader: base_name(reader) not in MATMULS and not reader.flops
        )
        products = [end for end in ends if base_name(end) in MATMULS]
        chain = [op, *walked]
        expanded = chain[-1].outputs[0]
        if not products or not is_float(expanded):
            continue
        weights.add(weight.id)
        saved |= {step.index: step.bytes_in + step.bytes_out for step in chain}
        for product in products:
            consumers[product.index] = max(0, expanded.bytes - weight.bytes)
    if not saved:
        return _from_kernels(evidence)
    total = sum(saved.values())
    ops = [op for op in evidence.ops if op.index in saved]
    return Claim(
        title=f"{plural(len(weights), 'quantised weight')} are expanded to 16 bits in every step",
        saved=saved,
        consumers=consumers,
        confidence="high",
        confidence_reason="the chain from the quantised weight to the product is recorded",
        remedy=RULE.remedy + source_of(ops[:1]),
        evidence=(
            f"{plural(len(ops), 'op')} expand weights: {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            f"the products then read {bytes_text(sum(consumers.values()))} more than the "
            "quantised weights hold",
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = dequantisers(evidence)
    if not rows:
        return None
    spent, everything = evidence.time_of(rows), evidence.kernel_ns
    share = f", {percent_text(spent / everything)} of the kernel time" if everything else ""
    return Claim(
        title=f"Weights are dequantised by kernels of their own{share}",
        kernel_bytes=evidence.moved_of(rows),
        kernel_ns={}
        if evidence.moved_of(rows)
        else {row: (0.0, evidence.time_of([row])) for row in rows},
        no_bytes="the kernels' bytes were not measured",
        confidence="medium",
        confidence_reason="the kernels are known by name",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R23-dequant-each-step",
    needs=("ops", "kernels"),
    looks_for="quantised weights expanded to 16 bits before an ordinary product",
    clear="Quantised weights, if any, are multiplied as they are",
    why=(
        "The point of a quantised weight is to read fewer bytes. Expanding it each step reads it, "
        "writes it at 16 bits and reads that again: for int4 nine times the bytes of a fused "
        "product."
    ),
    remedy="Use a fused product (Marlin, torch._weight_int8pack_mm, torchao, FP8 _scaled_mm)",
    fixed_in="vLLM: awq_marlin instead of awq (vllm#21376: 23 against 123 tokens/s)",
    example="one int8 weight of 64×64: 8,192 B and more written and read beside 4,096 B of weight",
    limits="For a long prefill the expansion is a small part; some kernels only support it.",
    detect=detect,
)
