"""The counters of one launch as cells of a CSV: a wide row, or the rows of a long table."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources

from rooflens.errors import InputError
from rooflens.parsers.ncu_csv.columns import IDENTITY, is_nvtx
from rooflens.parsers.ncu_units import Style, base_unit, missing_reason, parse_number


class Cells:
    """Counters by name out of printed cells; the unit of every value is carried and undone."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.rounded: str = ""
        """A metric that ncu scaled and cut to two decimals, if one was used."""

    def cell(self, name: str) -> tuple[str, str] | None:
        """Text and printed unit of a metric, None when the table has no such metric."""
        raise NotImplementedError

    def number(self, name: str, unit: str = "") -> float | None:
        """Value in base units, or None. With `unit` the printed unit must have that base."""
        found = self.cell(name)
        if found is None:
            return None
        text, printed = found
        value = parse_number(text, self._style)
        if value is None:
            return None
        base, factor = base_unit(printed)
        if unit and base != unit:
            raise InputError(f'{name} is printed in "{printed}", which is no {unit}.')
        if factor == 1.0:
            return value
        if not self.rounded and _decimals(text, self._style) <= 2:
            self.rounded = name
        # 12.657792 Mbyte is 12657792 byte: scaling in decimal leaves residue in binary.
        return round(value * factor, 6)

    def reason(self, name: str) -> str:
        """Why a metric of the table has no value; empty when the table has no such metric."""
        found = self.cell(name)
        if found is None or self.number(name) is not None:
            return ""
        return missing_reason(found[0]) or f'ncu printed "{found[0][:30]}", which is no number'

    def text(self, name: str) -> str:
        """A metric that is a word."""
        found = self.cell(name)
        return "" if found is None else found[0]


def _decimals(text: str, style: Style) -> int:
    mark = "." if style == "english" else ","
    return len(text.partition(mark)[2])


class WideColumns:
    """The metric columns of a wide table, with the units of its second record."""

    def __init__(self, header: Sequence[str], units: Sequence[str]) -> None:
        self.place: dict[str, tuple[int, str]] = {}
        for index, column in enumerate(header):
            if column not in IDENTITY and not is_nvtx(column) and column not in self.place:
                self.place[column] = (index, units[index] if index < len(units) else "")


class WideCells(Cells):
    """One row of a wide table."""

    def __init__(self, columns: WideColumns, row: list[str], style: Style) -> None:
        super().__init__(style)
        self._place = columns.place
        self._row = row

    def cell(self, name: str) -> tuple[str, str] | None:
        found = self._place.get(name)
        if found is None or found[0] >= len(self._row):
            return None
        return self._row[found[0]], found[1]

    def number(self, name: str, unit: str = "") -> float | None:
        # Most of the names asked for are in no one table: this way out is taken most.
        return super().number(name, unit) if name in self._place else None


class LongCells(Cells):
    """The rows of one launch of a long table, by metric name."""

    def __init__(self, metrics: Mapping[str, tuple[str, str]], style: Style) -> None:
        super().__init__(style)
        self._metrics = metrics

    def cell(self, name: str) -> tuple[str, str] | None:
        return self._metrics.get(name)


@lru_cache(maxsize=1)
def _labels() -> dict[tuple[str, str], str]:
    text = resources.files("rooflens.parsers").joinpath("data/ncu_labels.toml").read_text("utf-8")
    rows = tomllib.loads(text)["label"]
    return {(row["text"], row["unit"]): row["metric"] for row in rows}


@lru_cache(maxsize=1)
def _label_texts() -> frozenset[str]:
    return frozenset(text for text, _ in _labels())


def metrics_of_rows(
    rows: Iterable[tuple[str, str, str]],
) -> dict[str, tuple[str, str]]:
    """Metrics by name from (name or label, unit, value) rows; a name wins over a label.

    Labels are told apart by their unit: "Memory Throughput" is a rate in bytes or a percentage.
    """
    named: dict[str, tuple[str, str]] = {}
    labelled: dict[str, tuple[str, str]] = {}
    for name, unit, value in rows:
        if "__" in name:
            named.setdefault(name, (value, unit))
        elif name in _label_texts():
            metric = _labels().get((name, _base_or_none(unit)))
            if metric:
                labelled.setdefault(metric, (value, unit))
    return labelled | named


def _base_or_none(unit: str) -> str:
    try:
        return base_unit(unit)[0]
    except InputError:
        return "unknown"
