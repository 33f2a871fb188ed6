"""The sentences and tables of a Sweep, and its text and Markdown forms."""

from __future__ import annotations

from rooflens.reports.format import (
    NONE,
    bytes_text,
    count_text,
    intensity_text,
    ratio_text,
    significant_text,
    time_text,
)
from rooflens.reports.theory.rendering.tables import Table, markdown_table, text_table
from rooflens.reports.theory.rendering.words import article, tokens_text
from rooflens.reports.theory.sweep import Crossing, Sweep, SweepRow

DIMENSION_WORDS = {"batch": "batch", "context": "context", "query_tokens": "new tokens"}


def sweep_title(sweep: Sweep) -> str:
    """`decode of qwen2.5-7b, bfloat16, weights int4`."""
    return ", ".join([f"{sweep.workload} of {sweep.model}", sweep.dtype, *sweep.options])


def sweep_table(sweep: Sweep, rows: tuple[SweepRow, ...] | None = None) -> Table:
    """One row per point and GPU."""
    with_roof, measured = bool(sweep.roofs), bool(sweep.measured_on)
    columns = ["batch", "context", "new tokens", "FLOP/B", "bytes", "KV cache"]
    if with_roof:
        columns = ["GPU", *columns, "bound", "floor", "new tokens/s at most"]
    if measured:
        columns += ["measured here", *(["measured / floor"] if sweep.measured_gpu else [])]
    left = {0, 7} if with_roof else set()
    return Table(
        columns=tuple(columns),
        rows=tuple(_cells(row, sweep) for row in rows or by_gpu(sweep)),
        left=frozenset(left),
        caption="Each step at each point: compulsory bytes, and what it cannot be faster than",
    )


def by_gpu(sweep: Sweep) -> tuple[SweepRow, ...]:
    """The rows of one GPU after the other, as people read them."""
    order = {roof.name: number for number, roof in enumerate(sweep.roofs)}
    return tuple(sorted(sweep.rows, key=lambda row: order.get(row.gpu or "", 0)))


def crossing_sentences(sweep: Sweep) -> list[str]:
    """Where each curve becomes compute-bound, one sentence per curve."""
    return [_crossing_text(crossing) for crossing in sweep.crossings]


def crossing_table(sweep: Sweep) -> Table | None:
    """The crossings as a table, None without any."""
    if not sweep.crossings:
        return None
    along = sweep.along
    fixed = [name for name in ("batch", "context", "query_tokens") if name != along]
    rows = tuple(
        (
            crossing.gpu,
            *(count_text(getattr(crossing, name)) for name in fixed),
            "not in this range" if crossing.at is None else count_text(crossing.at),
        )
        for crossing in sweep.crossings
    )
    columns = ("GPU", *(DIMENSION_WORDS[name] for name in fixed))
    return Table(
        columns=(*columns, f"compute-bound from {DIMENSION_WORDS[along]}"),
        rows=rows,
        caption="Crossings: where matrix FLOPs at peak take longer than compulsory bytes",
    )


def projection_table(sweep: Sweep) -> Table | None:
    """Tokens at which each projection becomes compute-bound, per GPU; None without a roof."""
    if not sweep.crossover_tokens:
        return None
    names = list(next(iter(sweep.crossover_tokens.values())))
    rows = tuple(
        (gpu, *(_crossover_text(found.get(name)) for name in names))
        for gpu, found in sweep.crossover_tokens.items()
    )
    return Table(
        columns=("GPU", *names),
        rows=rows,
        caption="Projections: compute-bound from this many tokens in a step (batch x new tokens)",
    )


def _crossover_text(tokens: float | None) -> str:
    return "never" if tokens is None else tokens_text(tokens)


def sweep_text(sweep: Sweep) -> str:
    """Title, table and crossings for a terminal."""
    parts = [sweep_title(sweep), text_table(sweep_table(sweep))]
    if sweep.crossings:
        parts.append("\n".join(crossing_sentences(sweep)))
    projections = projection_table(sweep)
    if projections is not None:
        parts.append(f"{projections.caption}\n{text_table(projections)}")
    if not sweep.roofs:
        parts.append("Add --gpu NAME,NAME for floors, bounds and crossings.")
    if sweep.measured_on:
        parts.append(measured_sentence(sweep))
    return "\n\n".join(parts)


def sweep_markdown(sweep: Sweep) -> str:
    """The same as Markdown."""
    parts = [f"## Sweep: {sweep_title(sweep)}"]
    if sweep.crossings:
        parts.append("\n".join(f"- {text}" for text in crossing_sentences(sweep)))
    projections = projection_table(sweep)
    if projections is not None:
        parts.append(f"{projections.caption}:\n\n{markdown_table(projections)}")
    parts.append(markdown_table(sweep_table(sweep)))
    if sweep.measured_on:
        parts.append(measured_sentence(sweep))
    return "\n\n".join(parts)


def measured_sentence(sweep: Sweep) -> str:
    """What the measured column rests on."""
    start = f"Measured here on {sweep.measured_on}: the median step of a real run at each point."
    others = [roof.name for roof in sweep.roofs if roof.name != sweep.measured_gpu]
    return f"{start} The floors of {', '.join(others)} are another machine's." if others else start


def _crossing_text(crossing: Crossing) -> str:
    words = DIMENSION_WORDS
    fixed = ", ".join(
        f"{words[name]} {count_text(getattr(crossing, name))}"
        for name in ("batch", "context", "query_tokens")
        if name != crossing.along and (name != "query_tokens" or crossing.query_tokens > 1)
    )
    place = f"On {article(crossing.gpu)} {crossing.gpu} at {fixed}"
    if crossing.at is None:
        return f"{place} the step stays memory-bound over the whole range."
    at = count_text(crossing.at)
    along = f"{at} new tokens" if crossing.along == "query_tokens" else f"{crossing.along} {at}"
    return f"{place} the step becomes compute-bound at {along}."


def _cells(row: SweepRow, sweep: Sweep) -> tuple[str, ...]:
    cells = [
        count_text(row.batch),
        count_text(row.context),
        count_text(row.query_tokens),
        intensity_text(row.intensity),
        bytes_text(row.compulsory_bytes),
        bytes_text(row.kv_cache_bytes),
    ]
    if sweep.roofs:
        floor = NONE if row.floor_ns is None else time_text(row.floor_ns)
        rate = NONE if row.tokens_per_s is None else significant_text(row.tokens_per_s, 4)
        cells = [row.gpu or NONE, *cells, row.bound, floor, rate]
    if sweep.measured_on:
        cells.append(NONE if row.measured_ns is None else time_text(row.measured_ns))
    if sweep.measured_gpu:
        own = row.gpu == sweep.measured_gpu
        known = own and row.measured_ns is not None and row.floor_ns is not None
        cells.append(ratio_text((row.measured_ns or 0) / (row.floor_ns or 1)) if known else NONE)
    return tuple(cells)
