"""R31: a mask far larger than attention needs is built in every step."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import base_name, is_float, numel
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.needed import attention_shape
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import MASK_ELEMENTS_MIN, MASK_RATIO_MIN
from rooflens.reports.format import bytes_text, count_text, percent_text, plural

_BUILDERS = frozenset({
    "aten.full", "aten.ones", "aten.zeros", "aten.triu", "aten.tril", "aten.where", "aten.le",
    "aten.lt", "aten.ge", "aten.gt", "aten.masked_fill", "aten.masked_fill_", "aten.fill_",
    "aten.bitwise_and", "aten.logical_not", "aten.full_like", "aten.ones_like", "aten._to_copy",
    "aten.triu_", "aten.tril_", "aten.mul", "aten.add", "aten.sub", "aten.rsub", "aten.eq",
})  # fmt: skip


def _builds(evidence: Evidence, op: Op, made: set[int], pairs: int) -> bool:
    """True when the op makes a queries × keys table out of nothing but tables and positions."""
    if base_name(op) not in _BUILDERS or not op.outputs or len(op.outputs[0].shape) < 2:
        return False
    rows, columns = op.outputs[0].shape[-2:]
    if min(rows, columns) == 1 or rows * columns < max(
        pairs * MASK_RATIO_MIN.value, MASK_ELEMENTS_MIN.value
    ):
        return False
    return all(
        tensor.id in made or numel(tensor) <= 1 or not (is_float(tensor) or tensor.role == "weight")
        for tensor in op.inputs
    )


def detect(evidence: Evidence) -> Answer:
    shape = attention_shape(evidence)
    if shape is None:
        return CannotLook("no attention was recognised, so the size of its mask is unknown")
    pairs = shape.queries * shape.keys
    made: set[int] = set()
    builders: list[Op] = []
    for op in evidence.ops:
        if _builds(evidence, op, made, pairs):
            builders.append(op)
            made |= {tensor.id for tensor in op.outputs}
    if not builders:
        return None
    total = sum(op.bytes_in + op.bytes_out for op in builders)
    rows, columns = builders[0].outputs[0].shape[-2:]
    return Claim(
        title=(
            f"A mask of {count_text(rows)}×{count_text(columns)} is built in the step; attention "
            f"has {count_text(shape.queries)}×{count_text(shape.keys)}"
        ),
        saved={op.index: op.bytes_in + op.bytes_out for op in builders},
        confidence="high",
        confidence_reason="the ops that build it are recorded, from no data of the step",
        remedy=RULE.remedy + source_of(builders),
        evidence=(
            f"{plural(len(builders), 'op')} ask for {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
        ),
    )


RULE = Rule(
    id="R31-mask-rebuild",
    needs=("ops",),
    looks_for="a mask over all positions (max_position²) that is built anew in every step",
    clear="No mask larger than attention needs is built in the step",
    why=(
        "A causal mask over the longest possible text is a constant; building it costs its square "
        "in every step, however short the text is."
    ),
    remedy="Pass no mask and is_causal=True, or build the mask once, or only for queries × keys",
    fixed_in="transformers#29412 (370 to 990 ms a token between 4.34 and 4.38) was such a mask",
    example="torch.full((512, 512), -inf).triu(1) in a decode of 49 keys: two tables of 1.049 MB",
    thresholds=(MASK_RATIO_MIN, MASK_ELEMENTS_MIN),
    detect=detect,
)
