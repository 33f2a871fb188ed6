"""Tables of text: aligned for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.quantity import Record


class Table(Record, frozen=True, kw_only=True):
    """Rows of text; numbers are aligned right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset({0})
    """Columns that are aligned left."""
    caption: str = ""


def text_table(table: Table) -> str:
    """Columns padded to their widest cell, two blanks between them."""
    lines = [table.columns, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    return "\n".join(_text_line(line, widths, table.left) for line in lines)


def markdown_table(table: Table) -> str:
    """A GitHub table; pipes in cells are escaped."""
    rule = ["---" if i in table.left else "--:" for i in range(len(table.columns))]
    lines = [table.columns, tuple(rule), *table.rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _text_line(line: Sequence[str], widths: list[int], left: frozenset[int]) -> str:
    cells = (
        cell.ljust(width) if i in left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
