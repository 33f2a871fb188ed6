"""Which projection a matrix product is, by what runs before and after it on its stream.

A serving engine's kernels have no module ranges and its GEMMs share a few names, but a decoder
layer has one order: norm, q/k/v, rope and cache write, attention, o, norm, gate and up, activation,
down. A GEMM after attention is o_proj, one after the activation is down_proj, and one after a norm
is q/k/v, gate/up or lm_head by what follows. Where the neighbours say nothing it stays `other`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rooflens.parsers.timeline.trace import NONE, Int

GEMMS = ("gemm", "gemv", "qgemm")
REDUCTIONS = ("splitk",)
"""The second kernel of a split GEMM: belongs to the one before it."""
_CACHE_SIDE = ("rope", "kv_write", "attention")
_END = ("sampling", "communication")
_TELLING = (*_CACHE_SIDE, *_END, "norm", "activation", "embedding")
PROJECTIONS = ("", "o_proj", "down_proj", "lm_head", "qkv_proj", "gate_up_proj")
"""What `projections` can answer, by index; the first is "not decided"."""


def projections(
    classes: list[str], families: list[str], class_index: Int, family_index: Int, groups: Int
) -> Int:
    """Index into PROJECTIONS for every kernel; 0 where it is none or the neighbours do not decide.

    The arrays describe kernels in order of their start; `groups` says which stream each runs on.
    Only matrix products of class `other` are decided.
    """
    answer = np.zeros(class_index.size, dtype=np.int64)
    order = np.argsort(groups, kind="stable")
    kind, family, group = class_index[order], family_index[order], groups[order]
    telling = np.isin(kind, _indices(classes, _TELLING))
    before = _last_mark(telling, group)
    after = (kind.size - 1 - _last_mark(telling[::-1], group[::-1]))[::-1]
    after = np.where(after == kind.size, NONE, after)
    made = _between(classes, _kind_at(kind, before), _kind_at(kind, after))
    open_ = kind == _index(classes, "other")
    gemm = open_ & np.isin(family, _indices(families, GEMMS))
    half = open_ & np.isin(family, _indices(families, REDUCTIONS))
    made = np.where(gemm, made, 0)
    # A reduction takes the answer of the last product before it on its stream.
    product = _last_mark(gemm, group)
    made = np.where(half & (product != NONE), made[np.maximum(product, 0)], made)
    answer[order] = made
    return answer


def _index(names: list[str], wanted: str) -> int:
    return names.index(wanted) if wanted in names else NONE


def _indices(names: list[str], wanted: tuple[str, ...]) -> list[int]:
    return [i for i, name in enumerate(names) if name in wanted]


def _last_mark(marks: npt.NDArray[np.bool_], group: Int) -> Int:
    """Position of the last mark of its group at or before each position, else NONE."""
    if not marks.size:
        return np.empty(0, dtype=np.int64)
    position = np.arange(marks.size)
    at = np.maximum.accumulate(np.where(marks, position, NONE))
    new = np.concatenate([[True], group[1:] != group[:-1]])
    first = np.maximum.accumulate(np.where(new, position, 0))
    return np.asarray(np.where(at >= first, at, NONE), dtype=np.int64)


def _kind_at(kind: Int, positions: Int) -> Int:
    return np.where(positions == NONE, NONE, kind[np.maximum(positions, 0)])


def _between(classes: list[str], before: Int, after: Int) -> Int:
    """The answer from the telling classes around a product."""

    def one_of(values: Int, *names: str) -> npt.NDArray[np.bool_]:
        return np.isin(values, _indices(classes, names))

    after_norm = one_of(before, "norm")
    conditions = [
        one_of(before, "attention"),
        one_of(before, "activation"),
        # Rows of the last tokens may be gathered between the last norm and the head.
        one_of(before, "norm", "embedding") & one_of(after, *_END),
        after_norm & one_of(after, *_CACHE_SIDE),
        after_norm & one_of(after, "activation"),
    ]
    return np.asarray(np.select(conditions, list(range(1, 6)), 0), dtype=np.int64)
