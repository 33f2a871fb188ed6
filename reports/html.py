"""Render a page as one self-contained HTML file: no request, no need for JavaScript, under 1 MB.

Templates only place what the page holds. Everything that varies is escaped by Jinja's autoescape;
style and script are parts of the templates, and their hashes are the only ones that the
Content-Security-Policy allows.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from functools import lru_cache

import jinja2

from rooflens.reports.view.page import Chart, Page, Table

MAX_PAGE_BYTES = 1_000_000
FEWER_ROWS = (100, 40, 15)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("rooflens", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _hash(asset: str) -> str:
    """The Content-Security-Policy source of an asset, over exactly what stands in the page."""
    text = _environment().get_template(asset).render()
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render_html(page: Page) -> str:
    """Render the page. What would make it larger than 1 MB is cut, and the cut is noted."""
    for smaller in _variants(page):
        text = _render(smaller)
        if len(text.encode()) < MAX_PAGE_BYTES:
            return text
    raise AssertionError("a page without data and with few rows is always small enough")


def _render(page: Page) -> str:
    template = _environment().get_template("report.html.j2")
    return template.render(
        page=page,
        data=json.loads(page.data) if page.data else None,
        style_hash=_hash("assets/page.css"),
        script_hash=_hash("assets/page.js"),
    )


def _variants(page: Page) -> list[Page]:
    """The page, then the same with less and less in it."""
    without_data = replace(page, data="")
    return [page, without_data, *(_with_fewer_rows(without_data, rows) for rows in FEWER_ROWS)]


def _with_fewer_rows(page: Page, rows: int) -> Page:
    kernels, timeline = page.kernels, page.timeline
    strip = timeline.strip
    if strip is not None and rows < FEWER_ROWS[0]:
        strip = _with_fewer_marks(strip, rows * 10)
    return replace(
        page,
        kernels=replace(
            kernels, table=_cut(kernels.table, rows), graphs=_cut(kernels.graphs, rows)
        ),
        timeline=replace(timeline, strip=strip, ranges=_cut(timeline.ranges, rows)),
        operators=replace(page.operators, parts=_cut(page.operators.parts, rows)),
        findings=replace(page.findings, more=page.findings.more[:rows]),
    )


def _cut(table: Table | None, rows: int) -> Table | None:
    if table is None or len(table.rows) <= rows:
        return table
    note = (
        f"{len(table.rows) - rows} more rows are in run.json: they would make this page too large."
    )
    return replace(table, rows=table.rows[:rows], notes=(*table.notes, note))


def _with_fewer_marks(chart: Chart, marks: int) -> Chart:
    if len(chart.drawing.marks) <= marks:
        return chart
    drawing = replace(chart.drawing, marks=chart.drawing.marks[:marks])
    reading = f"{chart.reading} Only the first {marks} marks are drawn, to keep this page small."
    return replace(chart, drawing=drawing, reading=reading)
