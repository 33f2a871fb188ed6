"""R27: expert weights are copied before they are used."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import BATCHED_MATMULS, base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, percent_text, plural

_GATHERS = frozenset({"aten.index", "aten.index_select", "aten.gather", "aten.clone"})


def _copies_weights(evidence: Evidence, op: Op) -> bool:
    """True for a gather of whole weight matrices that a batched product reads."""
    if base_name(op) not in _GATHERS or not op.inputs or op.inputs[0].role != "weight":
        return False
    if len(op.inputs[0].shape) < 3:
        return False
    return any(base_name(reader) in BATCHED_MATMULS for reader in evidence.flow.readers(op))


def detect(evidence: Evidence) -> Answer:
    copies = [op for op in evidence.ops if _copies_weights(evidence, op)]
    if not copies:
        return None
    total = sum(op.bytes_in + op.bytes_out for op in copies)
    return Claim(
        title=f"Weights of chosen experts are copied before use: {plural(len(copies), 'gather')}",
        saved={op.index: op.bytes_in + op.bytes_out for op in copies},
        confidence="high",
        confidence_reason="the gathers of weights and the products that read them are recorded",
        remedy=RULE.remedy + source_of(copies),
        evidence=(
            f"{bytes_text(total)} to copy weights that the products could read in place "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
        ),
    )


RULE = Rule(
    id="R27-moe-overread",
    needs=("ops",),
    looks_for="weights of experts gathered into a copy per token",
    clear="No expert weight is copied",
    why=(
        "Gathering the chosen experts' matrices for each token reads them, writes a copy and reads "
        "the copy; tokens with the same expert copy it again."
    ),
    remedy='Use grouped products: model.set_experts_implementation("grouped_mm"), or fused_moe',
    fixed_in="transformers 5.24 has grouped_mm experts; batched_mm still gathers",
    example="8 experts of 64×64, top 2, one token: 49,152 B to copy 24,576 B of weights",
    limits="Bytes of experts that are resident but not chosen are never counted as needed.",
    detect=detect,
)
