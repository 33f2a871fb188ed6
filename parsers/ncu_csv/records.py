"""Find the tables in what ncu printed: noise around and between rows is kept apart, not parsed.

A record may hold raw newlines inside quotes, so records are not lines; a file may hold several
tables (two captures appended), and it may end inside a record.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rooflens.errors import InputError

_SUMMARY_HEADS = ("Process ID", "Domain")
MAX_NOISE = 400
_FIELD_LIMIT = 1 << 20


@dataclass
class Table:
    """A header and a stream of its records (lists of cells, as ragged as the file has them)."""

    header: list[str]
    rows: Iterator[list[str]]


@dataclass
class Printed:
    """What stands around the tables, filled while they are read."""

    noise: list[str] = field(default_factory=list)
    cut: bool = False
    """The file ends inside a quoted cell."""

    def note(self, line: str) -> None:
        """Keep a line that is no record."""
        if line.strip() and len(self.noise) < MAX_NOISE:
            self.noise.append(line.strip()[:400])


def open_text(path: Path) -> TextIO:
    """Open a text file as ncu, PowerShell (UTF-16) or gzip left it."""
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return path.open(encoding=encoding, errors="replace", newline="")


def is_header(cells: list[str]) -> bool:
    """Whether a record is the header of a table that ncu prints."""
    if len(cells) < 3:
        return False
    if cells[0] == "ID":
        return cells[1] == "Process ID" and "Kernel Name" in cells
    needed = {"Kernel Name", "Invocations", "Metric Name", "Metric Unit", "Average"}
    return cells[0] in _SUMMARY_HEADS and needed <= set(cells)


def is_long(header: list[str]) -> bool:
    """Whether a table has one row per metric."""
    return all(column in header for column in ("Metric Name", "Metric Unit", "Metric Value"))


def is_summary(header: list[str]) -> bool:
    """Whether a table has means over invocations instead of launches."""
    return header[0] in _SUMMARY_HEADS


def tables(file: TextIO, printed: Printed) -> Iterator[Table]:
    """Yield every table; read one to its end before asking for the next.

    Raises InputError when a record is broken beyond reading (a runaway quote).
    """
    records = _records(file, printed)
    ahead: list[list[str]] = []
    for cells in records:
        if is_header(cells):
            ahead.append(cells)
            break
    while ahead:
        header = ahead.pop()
        yield Table(header, _until_header(records, header, ahead))


def _until_header(
    records: Iterator[list[str]], header: list[str], ahead: list[list[str]]
) -> Iterator[list[str]]:
    first = header[0]
    for cells in records:
        if cells[0] == first and is_header(cells):
            ahead.append(cells)
            return
        yield cells


def _records(file: TextIO, printed: Printed) -> Iterator[list[str]]:
    """Records of the file, without the lines of ncu and of the application around them."""
    old_limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        yield from (cells for cells in csv.reader(_lines(file, printed)) if cells)
    except csv.Error as error:
        raise InputError(
            f"The CSV is broken: {error}.", "Is a quote missing? Print the report again."
        ) from None
    finally:
        csv.field_size_limit(old_limit)


def _lines(file: TextIO, printed: Printed) -> Iterator[str]:
    """Physical lines that belong to records; a header decides whether cells are quoted."""
    inside = False
    quoted: bool | None = None
    for line in file:
        if not inside:
            if quoted is None:
                if not _starts_table(line):
                    printed.note(line)
                    continue
                quoted = line.startswith('"')
            elif line.startswith("==") or (quoted and not line.startswith('"')):
                printed.note(line)
                continue
        if line.count('"') % 2:
            inside = not inside
        yield line
    printed.cut = inside


def _starts_table(line: str) -> bool:
    bare = line.replace('"', "")
    return bare.startswith(("ID,Process ID,", "Process ID,Process Name", "Domain,Range"))
