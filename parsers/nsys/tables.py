"""Tables in the output of `nsys stats`: CSV, or the fixed-width text of a console."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rooflens.errors import InputError

MAX_BYTES = 512 * 1024 * 1024
_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "dur_ns": 1.0, "ts_ns": 1.0}
_HEADER = re.compile(r"^(.*?)(?: \((\w+)\)|:(\w+))?$")
_NOISE = ("Processing [", "Generating SQLite", "Using ", "Exported", " ** ", "** ")
_RULE = re.compile(r"^\s*-{3,}(?:\s+-{3,})+\s*$")
_KINDS = (
    ("trace", {"Start", "Duration", "Name", "Strm"}),
    ("nvtx kernels", {"NVTX Range", "Kern Inst", "Total Time"}),
    ("projection", {"Range", "Total Proj Time", "Range Instances"}),
    ("ranges", {"Range", "Total Time", "Instances"}),
    ("kernels", {"Name", "Total Time", "Instances"}),
    ("kernels", {"Operation", "Category", "Total Time", "Instances"}),
)
_NOT_KERNELS = re.compile(r"^\[CUDA mem|^(?:cuda|cu)[A-Z]\w+$")
_DEVICE = re.compile(r"\((\d+)\)\s*$")


@dataclass(frozen=True)
class StatsTable:
    """One table: column names without units, the unit of each, and the rows."""

    kind: str
    units: Mapping[str, str]
    rows: list[dict[str, str]]
    cut_row: bool = False
    """The file ends inside the table's last line, which was left out."""

    def listed_percent(self) -> float | None:
        """What the "Time (%)" of the rows add up to: 100, within rounding, unless rows are lost."""
        shares = [_number(row.get("Time (%)", "")) for row in self.rows]
        found = [share for share in shares if share is not None]
        return sum(found) if found and len(found) == len(shares) else None

    def text(self, row: Mapping[str, str], *columns: str) -> str:
        """The first of the columns that the table has, or an empty string."""
        return next((row[c] for c in columns if row.get(c)), "")

    def integer(self, row: Mapping[str, str], *columns: str) -> int | None:
        """A count; digits may be grouped. None when the cell is empty or no number."""
        value = _number(self.text(row, *columns))
        return None if value is None else int(value)

    def integers(self, row: Mapping[str, str], *columns: str) -> tuple[int, ...]:
        """Several counts, or nothing when one is missing."""
        found = [self.integer(row, column) for column in columns]
        return tuple(v for v in found if v is not None) if None not in found else ()

    def nanoseconds(self, row: Mapping[str, str], *columns: str) -> float | None:
        """A time in ns by the unit in its header. None when the table has no such column."""
        for column in columns:
            value = _number(row.get(column, ""))
            unit = self.units.get(column, "")
            if value is not None and unit in _UNITS:
                return value * _UNITS[unit]
        return None

    def device(self, row: Mapping[str, str]) -> int:
        """Device number in `NVIDIA A100 (0)`; 0 when it is not given."""
        match = _DEVICE.search(row.get("Device", ""))
        return int(match.group(1)) if match else 0

    def is_kernel(self, row: Mapping[str, str]) -> bool:
        """A kernel, and not a copy or an API call in the same table."""
        category = row.get("Category", "")
        if category:
            return category == "CUDA_KERNEL"
        return not _NOT_KERNELS.match(self.text(row, "Name", "Kernel Name"))


def read_tables(path: Path) -> tuple[list[StatsTable], list[str]]:
    """All tables of a file, and the lines in which nsys says what it skipped.

    Raises InputError for a file that cannot be read, is empty, or is no CSV at all.
    """
    text = _content(path)
    skipped = [line.strip() for line in text.splitlines() if line.startswith("SKIPPED:")]
    try:
        tables = list(_csv_tables(text)) or list(_text_tables(text))
    except csv.Error as error:
        raise InputError(f"{path} is damaged: {error}.", "Run nsys stats again.") from None
    return tables, [_without_path(line) for line in skipped]


def _content(path: Path) -> str:
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}.", "Give the CSV that nsys stats wrote.")
    size = path.stat().st_size
    if not size:
        raise InputError(
            f"{path} is empty (0 bytes): nsys stats writes that when the report has no such data.",
            "Look at the SKIPPED line that it printed.",
        )
    if size > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES} bytes.", "Import the .sqlite instead.")
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def _without_path(line: str) -> str:
    """nsys names the file with its folder, which is private."""
    return re.sub(r"\S*/(\S+)", r"\1", line)


def _csv_tables(text: str) -> Iterator[StatsTable]:
    table: StatsTable | None = None
    header: list[str] = []
    whole = text[: text.rfind("\n") + 1]
    for record in csv.reader(io.StringIO(whole, newline="")):
        names, units = _columns(record)
        kind = _kind(set(names))
        if kind:
            if table:
                yield table
            table, header = StatsTable(kind, units, []), names
        elif not record or record[0].startswith(_NOISE) or record[0].startswith("SKIPPED:"):
            header = []
        elif table and header and len(record) == len(header):
            table.rows.append(dict(zip(header, record, strict=True)))
    if table:
        yield replace(table, cut_row=bool(header) and whole != text)


def _text_tables(text: str) -> Iterator[StatsTable]:
    """A header line, a line of dashes that gives the columns, rows until an empty line."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not number or not _RULE.match(line):
            continue
        spans = [match.span() for match in re.finditer(r"-{3,}", line)]
        above = next((i for i in (number - 1, number - 2) if i >= 0 and lines[i].strip()), number)
        names, units = _columns([lines[above][a:b].strip() for a, b in spans])
        kind = _kind(set(names))
        if not kind:
            continue
        table = StatsTable(kind, units, [])
        for row in lines[number + 1 :]:
            if not row.strip():
                break
            cells = [row[a:b].strip() for a, b in spans[:-1]] + [row[spans[-1][0] :].strip()]
            table.rows.append(dict(zip(names, cells, strict=True)))
        yield table


def _columns(cells: list[str]) -> tuple[list[str], dict[str, str]]:
    names, units = [], {}
    for cell in cells:
        match = _HEADER.match(cell.strip())
        name = match.group(1) if match else cell.strip()
        names.append(name)
        units[name] = ((match.group(2) or match.group(3)) if match else "") or ""
    return names, units


def _kind(names: set[str]) -> str:
    return next((kind for kind, needed in _KINDS if needed <= names), "")


def _number(cell: str) -> float | None:
    try:
        value = float(cell.replace(",", "")) if cell else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
