"""Operator class and family of every device activity, from its name and the range around it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rooflens.model import Confidence
from rooflens.parsers.kernels import MATRIX_FAMILIES, UNKNOWN, KernelName, classify_name
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.order import PROJECTIONS, projections
from rooflens.parsers.timeline.trace import Int
from rooflens.vocabulary import FUSED_CLASSES, OPERATOR_CLASSES

_MODULES = {
    "embed_tokens": "embedding", "input_layernorm": "norm", "post_attention_layernorm": "norm",
    "norm": "norm", "q_norm": "norm", "k_norm": "norm", "rotary_emb": "rope",
    "act_fn": "activation", "qkv_proj": "qkv_proj", "gate_up_proj": "gate_up_proj",
    "gate": "router",
    **{name: name for name in OPERATOR_CLASSES if name.endswith("_proj") or name == "lm_head"},
}  # fmt: skip
"""Leaf modules of Llama- and Qwen-shaped models (transformers' names): all they launch is theirs.
"""
_ATTENTION = ("self_attn", "attn")
"""With leaves of their own: their matrix products are attention; their pointwise kernels may be
rotary embedding, mask or cache, so those go by name."""
_CORE = (MATRIX_FAMILIES | {"softmax"}) - {UNKNOWN}
_ADDITIONS = ("pointwise", "add", "residual")
_LAYER = re.compile(r"^layer (?:\d+|\*)$")
"""A decoder layer in our annotation: what it launches itself are the residual additions."""
_LAST_WORD = re.compile(r"[A-Za-z_]\w*$")


@dataclass(frozen=True)
class Labels:
    """One label per activity, as an index into names."""

    index: Int
    names: list[str]

    def sums(
        self, rows: Int, values: np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> dict[str, float]:
        """Sum of values over the given rows, by label."""
        made = np.bincount(self.index[rows], values[rows], len(self.names))
        return {name: float(value) for name, value in zip(self.names, made, strict=True)}

    def of(self, row: int) -> str:
        """Label of one activity."""
        return self.names[int(self.index[row])]


@dataclass(frozen=True)
class KernelLabels:
    """What each activity is: class, family, short name; and how the class was found."""

    classes: Labels
    families: Labels
    short_names: list[str]
    """By index into Trace.names; empty for names that are no kernels."""


def label(linked: Linked) -> KernelLabels:
    """Classify each distinct (name, path) once."""
    trace = linked.trace
    activities = trace.activities
    is_kernel = np.zeros(len(trace.names), dtype=bool)
    is_kernel[activities.name[linked.kernels]] = True
    known = {int(i): classify_name(trace.names[i]) for i in np.flatnonzero(is_kernel)}
    family = [known[i].family if i in known else "copy" for i in range(len(trace.names))]
    short = [known[i].short_name if i in known else "" for i in range(len(trace.names))]
    families, family_of_name = np.unique(np.array(family, dtype=object), return_inverse=True)
    path = linked.path_of_activity
    width = len(trace.names) + 1
    pairs, inverse = np.unique((path + 1) * width + activities.name, return_inverse=True)
    class_of_pair = [
        class_of(linked.path(int(pair // width) - 1), known[int(pair % width)])[0]
        if int(pair % width) in known else "other"
        for pair in pairs
    ]  # fmt: skip
    classes, class_index = np.unique(np.array(class_of_pair, dtype=object), return_inverse=True)
    by_name = Labels(class_index[inverse] if pairs.size else inverse, [str(c) for c in classes])
    family_labels = Labels(
        family_of_name[activities.name] if families.size else activities.name,
        [str(f) for f in families],
    )
    return KernelLabels(
        classes=_with_order(linked, by_name, family_labels),
        families=family_labels,
        short_names=short,
    )


def _with_order(linked: Linked, classes: Labels, families: Labels) -> Labels:
    """Give matrix products that no module claims the class that their neighbours say."""
    kernels = linked.kernels
    activities = linked.trace.activities
    streams = np.unique(
        activities.device[kernels] * (2**40) + activities.stream[kernels], return_inverse=True
    )[1]
    found = projections(
        classes.names, families.names, classes.index[kernels], families.index[kernels], streams
    )
    decided = np.flatnonzero(found)
    if not decided.size:
        return classes
    answers = [PROJECTIONS[i] for i in np.unique(found[decided])]
    names = [*classes.names, *(name for name in answers if name not in classes.names)]
    number = np.array([names.index(p) if p in names else 0 for p in PROJECTIONS])
    index = classes.index.copy()
    index[kernels[decided]] = number[found[decided]]
    return Labels(index, names)


def class_of(path: tuple[str, ...], known: KernelName) -> tuple[str, Confidence]:
    """Class of a kernel: of the module around it where that is a leaf, else of its own name."""
    by_name = known.op_class
    if by_name == "communication":
        return by_name, "high"
    unclear = by_name == "other" or by_name in FUSED_CLASSES or by_name.endswith("_proj")
    for element in reversed(path):
        word = _LAST_WORD.search(element)
        module = word.group() if word else ""
        if module in _MODULES:
            return _MODULES[module], "high"
        if module == "mlp" and unclear:
            return "activation", "medium"
        if module in _ATTENTION and unclear and known.family in _CORE:
            return "attention", "medium"
        if _LAYER.match(element) and known.family in _ADDITIONS:
            return "residual", "medium"
        if module in _ATTENTION or module == "mlp" or _LAYER.match(element):
            break
    return by_name, "low" if by_name == "other" else "medium"
