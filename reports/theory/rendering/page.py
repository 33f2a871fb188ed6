"""An Answer as one self-contained HTML page: no script, no request, light and dark."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jinja2

from rooflens.reports.charts.drawing import Drawing
from rooflens.reports.charts.roofline import Ceiling, Point, roofline
from rooflens.reports.format import bandwidth_text, flop_rate_text
from rooflens.reports.theory.answer import Answer
from rooflens.reports.theory.rendering import words
from rooflens.reports.theory.rendering.tables import Table

GENERAL_NOTES = (
    "1 MAC = 2 FLOP. Floors are at the data sheet's dense peak and full bandwidth; real DRAM"
    " sustains 90 to 96 % of it, so a measured time below a floor means a wrong number somewhere.",
    "Minimum bytes are those of each operator by itself; compulsory bytes are those of the whole"
    " step under perfect fusion: weights, KV cache, embedding rows, token ids and logits.",
    "Within 5 % of the ridge the bound is called at the ridge: clocks and bandwidth are not known"
    " better than that.",
)
_COLOURS = {"memory": "c0", "compute": "c1", "at the ridge": "c3"}


@dataclass(frozen=True)
class TheoryPage:
    """What the template places."""

    verdict: str
    crossover: str
    floors: Table | None
    totals: Table
    roofline: Drawing | None
    reading: str
    operators: Table
    roof: str
    notes: tuple[str, ...]
    disagreements: tuple[str, ...]


def answer_html(answer: Answer) -> str:
    """Render an answer."""
    page = TheoryPage(
        verdict=words.verdict(answer),
        crossover=words.crossover_sentence(answer),
        floors=words.floor_table(answer),
        totals=words.totals_table(answer),
        roofline=_roofline(answer),
        reading="Each ring is an operator at the highest rate its intensity allows. On the slope"
        " bandwidth is the limit, under the flat roof the matrix units are.",
        operators=words.operator_table(answer),
        roof=words.roof_sentence(answer),
        notes=(*answer.notes, *GENERAL_NOTES),
        disagreements=answer.disagreements,
    )
    title = words.title(answer)
    heading = "Theory: " + (answer.workload if answer.model is None else title.split(",")[0])
    return render("theory.html.j2", title=heading, subtitle=title, page=page)


def render(template: str, **values: Any) -> str:
    """Render one of the theory's pages with its style and the hash that allows it."""
    return environment().get_template(template).render(style_hash=_style_hash(), **values)


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Templates with autoescape; an undefined name is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("rooflens", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _style_hash() -> str:
    """The Content-Security-Policy source of the page's style, over exactly what stands there."""
    text = environment().get_template("assets/theory.css").render()
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _roofline(answer: Answer) -> Drawing | None:
    roof, ridge = answer.roof, answer.ridge
    if roof is None or ridge is None:
        return None
    points = []
    seen: set[tuple[str, float]] = set()
    for row in answer.operators:
        intensity = row.operator.intensity
        if intensity > 0:
            rate = min(roof.peak_flops_per_s, intensity * roof.bandwidth_bytes_per_s)
            points.append(
                Point(
                    name=row.operator.name if row.operator.name != "other" else "gemm",
                    labelled=(row.operator.name, round(intensity, 1)) not in seen,
                    intensity=intensity,
                    rate=rate,
                    css=_COLOURS[row.bound],
                    hollow=True,
                    tip=f"{words.operator_label(row)}: {row.bound}",
                )
            )
            seen.add((row.operator.name, round(intensity, 1)))
    ceiling = Ceiling(
        peak=roof.peak_flops_per_s,
        bandwidth=roof.bandwidth_bytes_per_s,
        peak_label=f"{flop_rate_text(roof.peak_flops_per_s)} {roof.dtype} ({roof.kind})",
        bandwidth_label=f"{bandwidth_text(roof.bandwidth_bytes_per_s)} ({roof.kind})",
    )
    description = (
        f"Operators of the step at their intensity under the roof of {words.article(roof.name)}"
        f" {roof.name}; the table below has the same numbers."
    )
    return roofline("roofline", f"Roofline of {roof.name}", description, (ceiling,), points)
