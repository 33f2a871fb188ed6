"""Tables for spreadsheets: operators, kernels or findings of a run as CSV with raw numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable

from rooflens.model import Quantity, Record, Run

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def _safe(text: str) -> str:
    """Keep a hostile name from being run as a formula by a spreadsheet."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _fields(record: Record, names: Iterable[str]) -> list[str | int | float]:
    """Value and evidence of every quantity, plain fields as they are."""
    cells: list[str | int | float] = []
    for name in names:
        value = getattr(record, name)
        if isinstance(value, Quantity):
            cells += ["" if value.value is None else value.value, value.source or ""]
        elif isinstance(value, tuple):
            cells.append(_safe(" ".join(str(item) for item in value)))
        else:
            cells.append(value if isinstance(value, int | float) else _safe(str(value or "")))
    return cells


def _heads(names: Iterable[str], quantities: set[str]) -> list[str]:
    heads: list[str] = []
    for name in names:
        title = "class" if name == "op_class" else name
        heads += [title, f"{title}_source"] if name in quantities else [title]
    return heads


_OPERATOR_QUANTITIES = (
    "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
    "executed_flops", "elementwise_flops", "time_ns", "floor_ns", "intensity_measured",
    "intensity_minimum",
)  # fmt: skip
_KERNEL_QUANTITIES = ("duration_ns", "dram_bytes", "l2_bytes", "flops", "intensity")


def operators_csv(run: Run) -> str:
    """One line an operator row: bytes, FLOPs, ns and FLOP/byte per step."""
    names = ("op_class", "part", "count", *_OPERATOR_QUANTITIES, "bound")
    return _csv(
        _heads(names, set(_OPERATOR_QUANTITIES)), (_fields(row, names) for row in run.operators)
    )


def kernels_csv(run: Run) -> str:
    """One line a kernel row: quantities are means per launch."""
    names = ("name", "short_name", "family", "op_class", "count", "grid", "block", "nvtx",
             *_KERNEL_QUANTITIES)  # fmt: skip
    return _csv(
        _heads(names, set(_KERNEL_QUANTITIES)), (_fields(row, names) for row in run.kernels)
    )


def findings_csv(run: Run) -> str:
    """One line a rule: outcome, title, saving, confidence, remedy."""
    names = ("rule", "outcome", "title", "saving_bytes", "consumer_bytes", "confidence", "remedy")
    heads = _heads(names, {"saving_bytes", "consumer_bytes"})
    lines = (
        [
            *_fields(f, names),
            f.saving_ns.low if f.saving_ns else "",
            f.saving_ns.high if f.saving_ns else "",
        ]
        for f in run.findings
    )
    return _csv([*heads, "saving_ns_low", "saving_ns_high"], lines)


TABLES: dict[str, Callable[[Run], str]] = {
    "operators": operators_csv,
    "kernels": kernels_csv,
    "findings": findings_csv,
}


def _csv(heads: list[str], lines: Iterable[list[str | int | float]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(lines)
    return out.getvalue()
