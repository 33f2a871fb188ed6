"""R13: the gate's activation is written to memory and read back by the product with `up`."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.groups import saved_by_fusing
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural

_ACTIVATIONS = frozenset({"aten.silu", "aten.gelu", "aten.sigmoid", "aten.relu", "aten.tanh"})


def _pairs(evidence: Evidence) -> list[list[Op]]:
    """Activation and product, in the MLP, where the product reads the activation."""
    pairs = []
    for op in evidence.of_class("activation", "experts"):
        if base_name(op) not in _ACTIVATIONS:
            continue
        products = [
            reader
            for reader in evidence.flow.readers(op)
            if base_name(reader) in {"aten.mul", "aten.mul_"}
            and reader.outputs[0].bytes == op.bytes_out
        ]
        if products:
            pairs.append([op, products[0]])
    return pairs


def detect(evidence: Evidence) -> Answer:
    pairs = _pairs(evidence)
    if not pairs:
        return None
    saved = saved_by_fusing(pairs, evidence)
    total = sum(saved.values())
    name = pairs[0][0].name.removeprefix("aten.")
    return Claim(
        title=f"{name} and the product with up are two ops in {plural(len(pairs), 'MLP')}",
        saved=saved,
        confidence="high",
        confidence_reason="the product reads the tensor that the activation wrote",
        remedy=RULE.remedy + source_of(pairs[0]),
        evidence=(
            f"the activated gate is written and read once more: {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
        ),
    )


RULE = Rule(
    id="R13-unfused-act",
    needs=("ops",),
    looks_for="silu (or gelu) and the product with up as two ops with a write between",
    clear="The activation and its product are one call",
    why=(
        "silu(gate) is written to memory only to be read by the next op. The tensor is as wide as "
        "the MLP, the widest activation of the layer."
    ),
    remedy="Use a fused silu_and_mul (vLLM, Liger) or torch.compile",
    fixed_in="torch.compile fuses it in any version from 2.0 on",
    example="Qwen2.5-7B, prefill of 2048 tokens: 4.345 GB for 28 MLPs",
    detect=detect,
)
