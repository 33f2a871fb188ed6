"""Wide and long tables of ncu to launches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Launch, Machine
from rooflens.parsers.chips import chip_of_capability, chip_of_id
from rooflens.parsers.metrics import derive
from rooflens.parsers.ncu_csv.cells import (
    Cells,
    LongCells,
    WideCells,
    WideColumns,
    metrics_of_rows,
)
from rooflens.parsers.ncu_csv.columns import Identity, Reader
from rooflens.parsers.ncu_csv.records import Printed, Table, is_long, is_summary, open_text, tables
from rooflens.parsers.ncu_units import Style, number_style

WIDE_SAMPLE_ROWS = 200
"""Rows of a wide table that decide how its numbers are written; each has hundreds of cells."""


@dataclass
class CsvFile:
    """What is learnt about a file while its tables are read."""

    style: Style
    machine: Machine = field(default_factory=lambda: Machine(device="imported"))
    odd_rows: int = 0
    rounded: str = ""
    forms: set[str] = field(default_factory=set)

    def note(self, summary: bool) -> str:
        """How the file was printed."""
        return ", ".join(sorted(self.forms | ({"summary"} if summary else set()))) + " table"

    def chip(self, identity: Identity) -> str:
        """Chip whose counter names hold, as far as the file says."""
        return self.machine.gpu_chip or chip_of_capability(identity.capability)


def scan_style(path: Path) -> Style:
    """How the numbers of a file are written, from all values of long tables and a sample of wide
    ones. Raises InputError when both ways occur."""
    with open_text(path) as text:
        return number_style(_all_values(tables(text, Printed())))


def _all_values(found: Iterator[Table]) -> Iterator[str]:
    for table in found:
        yield from _values(table)
        if not is_long(table.header) and not is_summary(table.header):
            # The sample is enough, and reading on would read a large file twice.
            return


def _values(table: Table) -> Iterator[str]:
    header = table.header
    if is_long(header) or is_summary(header):
        wanted = [
            index
            for index, column in enumerate(header)
            if column in ("Metric Value", "Minimum", "Maximum", "Average")
        ]
        for row in table.rows:
            for index in wanted:
                if index < len(row):
                    yield row[index]
        return
    # CC and the like are written the same way everywhere, so only metrics can tell.
    metrics = [place for name, (place, _) in WideColumns(header, ()).place.items() if "." in name]
    for row in itertools.islice(table.rows, WIDE_SAMPLE_ROWS):
        for place in metrics:
            if place < len(row):
                yield row[place]


def read_launches(table: Table, file: CsvFile, index: int) -> Iterator[Launch]:
    """Launches of a wide or long table, numbered from `index` on."""
    read = _long if is_long(table.header) else _wide
    file.forms.add("long" if is_long(table.header) else "wide")
    yield from read(table, file, index)


def _wide(table: Table, file: CsvFile, index: int) -> Iterator[Launch]:
    units = next(table.rows, None)
    if units is None:
        return
    reader = Reader(table.header)
    if units[0] != "":
        raise InputError(
            "The wide table has no units row below its head: its numbers mean nothing.",
            "Print it with ncu --page raw --csv, without filters that drop the second line.",
        )
    columns = WideColumns(table.header, units)
    width = len(table.header)
    for row in table.rows:
        if len(row) != width:
            file.odd_rows += 1
            continue
        cells = WideCells(columns, row, file.style)
        yield _launch(reader.identity(row), cells, file, index)
        index += 1


def _long(table: Table, file: CsvFile, index: int) -> Iterator[Launch]:
    header = table.header
    name, unit, value = (header.index(c) for c in ("Metric Name", "Metric Unit", "Metric Value"))
    reader = Reader(header)
    last = max(name, unit, value)
    seen: set[tuple[str, str]] = set()
    for key, rows in itertools.groupby(table.rows, key=lambda row: tuple(row[:2])):
        whole = [row for row in rows if last < len(row) <= len(header)]
        if not whole:
            file.odd_rows += 1
            continue
        pair = (str(key[0]), str(key[1]))
        if pair in seen:
            raise InputError(
                f"The rows of launch {pair[0]} stand in two places.",
                "Was the CSV sorted? Import it as ncu printed it.",
            )
        seen.add(pair)
        metrics = metrics_of_rows((row[name], row[unit], row[value]) for row in whole if row[name])
        cells = LongCells(metrics, file.style)
        yield _launch(reader.identity(whole[0]), cells, file, index)
        index += 1


def _launch(identity: Identity, cells: Cells, file: CsvFile, index: int) -> Launch:
    if not file.machine.compute_capability and not file.machine.gpu:
        file.machine = _machine(identity, cells)
    derived = derive(cells, file.chip(identity))
    file.rounded = file.rounded or cells.rounded
    return Launch(
        index=index,
        name=identity.name,
        demangled=identity.name,
        grid=identity.grid or _triple(cells, "launch__grid"),
        block=identity.block or _triple(cells, "launch__block"),
        device=_first(identity.device, cells.number("launch__device_id")),
        stream=_first(identity.stream, cells.number("launch__stream_id")),
        process=identity.process,
        nvtx=identity.nvtx,
        duration_ns=derived.duration_ns,
        dram_bytes=derived.dram_bytes,
        l2_bytes=derived.l2_bytes,
        flops=derived.flops,
        metrics=derived.metrics,
        paths=derived.paths,
    )


def _machine(identity: Identity, cells: Cells) -> Machine:
    chip = chip_of_id(cells.number("device__attribute_chip"))
    l2 = cells.number("device__attribute_l2_cache_size")
    return Machine(
        device="imported",
        gpu=cells.text("device__attribute_display_name"),
        gpu_chip=chip or chip_of_capability(identity.capability),
        compute_capability=identity.capability,
        last_level_cache_bytes=None if l2 is None else int(l2),
    )


def _triple(cells: Cells, prefix: str) -> tuple[int, ...]:
    """Grid or block of a table without these columns (ncu up to 2022), from its metrics."""
    sides = [cells.number(f"{prefix}_dim_{axis}") for axis in "xyz"]
    return tuple(int(side) for side in sides if side is not None) if None not in sides else ()


def _first(column: int | None, metric: float | None) -> int | None:
    return column if column is not None or metric is None else int(metric)
