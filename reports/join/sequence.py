"""Match launches to ops by order: products and attention are the anchors of both sequences.

Anchors must agree exactly, one by one, over a whole number of steps; a single extra or missing one
means that the capture is not this step, and nothing is joined by order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rooflens.model import Op
from rooflens.quantity import Confidence

PRODUCT, ATTENTION = "product", "attention"

_LAUNCH_ANCHORS = {
    "gemm": PRODUCT, "gemv": PRODUCT, "qgemm": PRODUCT, "attn_prefill": ATTENTION,
    "attn_decode": ATTENTION,
}  # fmt: skip
_FOLLOWERS = {"splitk", "attn_combine"}
"""Kernels that finish what the anchor before them began."""
_LEADERS = {"attn_prep"}
"""Kernels that prepare the anchor after them."""

_FUSED_ATTENTION = ("scaled_dot_product", "flash_attn", "efficient_attention", "flash_attention")
_PRODUCT_OPS = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul"}

_KIND_OF_CLASS = {
    "norm": "norm", "rope": "rope", "activation": "act", "kv_write": "kv_write",
    "embedding": "gather",
}  # fmt: skip


@dataclass(frozen=True)
class Match:
    """Ops that a launch was matched with by order."""

    ops: tuple[Op, ...]
    confidence: Confidence


def op_anchor(op: Op) -> str:
    """`product`, `attention` or empty for an op."""
    name = op.name.removeprefix("aten.").partition(".")[0].lstrip("_")
    if any(word in op.name for word in _FUSED_ATTENTION):
        return ATTENTION
    return PRODUCT if name in _PRODUCT_OPS and op.flops else ""


def align(families: Sequence[str], ops: Sequence[Op]) -> dict[int, Match]:
    """Ops by place of the launch; empty when the anchors of the two sequences differ.

    `families` are the kernel families of the launches in order, of one or several equal steps.
    """
    op_anchors = [(place, kind) for place, op in enumerate(ops) if (kind := op_anchor(op))]
    launch_anchors = [
        (place, _LAUNCH_ANCHORS[family])
        for place, family in enumerate(families)
        if family in _LAUNCH_ANCHORS
    ]
    if not op_anchors or not launch_anchors or len(launch_anchors) % len(op_anchors):
        return {}
    steps = len(launch_anchors) // len(op_anchors)
    if [kind for _, kind in launch_anchors] != [kind for _, kind in op_anchors] * steps:
        return {}
    matches: dict[int, Match] = {}
    anchors = [place for place, _ in op_anchors] * steps
    for (place, _), op_place in zip(launch_anchors, anchors, strict=True):
        matches[place] = Match((ops[op_place],), "medium")
    _attach(families, [place for place, _ in launch_anchors], matches)
    _between(families, launch_anchors, anchors, ops, matches)
    return matches


def _attach(families: Sequence[str], anchors: Sequence[int], matches: dict[int, Match]) -> None:
    """Followers share the op of the anchor before them, leaders of the one after them."""
    previous: Match | None = None
    for place, family in enumerate(families):
        if place in matches:
            previous = matches[place]
        elif family in _FOLLOWERS and previous is not None:
            matches[place] = previous
        elif family in _LEADERS:
            following = next((a for a in anchors if a > place), None)
            if following is not None:
                matches[place] = matches[following]


def _between(
    families: Sequence[str],
    launch_anchors: Sequence[tuple[int, str]],
    anchors: Sequence[int],
    ops: Sequence[Op],
    matches: dict[int, Match],
) -> None:
    """Launches between two anchors belong to the ops between them, where their kind agrees."""
    edges = [-1, *(place for place, _ in launch_anchors), len(families)]
    op_edges = [-1, *anchors, len(ops)]
    ops = list(ops)
    for gap in range(len(edges) - 1):
        low, high = op_edges[gap], op_edges[gap + 1]
        # Between two steps lie the end of one and the beginning of the next.
        here = ops[low + 1 : high] if high > low else [*ops[low + 1 :], *ops[:high]]
        loose = [p for p in range(edges[gap] + 1, edges[gap + 1]) if p not in matches]
        _fill_gap(families, loose, [op for op in here if not op_anchor(op)], matches)


def _fill_gap(
    families: Sequence[str], loose: Sequence[int], here: Sequence[Op], matches: dict[int, Match]
) -> None:
    if not here or not loose:
        return
    pairs = [(families[place], op) for place, op in zip(loose, here, strict=False)]
    if len(loose) == len(here) and not any(_contradicts(*pair) for pair in pairs):
        for place, op in zip(loose, here, strict=True):
            matches[place] = Match((op,), "medium" if _agrees(families[place], op) else "low")
        return
    by_kind: Mapping[str, list[Op]] = _by_kind(here)
    classes = {op.op_class for op in here}
    for place in loose:
        same = by_kind.get(families[place])
        if same:
            matches[place] = Match(tuple(same), "low")
        elif len(classes) == 1:
            matches[place] = Match(tuple(here), "low")


def _agrees(family: str, op: Op) -> bool:
    return _KIND_OF_CLASS.get(op.op_class) == family


def _contradicts(family: str, op: Op) -> bool:
    """The name says one class and the op is of another: they are not in the same order."""
    kind = _KIND_OF_CLASS.get(op.op_class)
    return kind is not None and family in _KIND_OF_CLASS.values() and family != kind


def _by_kind(ops: Sequence[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in ops:
        kind = _KIND_OF_CLASS.get(op.op_class)
        if kind:
            found.setdefault(kind, []).append(op)
    return found
