"""R10: products with fp32 weights."""

from __future__ import annotations

from rooflens.reports.findings.dataflow import LINEARS, base_name, total_bytes
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import fp32_products
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural


def _weight_is_fp32(op_inputs: tuple[object, ...]) -> bool:
    return any(
        getattr(tensor, "role", "") == "weight"
        and getattr(tensor, "dtype", "") == "float32"
        and len(getattr(tensor, "shape", ())) >= 2
        for tensor in op_inputs
    )


def detect(evidence: Evidence) -> Answer:
    products = [
        op
        for op in evidence.ops
        if base_name(op) in LINEARS and op.op_class != "router" and _weight_is_fp32(op.inputs)
    ]
    if products:
        total = total_bytes(products)
        share = percent_text(total / evidence.step_bytes)
        return Claim(
            title=f"{plural(len(products), 'product')} with fp32 weights: twice the bytes of bf16",
            saved={op.index: (op.bytes_in + op.bytes_out) // 2 for op in products},
            confidence="medium",
            confidence_reason="the weights' dtype is recorded; whether the checkpoint is meant to "
            "run in fp32 is not",
            remedy=RULE.remedy + source_of(products[:1]),
            evidence=(
                f"they ask for {bytes_text(total)} ({share} of the step's requested bytes), half "
                "of it in a 16-bit format",
            ),
        )
    rows = fp32_products(evidence)
    if not rows:
        return None
    names = ", ".join(dict.fromkeys(evidence.kernels[row].short_name for row in rows))
    moved = {row: amount / 2 for row, amount in evidence.moved_of(rows).items()}
    return Claim(
        title=f"{plural(len(rows), 'kernel')} for fp32 products, without tensor cores",
        kernel_bytes=moved,
        no_bytes="the kernels' bytes were not measured",
        confidence="medium",
        confidence_reason="the kernel names say fp32 (sgemm or SIMT)",
        evidence=(f"kernels: {names}",),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R10-fp32-path",
    needs=("ops", "kernels"),
    looks_for="projections that run with fp32 weights",
    clear="No projection runs in fp32",
    why=(
        "An fp32 weight is twice the bytes of a 16-bit one, and fp32 products leave the tensor "
        "cores idle (or use TF32 at half the rate). A model loaded without dtype used to come in "
        "fp32 whatever the checkpoint says."
    ),
    remedy='Load the model with dtype="auto" or torch.bfloat16',
    fixed_in='transformers 5: dtype="auto" is the default (transformers#34919)',
    example="a tiny Qwen2 in fp32: 15 products ask for 487,424 bytes, 243,712 in bf16",
    limits=(
        "Deliberate fp32 inside norms, softmax and rotary tables is not meant (R11, R12 count it), "
        "nor is a router."
    ),
    detect=detect,
)
