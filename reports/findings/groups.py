"""Groups recorded ops that belong to one call of the theory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from rooflens.model import Op
from rooflens.reports.findings.dataflow import total_bytes
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.format import bytes_text, percent_text


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


def saved_by_fusing(groups: Iterable[list[Op]], evidence: Evidence) -> dict[int, int]:
    """Bytes by op that go when each group becomes one call, which reads its inputs once."""
    saved: dict[int, int] = {}
    for group in groups:
        saved |= split_evenly(group, total_bytes(group) - evidence.flow.fused_bytes(group))
    return saved


def fusing_texts(
    groups: Sequence[list[Op]], saved: dict[int, int], unit: str, evidence: Evidence
) -> tuple[str, str]:
    """What chains of ops ask for and what one call a `unit` needs; what part of the step goes."""
    asked = sum(total_bytes(group) for group in groups)
    gone = sum(saved.values())
    launches = sum(len(group) for group in groups) - len(groups)
    return (
        f"they ask for {bytes_text(asked)}; one call a {unit} needs {bytes_text(asked - gone)}",
        f"{percent_text(gone / evidence.step_bytes)} of the step's requested "
        f"bytes and {launches} launches could go",
    )
