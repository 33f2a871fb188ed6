"""The words of the data model: operator classes, their parts, evidence levels, outcomes.

A class says what an op is for; a part says what it does inside its class. Theory, the recorder and
kernel names all use these words, so an eager and a fused run of one step compare class by class.
"""

from __future__ import annotations

OPERATOR_CLASSES: tuple[str, ...] = (
    "embedding", "norm", "q_proj", "k_proj", "v_proj", "rope", "kv_write", "attention", "o_proj",
    "residual", "gate_proj", "up_proj", "activation", "down_proj", "router", "experts", "lm_head",
    "sampling", "mask", "cast", "layout_copy", "communication", "other",
)  # fmt: skip
"""In the order in which a step meets them."""

FUSED_CLASSES: dict[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "kv_proj": ("k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""A class written for one call that serves several classes of the theory."""

PARTS: dict[str, tuple[str, ...]] = {
    "attention": ("fused", "scores", "softmax", "values", "expand", "cast", "layout"),
    "norm": ("fused", "reduce", "scale", "cast"),
    "rope": ("fused", "tables", "rotate", "cast", "layout"),
    "activation": ("fused", "gate", "multiply", "cast"),
    "kv_write": ("append", "copy"),
    "lm_head": ("matmul", "cast"),
}
"""Parts by class. `fused` is one call that does the whole class."""

EVIDENCE: tuple[str, ...] = ("theory", "counted", "timeline", "counters")
SOURCES: tuple[str, ...] = ("theory", "counted", "timeline", "counters", "host")
OUTCOMES: tuple[str, ...] = ("found", "clear", "could_not_look")
CHECK_OUTCOMES: tuple[str, ...] = ("passed", "warning", "failed", "could_not_look")
ROLES: tuple[str, ...] = ("weight", "cache", "input", "activation")
BOUNDS: tuple[str, ...] = ("memory", "compute", "at the ridge", "none")
