"""Steps over ranges of batch, context and new tokens, on several roofs.

A sweep is points (what to compute, independent of each other) and rows (one per point and roof).
`evaluate` is the one function that every engine runs; it imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import msgspec

from rooflens.errors import UsageError
from rooflens.model import Roof
from rooflens.quantity import Record
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.floor import bound, ridge, step_floor_ns
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from rooflens.units import NS_PER_S, parse_token_count

MAX_POINTS = 1_000_000
DIMENSIONS = ("batch", "context", "query_tokens")


class SweepRow(Record, frozen=True, kw_only=True, gc=False):
    """One step on one roof. Without a roof `gpu` is None and there is no floor."""

    gpu: str | None
    batch: int
    context: int
    query_tokens: int
    flops: int
    tensor_flops: int
    compulsory_bytes: int
    ideal_op_bytes: int
    kv_cache_bytes: int
    """Cache of all sequences after the step."""
    intensity: float
    """All FLOPs per compulsory byte."""
    ridge: float | None
    bound: str
    floor_ns: float | None
    tokens_per_s: float | None
    """Upper bound: new tokens of the step per floor."""
    measured_ns: float | None = None
    """Median step time of a run on this machine (`--measure`)."""


class Crossing(Record, frozen=True, kw_only=True):
    """Where the step of a curve becomes compute-bound, along one dimension of the sweep."""

    gpu: str
    along: str
    """`batch`, `context` or `query_tokens`."""
    at: int | None
    """The first whole number at which the FLOPs need longer than the bytes; None: not in range."""
    batch: int
    context: int
    query_tokens: int
    row: SweepRow | None
    """The step at the crossing."""


class Sweep(Record, frozen=True, kw_only=True):
    """A finished sweep."""

    workload: str
    model: str
    dtype: str
    options: tuple[str, ...]
    """Further options that all points share, as words: `weights int4`."""
    rows: tuple[SweepRow, ...]
    crossings: tuple[Crossing, ...]
    along: str
    """The dimension that curves run along."""
    roofs: tuple[Roof, ...]
    crossover_tokens: dict[str, dict[str, float | None]] = {}
    """By GPU and projection: tokens of the step at which that product becomes compute-bound."""
    measured_on: str = ""
    """What the measured points ran on; empty when nothing was measured."""
    measured_gpu: str = ""
    """The name of the roof of that very GPU, if it is one of the sweep's."""


def parse_counts(text: str, option: str) -> tuple[int, ...]:
    """A list of counts: `1,2,4..256` (`..` doubles), `1k,8k,32k`; sorted, each once.

    Raises UsageError that names `option`.
    """
    counts: set[int] = set()
    for piece in text.split(","):
        first, dots, last = piece.partition("..")
        start = parse_token_count(first, option)
        counts.add(start)
        if not dots:
            continue
        end = parse_token_count(last, option)
        if start < 1 or end < start:
            raise UsageError(
                f'{option}: "{piece.strip()}" does not grow by doubling.', "Use e.g. 4..256."
            )
        while start * 2 <= end:
            start *= 2
            counts.add(start)
        counts.add(end)
        if len(counts) > MAX_POINTS:
            raise UsageError(f"{option}: more than {MAX_POINTS:,} values.")
    return tuple(sorted(counts))


def sweep_shapes(
    base: StepShape, batches: Sequence[int], contexts: Sequence[int], queries: Sequence[int]
) -> list[StepShape]:
    """Every combination, batch changing fastest. UsageError for more than a million."""
    total = len(batches) * len(contexts) * len(queries)
    if total > MAX_POINTS:
        raise UsageError(f"A sweep of {total:,} points is more than {MAX_POINTS:,}.")
    return [
        msgspec.structs.replace(base, batch=b, context=c, query_tokens=q)
        for q, c, b in product(queries, contexts, batches)
    ]


def evaluate(
    architecture: Architecture, shapes: Iterable[StepShape], roofs: Sequence[Roof]
) -> list[SweepRow]:
    """The rows of some points: one per point and roof, in the order of the points."""
    rows = []
    for shape in shapes:
        theory = step_theory(architecture, shape)
        rows += [_row(theory, roof) for roof in roofs] or [_row(theory, None)]
    return rows


def find_crossings(
    architecture: Architecture,
    base: StepShape,
    rows: Sequence[SweepRow],
    roofs: Sequence[Roof],
    along: str,
) -> tuple[Crossing, ...]:
    """For every curve and roof the first value of `along` at which the FLOPs limit the step.

    Searched between the rows of the sweep by halving, so it is exact to one.
    """
    by_name = {roof.name: roof for roof in roofs}
    fixed = [name for name in DIMENSIONS if name != along]
    curves: dict[tuple[object, ...], list[SweepRow]] = {}
    for row in rows:
        key = (row.gpu, *(getattr(row, name) for name in fixed))
        curves.setdefault(key, []).append(row)
    found = []
    for curve in curves.values():
        if len(curve) > 1 and curve[0].gpu is not None:
            curve.sort(key=lambda row: int(getattr(row, along)))
            found.append(_crossing(architecture, base, curve, by_name[curve[0].gpu], along))
    return tuple(found)


def sweep_dimension(
    batches: Sequence[int], contexts: Sequence[int], queries: Sequence[int]
) -> str:  # fmt: skip
    """The dimension that curves run along: the first with several values, batch before others."""
    if len(batches) > 1:
        return "batch"
    if len(queries) > 1:
        return "query_tokens"
    return "context" if len(contexts) > 1 else "batch"


def _crossing(
    architecture: Architecture, base: StepShape, curve: list[SweepRow], roof: Roof, along: str
) -> Crossing:
    first = next((i for i, row in enumerate(curve) if _flops_limit(row, roof)), None)
    place = {name: getattr(curve[-1 if first is None else first], name) for name in DIMENSIONS}
    if first is None:
        return Crossing(gpu=roof.name, along=along, at=None, row=None, **place)

    def at(value: int) -> SweepRow:
        shape = msgspec.structs.replace(base, **(place | {along: value}))
        return _row(step_theory(architecture, shape), roof)

    row, high = curve[first], place[along]
    low = getattr(curve[first - 1], along) if first else high - 1
    while high - low > 1:
        middle = (low + high) // 2
        candidate = at(middle)
        if _flops_limit(candidate, roof):
            row, high = candidate, middle
        else:
            low = middle
    place[along] = high
    return Crossing(gpu=roof.name, along=along, at=high, row=row, **place)


def _flops_limit(row: SweepRow, roof: Roof) -> bool:
    return row.tensor_flops / row.compulsory_bytes >= ridge(roof)


def _row(theory: StepTheory, roof: Roof | None) -> SweepRow:
    shape = theory.shape
    floor = None if roof is None else step_floor_ns(theory, roof)
    keys = shape.context + shape.query_tokens
    return SweepRow(
        gpu=None if roof is None else roof.name,
        batch=shape.batch,
        context=shape.context,
        query_tokens=shape.query_tokens,
        flops=theory.flops,
        tensor_flops=theory.tensor_flops,
        compulsory_bytes=theory.compulsory_bytes,
        ideal_op_bytes=theory.ideal_op_bytes,
        kv_cache_bytes=shape.batch * keys * theory.kv_bytes_per_token,
        intensity=theory.intensity,
        ridge=None if roof is None else ridge(roof),
        bound=bound(theory.tensor_flops, theory.compulsory_bytes, roof),
        floor_ns=floor,
        tokens_per_s=None if floor is None else NS_PER_S * theory.shape.tokens / floor,
    )
