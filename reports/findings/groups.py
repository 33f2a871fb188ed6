"""Groups recorded ops that belong to one call of the theory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from rooflens.model import Op


def runs_of(ops: Iterable[Op], key: Callable[[Op], object]) -> list[list[Op]]:
    """Runs of neighbours with an equal key: one run per call of a module."""
    return [list(group) for _, group in groupby(ops, key=key)]


def by_layer(ops: Iterable[Op]) -> dict[int | None, list[Op]]:
    """The ops of each layer, in order."""
    layers: dict[int | None, list[Op]] = {}
    for op in ops:
        layers.setdefault(op.layer, []).append(op)
    return layers


def split_evenly(group: list[Op], spare: int) -> dict[int, int]:
    """Spread bytes that a group saves over its ops by what each asked for; the sum is exact."""
    total = sum(op.bytes_in + op.bytes_out for op in group)
    if not total or spare <= 0:
        return {}
    shares = {op.index: (op.bytes_in + op.bytes_out) * spare // total for op in group}
    rest = spare - sum(shares.values())
    largest = max(group, key=lambda op: op.bytes_in + op.bytes_out)
    shares[largest.index] += rest
    return shares
