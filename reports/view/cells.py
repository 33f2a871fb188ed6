"""Turn quantities into table cells, and say once what would otherwise be said in every cell.

A column whose numbers share one evidence level shows it in its head; a column without any number
is left out and named, with its reason, below the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rooflens.model import Quantity
from rooflens.reports.format import NONE, exact_text, quantity_text, source_text
from rooflens.reports.view.page import Cell, Column, Table

MAX_NAME = 96
MAX_SHORT_NAME = 64
SHORT = 28
MAX_DETAIL = 400
# Bidirectional overrides and control characters could reorder or hide text around a hostile name.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


def clean(text: str, limit: int = MAX_DETAIL) -> str:
    """Make foreign text safe to show: no control or direction characters, a bounded length."""
    visible = _INVISIBLE.sub("�", text.replace("\n", " ").replace("\t", " "))
    # Lone surrogates cannot be encoded as UTF-8.
    visible = visible.encode("utf-8", "replace").decode("utf-8")
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def words(text: str, css: str = "") -> Cell:
    """A cell of text; a short one is never wrapped."""
    short = "short" if len(text) <= SHORT else ""
    return Cell(text=clean(text, MAX_NAME), css=css or short, detail=_rest(text))


def _rest(text: str) -> str:
    return clean(text) if len(text) > MAX_NAME else ""


def named(short: str, full: str) -> Cell:
    """A short name whose full form unfolds when it differs."""
    shown = clean(short, MAX_SHORT_NAME)
    detail = clean(full)
    return Cell(text=shown, detail="" if detail == shown else detail)


def amount(quantity: Quantity, text: str = "") -> Cell:
    """A number with its evidence level; `text` replaces the usual formatting."""
    if quantity.value is None:
        return Cell(text=NONE, absent=clean(quantity.absent or "not measured"), css="none")
    return Cell(
        text=text or quantity_text(quantity),
        source=source_text(quantity),
        exact=exact_text(quantity),
        sort=float(quantity.value),
    )


def levels(*quantities: Quantity) -> str:
    """The evidence levels of several quantities, each once."""
    named = dict.fromkeys(source_text(quantity) for quantity in quantities)
    return " / ".join(level for level in named if level)


def derived(value: float, text: str, *sources: Quantity) -> Cell:
    """A number made from several quantities; its evidence is all of theirs."""
    return Cell(text=text, source=levels(*sources), sort=value)


def missing(reason: str) -> Cell:
    """A dash with its reason."""
    return Cell(text=NONE, absent=clean(reason), css="none")


def table(
    id: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    notes: Sequence[str] = (),
) -> Table:
    """Build a table: lift shared evidence levels into heads, drop columns without any number."""
    kept: list[int] = []
    heads: list[Column] = []
    dropped: dict[str, list[str]] = {}
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        reasons = {row[index].absent for row in cells}
        if column.numeric and cells and all(reasons):
            dropped.setdefault("; ".join(sorted(reasons)), []).append(column.title)
            continue
        if index and not column.numeric and all(row[index].text in ("", NONE) for row in cells):
            continue
        sources = {row[index].source for row in cells if not row[index].absent}
        head = column
        if len(sources) == 1 and (level := sources.pop()):
            head = replace(column, source=level)
            for row in cells:
                row[index] = replace(row[index], source="")
        kept.append(index)
        heads.append(head)
    made = tuple(tuple(row[index] for index in kept) for row in cells)
    return Table(id, caption, tuple(heads), made, (*notes, *_notes(heads, made, dropped)))


def _notes(
    heads: Sequence[Column], rows: Sequence[Sequence[Cell]], dropped: dict[str, list[str]]
) -> list[str]:
    notes = [f"Not shown ({reason}): {', '.join(titles)}." for reason, titles in dropped.items()]
    partly: dict[str, list[str]] = {}
    for index, head in enumerate(heads):
        for reason in sorted({row[index].absent for row in rows} - {""}):
            partly.setdefault(reason, []).append(head.title)
    notes += [f"{NONE} in {', '.join(titles)}: {reason}." for reason, titles in partly.items()]
    return [note.replace("..", ".") for note in notes]
