"""A Sweep as one self-contained HTML page with curves, crossings and the table of all points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rooflens.reports.charts.drawing import Drawing
from rooflens.reports.format import count_text, significant_text, time_text
from rooflens.reports.theory.rendering.curves import Curve, Ring, curves
from rooflens.reports.theory.rendering.page import GENERAL_NOTES, render
from rooflens.reports.theory.rendering.sweep_words import (
    DIMENSION_WORDS,
    by_gpu,
    crossing_sentences,
    crossing_table,
    measured_sentence,
    projection_table,
    sweep_table,
    sweep_title,
)
from rooflens.reports.theory.rendering.tables import Table
from rooflens.reports.theory.sweep import Sweep, SweepRow

MAX_TABLE_ROWS = 1500
"""More rows would make the page larger than 1 MB; the CSV has them all."""
COLOURS = ("c0", "c1", "c2", "c3", "c4")
MAX_CURVES = 20
MAX_CURVE_POINTS = 64
Item = TypeVar("Item")
Value = Callable[[SweepRow], float | None]


@dataclass(frozen=True)
class Plot:
    """A heading, its picture, and how to read it."""

    heading: str
    drawing: Drawing
    reading: str


@dataclass(frozen=True)
class SweepPage:
    """What the template places."""

    sentence: str
    crossings: Table | None
    projections: Table | None
    plots: tuple[Plot, ...]
    table: Table
    cut: str
    notes: tuple[str, ...]


def sweep_html(sweep: Sweep) -> str:
    """Render a sweep."""
    rows = by_gpu(sweep)[:MAX_TABLE_ROWS]
    more = len(sweep.rows) - len(rows)
    notes = [f"Roof of {roof.name}: {roof.source}." for roof in sweep.roofs]
    if sweep.measured_on:
        notes.insert(0, measured_sentence(sweep))
    page = SweepPage(
        sentence=_sentence(sweep),
        crossings=crossing_table(sweep),
        projections=projection_table(sweep),
        plots=_plots(sweep),
        table=sweep_table(sweep, rows),
        cut=f"{count_text(more)} more rows are in the CSV (--format csv)." if more else "",
        notes=(*notes, *GENERAL_NOTES),
    )
    title = f"Sweep: {sweep.workload} of {sweep.model}"
    return render("sweep.html.j2", title=title, subtitle=sweep_title(sweep), page=page)


def _sentence(sweep: Sweep) -> str:
    sentences = crossing_sentences(sweep)
    if sentences:
        crossed = [c for c in sweep.crossings if c.at is not None]
        if not crossed:
            return "Every step of this sweep is memory-bound."
        return sentences[sweep.crossings.index(crossed[0])]
    return f"{count_text(len(sweep.rows))} steps of {sweep.model}."


def _plots(sweep: Sweep) -> tuple[Plot, ...]:
    plots = [_intensity_plot(sweep)]
    if sweep.roofs:
        plots.append(_floor_plot(sweep))
        plots.append(_rate_plot(sweep))
    return tuple(plots)


def _intensity_plot(sweep: Sweep) -> Plot:
    first = sweep.roofs[0].name if sweep.roofs else None
    one_gpu = [row for row in sweep.rows if row.gpu == first]
    lines = _curves(sweep, one_gpu, _tensor_intensity, several=False)
    xs = sorted({_x(row, sweep.along) for row in one_gpu})
    rings = []
    for roof in sweep.roofs:
        at = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
        lines.append(
            Curve(f"ridge of {roof.name}", _colour(sweep, roof.name), ((xs[0], at), (xs[-1], at)),
                  thin=True)
        )  # fmt: skip
        rings += [
            Ring(c.at, at, f"{roof.name}: compute-bound from {DIMENSION_WORDS[c.along]} {c.at}")
            for c in sweep.crossings
            if c.gpu == roof.name and c.at is not None
        ]
    drawing = _draw(sweep, "intensity", "Intensity of the step", lines, rings, _plain, xs)
    reading = (
        "Matrix FLOPs per compulsory byte. Dashed lines are the ridges of the GPUs: below its ridge"
        " the bandwidth limits the step, above it the matrix units. Rings mark the crossings."
    )
    return Plot("How much work per byte", drawing, reading)


def _floor_plot(sweep: Sweep) -> Plot:
    lines = _curves(sweep, list(sweep.rows), lambda row: row.floor_ns, several=len(sweep.roofs) > 1)
    measured = _measured(sweep, lambda ns, row: ns)
    xs = sorted({_x(row, sweep.along) for row in sweep.rows})
    rings = _rings(sweep, lambda row: row.floor_ns)
    drawing = _draw(sweep, "floor", "Floor of the step", lines, rings, time_text, xs, measured)
    reading = (
        "What one step cannot take less than. A flat curve means that more work costs no time yet:"
        " the same weights are read anyway." + _squares(sweep)
    )
    return Plot("How fast one step can be", drawing, reading)


def _rate_plot(sweep: Sweep) -> Plot:
    lines = _curves(
        sweep, list(sweep.rows), lambda row: row.tokens_per_s, several=len(sweep.roofs) > 1
    )
    measured = _measured(sweep, lambda ns, row: 1e9 * row.batch * row.query_tokens / ns)
    xs = sorted({_x(row, sweep.along) for row in sweep.rows})
    rings = _rings(sweep, lambda row: row.tokens_per_s)
    drawing = _draw(sweep, "rate", "New tokens per second", lines, rings, _plain, xs, measured)
    reading = (
        "Upper bound of new tokens per second. The curve bends where the KV cache outgrows the"
        " weights, and ends flat where the matrix units or the cache set the limit."
        + _squares(sweep)
    )
    return Plot("How many tokens a second", drawing, reading)


def _draw(
    sweep: Sweep, id: str, title: str, lines: list[Curve], rings: list[Ring],
    y_text: Callable[[float], str], xs: list[float], measured: list[Ring] | None = None,
) -> Drawing:  # fmt: skip
    along = DIMENSION_WORDS[sweep.along]
    description = f"{title} against {along}; the table of all points below has the same numbers."
    if sum(not curve.thin for curve in lines) == MAX_CURVES:
        description += f" At most {MAX_CURVES} curves are drawn."
    return curves(
        id, title, description, lines=lines, rings=rings, measured=measured or (), x_title=along,
        y_text=y_text, x_ticks=xs,
    )  # fmt: skip


def _curves(sweep: Sweep, rows: list[SweepRow], value: Value, several: bool) -> list[Curve]:
    """One curve per GPU (when there are `several`) and fixed dimensions, crossings included."""
    varying = _varying(sweep)
    grouped: dict[tuple[str, tuple[int, ...]], list[tuple[float, float]]] = {}
    gpus = {row.gpu for row in rows}
    crossed = [c.row for c in sweep.crossings if c.row is not None and c.row.gpu in gpus]
    for row in (*rows, *crossed):
        y = value(row)
        if y is not None and y > 0:
            key = (row.gpu or "", tuple(getattr(row, name) for name in varying))
            grouped.setdefault(key, []).append((_x(row, sweep.along), y))
    lines = []
    for number, (gpu, fixed) in enumerate(_spread(list(grouped), MAX_CURVES)):
        words = [
            f"{DIMENSION_WORDS[n]} {count_text(v)}" for n, v in zip(varying, fixed, strict=True)
        ]
        name = ", ".join([gpu, *words] if several else words)
        css = _colour(sweep, gpu) if several else COLOURS[number % len(COLOURS)]
        points = _spread(sorted(set(grouped[gpu, fixed])), MAX_CURVE_POINTS)
        lines.append(Curve(name or "the step", css, tuple(points)))
    return lines


def _spread(values: list[Item], most: int) -> list[Item]:
    """At most `most` of the values, evenly spaced, first and last included."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _varying(sweep: Sweep) -> list[str]:
    """The dimensions that tell curves apart: those with several values besides `along`."""
    names = [name for name in DIMENSION_WORDS if name != sweep.along]
    return [name for name in names if len({getattr(row, name) for row in sweep.rows}) > 1]


def _rings(sweep: Sweep, value: Value) -> list[Ring]:
    """The crossings, at the height of their curve there."""
    rings = []
    for crossing in sweep.crossings:
        y = None if crossing.row is None else value(crossing.row)
        if crossing.at is not None and y is not None:
            tip = f"{crossing.gpu}: compute-bound from {DIMENSION_WORDS[crossing.along]}"
            rings.append(Ring(crossing.at, y, f"{tip} {crossing.at}"))
    return rings


def _measured(sweep: Sweep, value: Callable[[float, SweepRow], float]) -> list[Ring]:
    points: dict[tuple[int, int, int], Ring] = {}
    for row in sweep.rows:
        if row.measured_ns is not None:
            key = (row.batch, row.context, row.query_tokens)
            tip = f"measured: {time_text(row.measured_ns)}"
            points[key] = Ring(_x(row, sweep.along), value(row.measured_ns, row), tip)
    return list(points.values())


def _squares(sweep: Sweep) -> str:
    return f" Squares are measured on {sweep.measured_on}." if sweep.measured_on else ""


def _colour(sweep: Sweep, gpu: str) -> str:
    names = [roof.name for roof in sweep.roofs]
    return COLOURS[names.index(gpu) % len(COLOURS)] if gpu in names else COLOURS[0]


def _x(row: SweepRow, along: str) -> float:
    return max(float(getattr(row, along)), 1.0)  # a logarithmic axis has no 0


def _tensor_intensity(row: SweepRow) -> float:
    return row.tensor_flops / row.compulsory_bytes


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else significant_text(value, 1)
