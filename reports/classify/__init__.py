"""Say what every op of a step is for: its operator class, its part in the class, its layer.

    names.py      what module, weight and operator names say
    flow.py       who reads what whom wrote (by storage), and walks along it
    attention.py  attention found by dataflow: scores, values, rope, cache writes, projections
    blocks.py     MLP, norms, residuals, logits and sampling, and what is left

Names are believed first, because a module path is what the model's author says; dataflow decides
the rest, so hand-written models without modules are classified as well. The options of the run are
never looked at: eager attention under a run that asked for sdpa is still eager attention.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflens.model import Op
from rooflens.reports.classify.attention import classify_attention
from rooflens.reports.classify.blocks import classify_blocks, classify_rest
from rooflens.reports.classify.flow import Flow
from rooflens.reports.classify.names import class_from_names, layer_of

__all__ = ["classify"]


def classify(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Set `op_class`, `part` and `layer` of every op; pure, and independent of earlier classes.

    An op that nothing explains gets the class `other`, which reports show with its share.
    """
    flow = Flow(ops)
    for index, op in enumerate(ops):
        named = class_from_names(op)
        if named is not None:
            flow.set(index, *named)
    classify_attention(flow)
    classify_blocks(flow)
    classify_rest(flow)
    return tuple(
        msgspec.structs.replace(
            op,
            op_class=flow.classes[index] or "other",
            part=flow.parts[index],
            layer=layer_of(op),
        )
        for index, op in enumerate(ops)
    )
