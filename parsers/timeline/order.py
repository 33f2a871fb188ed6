"""Which projection a matrix product is, by what runs before and after it on its stream.

A serving engine's kernels have no module ranges and its GEMMs share a few names, but a decoder
layer has one order: norm, q/k/v, rope and cache write, attention, o, norm, gate and up, activation,
down. A GEMM after attention is o_proj, one after the activation is down_proj, and one after a norm
is q/k/v, gate/up or lm_head by what follows. Where the neighbours say nothing it stays `other`.
"""

from __future__ import annotations

import numpy as np

from rooflens.parsers.timeline.trace import NONE, Int

GEMMS = frozenset({"gemm", "gemv", "qgemm"})
REDUCTIONS = frozenset({"splitk"})
"""The second kernel of a split GEMM: belongs to the one before it."""
_CACHE_SIDE = frozenset({"rope", "kv_write", "attention"})
_END = frozenset({"sampling", "communication"})
_TELLING = _CACHE_SIDE | _END | {"norm", "activation", "embedding"}


def projections(
    classes: list[str], families: list[str], class_index: Int, family_index: Int, groups: Int
) -> dict[int, str]:
    """Class by position for kernels of class `other` that are matrix products.

    The arrays describe kernels in order of their start; `groups` says which stream each runs on.
    Returns position -> class for those that the neighbours decide.
    """
    other = classes.index("other") if "other" in classes else NONE
    telling = [i for i, name in enumerate(classes) if name in _TELLING]
    found: dict[int, str] = {}
    gemm = [i for i, name in enumerate(families) if name in GEMMS]
    half = [i for i, name in enumerate(families) if name in REDUCTIONS]
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        is_telling = np.isin(class_index[rows], telling)
        before = _carried(is_telling)
        after = rows.size - 1 - _carried(is_telling[::-1])[::-1]
        after[after == rows.size] = NONE
        wanted = np.flatnonzero(
            (class_index[rows] == other) & np.isin(family_index[rows], [*gemm, *half])
        )
        last = ""
        for i in wanted:
            if family_index[rows[i]] in half:
                made = last
            else:
                made = last = _between(
                    _name(classes, class_index, rows, before[i]),
                    _name(classes, class_index, rows, after[i]),
                )
            if made:
                found[int(rows[i])] = made
    return found


def _carried(marks: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Int:
    """Position of the last mark at or before each position, NONE before the first."""
    at = np.where(marks, np.arange(marks.size), NONE)
    return np.asarray(np.maximum.accumulate(at), dtype=np.int64) if at.size else at


def _name(classes: list[str], class_index: Int, rows: Int, position: int) -> str:
    return "" if position == NONE else classes[int(class_index[rows[position]])]


def _between(before: str, after: str) -> str:
    if before == "attention":
        return "o_proj"
    if before == "activation":
        return "down_proj"
    if before in ("norm", "embedding") and after in _END:
        return "lm_head"  # rows of the last tokens may be gathered between the norm and the head
    if before != "norm":
        return ""
    if after in _CACHE_SIDE:
        return "qkv_proj"
    return "gate_up_proj" if after == "activation" else ""
