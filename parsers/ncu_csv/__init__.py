"""Read what ncu prints with `--csv`: wide (`--page raw`), long (`--page details`, `--metrics`) and
summary tables, with whatever else stands in the file.

    records.py     where the tables are      columns.py   who a launch was
    cells.py       values with their units   launches.py  tables to launches
    summary.py     --print-summary           statements.py  a file without a table
    text.py        pages that are no CSV
"""

from __future__ import annotations

from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Capture, Check, KernelRow, Launch, Machine
from rooflens.parsers.ncu_checks import launch_checks, passes_of
from rooflens.parsers.ncu_csv.launches import CsvFile, read_launches, scan_style
from rooflens.parsers.ncu_csv.records import Printed, is_summary, open_text, tables
from rooflens.parsers.ncu_csv.statements import no_table, session_regime
from rooflens.parsers.ncu_csv.summary import read_summary
from rooflens.reading import Reading


def read(path: Path) -> Reading:
    """Read every launch of an ncu CSV.

    Raises InputError with the precise statement of what is missing: no table and why, a table
    without kernels, an unknown unit, a broken quote.
    """
    try:
        return _read(path)
    except InputError as error:
        if str(path) in error.message:
            raise
        raise InputError(f"{path}: {error.message}", error.hint) from None


def _read(path: Path) -> Reading:
    style = scan_style(path)
    file = CsvFile(style=style)
    launches: list[Launch] = []
    kernels: list[KernelRow] = []
    printed, headers = Printed(), 0
    with open_text(path) as text:
        for table in tables(text, printed):
            headers += 1
            if is_summary(table.header):
                kernels += read_summary(table, file)
            else:
                launches += read_launches(table, file, len(launches))
    if not headers:
        regime, machine, version = session_regime(path)
        if regime:
            return _session(path, regime, machine, version)
        raise no_table(path, printed)
    if not launches and not kernels:
        raise InputError(
            f"{path} holds the head of a table and no kernel.",
            "Was ncu stopped while it printed? Print the report again.",
        )
    rows = len(launches) + sum(kernel.count for kernel in kernels)
    return Reading(
        format="ncu-csv",
        evidence="counters",
        capture=Capture(file=path.name, format="ncu-csv", tool="ncu", rows=rows,
                        regime=_regime(launches), note=file.note(bool(kernels))),
        machine=file.machine,
        launches=tuple(launches),
        kernels=tuple(kernels),
        checks=(*launch_checks([*launches, *kernels]), *_checks(file, printed)),
    )  # fmt: skip


def _regime(launches: list[Launch]) -> dict[str, str]:
    unknown = {"clock control": "not in a CSV", "cache control": "not in a CSV"}
    return unknown | passes_of(launches)


def _checks(file: CsvFile, printed: Printed) -> list[Check]:
    checks = []
    if printed.cut or file.odd_rows:
        checks.append(Check(
            id="ncu-csv-cut", outcome="warning",
            message="The CSV ends inside a row, or rows do not fit the head: "
            f"{file.odd_rows + printed.cut} rows were left out.",
            fix="Print the report again; a text editor or spreadsheet may have changed it.",
        ))  # fmt: skip
    if file.rounded:
        checks.append(Check(
            id="ncu-csv-rounded", outcome="warning",
            message=f"ncu scaled values and cut them to two decimals ({file.rounded} among them).",
            fix="Print with --print-units base --print-fp.",
        ))  # fmt: skip
    failed = [line for line in printed.noise if line.startswith("==ERROR==")]
    if failed:
        checks.append(Check(
            id="ncu-error", outcome="warning",
            message=f"ncu reported an error: {failed[0].removeprefix('==ERROR== ')[:200]}",
        ))  # fmt: skip
    return checks


def _session(path: Path, regime: dict[str, str], machine: Machine, version: str) -> Reading:
    return Reading(
        format="ncu-csv",
        evidence="counters",
        capture=Capture(file=path.name, format="ncu-csv", tool=f"ncu {version}".strip(), rows=0,
                        regime=regime, note="session page: how the capture was taken, no kernel"),
        machine=machine,
        tools={"ncu": version} if version else {},
    )  # fmt: skip
