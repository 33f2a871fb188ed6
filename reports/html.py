"""Render a page as one self-contained HTML file: no request, no need for JavaScript, under 1 MB.

Templates only place what the page holds. Everything that varies is escaped by Jinja's autoescape;
style and script are parts of the templates, and their hashes are the only ones that the
Content-Security-Policy allows.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeVar, cast

import jinja2

from rooflens.reports.charts.drawing import Drawing
from rooflens.reports.view.page import Page, Table

MAX_PAGE_BYTES = 1_000_000
FEWER_ROWS = (100, 40, 15, 5)
MARKS_PER_ROW = 20
_T = TypeVar("_T")


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
    """Render the page. What would make it larger than 1 MB is left out, and the page says so."""
    text = _render(page)
    if _fits(text):
        return text
    page = replace(page, data="")
    text = _render(page)
    for rows in FEWER_ROWS:
        if _fits(text):
            break
        text = _render(replace(_shrunk(page, rows), words=page.words), cut=True)
    return text


def _fits(text: str) -> bool:
    return len(text.encode()) < MAX_PAGE_BYTES


def _render(page: Page, cut: bool = False) -> str:
    template = _environment().get_template("report.html.j2")
    return template.render(
        page=page,
        cut=cut,
        data=json.loads(page.data) if page.data else None,
        style_hash=_hash("assets/page.css"),
        script_hash=_hash("assets/page.js"),
    )


def _shrunk(value: _T, rows: int) -> _T:
    """The same with at most `rows` entries in every table and list, and fewer marks."""
    if isinstance(value, Table):
        return cast(_T, _cut(value, rows))
    if isinstance(value, Drawing):
        return cast(_T, replace(value, marks=value.marks[: rows * MARKS_PER_ROW]))
    if isinstance(value, tuple):
        return cast(_T, tuple(_shrunk(item, rows) for item in value[:rows]))
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: _shrunk(getattr(value, field.name), rows) for field in fields(value)}
        return cast(_T, replace(value, **named))
    return value


def _cut(table: Table, rows: int) -> Table:
    left = len(table.rows) - rows
    notes = table.notes[:rows]
    if left > 0:
        notes += (f"{left} more rows are in run.json: they would make this page too large.",)
    return replace(table, rows=table.rows[:rows], notes=notes)
