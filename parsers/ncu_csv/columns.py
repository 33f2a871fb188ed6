"""Columns that identify a launch, addressed by name, and the cells behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

IDENTITY = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
    "Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Body Item Label",
    "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
    "Estimated Speedup Type", "Estimated Speedup", "Invocations", "Minimum", "Maximum", "Average",
    "Domain",
}  # fmt: skip
"""Every column that is not a metric of a wide table. NVTX columns are known by their colons."""

_RANGE = re.compile(
    r"^(?P<domain>[^:]*):(?P<name>.*?):"
    r"(?:none|unknown|(?:unsigned_?)?u?int\d+(?:_t)?|double|float):[^:]*:"
    r"(?:none|unknown|A?RGB\d*):[^:]*:(?:none|unknown|ASCII|UNICODE|REGISTERED)(?::.*)?$",
    re.S | re.I,
)
_QUOTED = re.compile(r'"([^"]*)"')
OWN_DOMAIN = "rooflens"


def is_nvtx(column: str) -> bool:
    """Whether a column head is one of ncu's NVTX columns."""
    return ":" in column and ("_Range" in column or column.startswith("Range:"))


def dimensions(text: str) -> tuple[int, ...]:
    """`(32, 4, 1)` as a tuple; empty for anything else and for (0, 0, 0), a launch that failed."""
    inner = text.strip().removeprefix("(").removesuffix(")")
    try:
        sides = tuple(int(side.replace(".", "").strip()) for side in inner.split(","))
    except ValueError:
        return ()
    return sides if any(sides) else ()


def nvtx_path(cell: str, domain: str = "") -> tuple[str, ...]:
    """Push/pop ranges of an NVTX cell, outermost first, of one domain.

    Of several domains Rooflens' own is taken, else the one with most ranges.
    """
    by_domain: dict[str, list[str]] = {}
    for part in _QUOTED.findall(cell):
        text = f"{domain}:{part}" if domain else part
        match = _RANGE.match(text)
        if match:
            by_domain.setdefault(match["domain"], []).append(match["name"])
    if OWN_DOMAIN in by_domain:
        return tuple(by_domain[OWN_DOMAIN])
    longest: list[str] = []
    for ranges in by_domain.values():
        longest = max(longest, ranges, key=len)
    return tuple(longest)


def whole(text: str) -> int | None:
    """A cell that is a plain whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


@dataclass(frozen=True)
class Identity:
    """Who a launch was."""

    key: tuple[str, str]
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    device: int | None
    stream: int | None
    process: int | None
    capability: str
    nvtx: tuple[str, ...]


class Reader:
    """Reads the identity of a launch from a record of one table."""

    def __init__(self, header: Sequence[str]) -> None:
        place = {column: index for index, column in enumerate(header)}
        self._place = place
        self._ranges = [index for index, column in enumerate(header) if is_nvtx(column)]
        self._domain = "Domain" in place
        self.cell: Callable[[list[str], str], str] = self._cell

    def _cell(self, row: list[str], column: str) -> str:
        index = self._place.get(column)
        return row[index] if index is not None and index < len(row) else ""

    def identity(self, row: list[str]) -> Identity:
        """The launch of a record; missing columns leave their field empty."""
        cell = self._cell
        domain = cell(row, "Domain") if self._domain else ""
        nvtx: tuple[str, ...] = ()
        for index in self._ranges:
            if index < len(row) and not nvtx:
                nvtx = nvtx_path(row[index], domain)
        return Identity(
            key=(cell(row, "ID"), cell(row, "Process ID")),
            name=_without_range(cell(row, "Kernel Name"), nvtx),
            grid=dimensions(cell(row, "Grid Size")),
            block=dimensions(cell(row, "Block Size")),
            device=whole(cell(row, "Device")),
            stream=whole(cell(row, "Stream")),
            process=whole(cell(row, "Process ID")),
            capability=cell(row, "CC"),
            nvtx=nvtx,
        )


def _without_range(name: str, nvtx: tuple[str, ...]) -> str:
    """Undo `--print-nvtx-rename kernel`: the range stands before the name, with a slash."""
    for prefix in (nvtx[-1:] and nvtx[-1] + "/", "/".join(nvtx) + "/"):
        if prefix and prefix != "/" and name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
