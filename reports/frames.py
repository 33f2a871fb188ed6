"""A run as pandas DataFrames, for notebooks.

frames = to_frames(run)      # or run.to_frames()
frames["operators"]          one row per operator class, and per part of one (sum `part` == "")
frames["kernels"]            one row per group of equal launches; values are means per launch
frames["findings"]           one row per rule, with its outcome and savings
frames["ops"]                one row per recorded operator call of the step

A quantity becomes two columns: its value (nullable Float64; <NA> when it is absent) and
`<name>_source`, which says where the value comes from, or `absent: <reason>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflens.model import Finding, KernelRow, Op, OperatorRow, Quantity, Run
from rooflens.quantity import Record

if TYPE_CHECKING:
    import pandas as pd

_OPERATOR_QUANTITIES = (
    "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
    "executed_flops", "elementwise_flops", "time_ns", "floor_ns", "intensity_measured",
    "intensity_minimum",
)  # fmt: skip
_KERNEL_QUANTITIES = ("duration_ns", "dram_bytes", "l2_bytes", "flops", "intensity")
_FINDING_QUANTITIES = ("saving_bytes", "consumer_bytes")


def to_frames(run: Run) -> dict[str, pd.DataFrame]:
    """The tables `operators`, `kernels`, `findings` and `ops` of a run, in the run's order."""
    return {
        "operators": _frame(
            [_operator(row) for row in run.operators],
            ("class", "part", "count", *_columns(_OPERATOR_QUANTITIES), "bound"),
            _OPERATOR_QUANTITIES,
        ),
        "kernels": _frame(
            [_kernel(row) for row in run.kernels],
            (
                "name", "short_name", "family", "class", "count", "grid", "block", "nvtx",
                *_columns(_KERNEL_QUANTITIES), "join_method", "join_confidence",
            ),
            _KERNEL_QUANTITIES,
        ),
        "findings": _frame(
            [_finding(finding) for finding in run.findings],
            (
                "rule", "outcome", "title", *_columns(_FINDING_QUANTITIES), "saving_ns_low",
                "saving_ns_high", "confidence", "remedy",
            ),
            (*_FINDING_QUANTITIES, "saving_ns_low", "saving_ns_high"),
        ),
        "ops": _frame(
            [_op(op) for op in run.ops],
            (
                "index", "name", "class", "part", "layer", "module", "module_class", "inputs",
                "outputs", "bytes_in", "bytes_out", "flops", "elementwise_flops", "time_ns",
                "source_line",
            ),
            ("time_ns",),
        ),
    }  # fmt: skip


def _frame(
    rows: list[dict[str, Any]], columns: Sequence[str], numbers: Sequence[str]
) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(columns))
    for column in numbers:
        frame[column] = frame[column].astype("Float64")
    if "layer" in frame:
        frame["layer"] = frame["layer"].astype("Int64")
    return frame


def _columns(names: Sequence[str]) -> list[str]:
    return [column for name in names for column in (name, f"{name}_source")]


def _quantities(row: Record, names: Sequence[str]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name in names:
        quantity: Quantity = getattr(row, name)
        cells[name] = quantity.value
        cells[f"{name}_source"] = (
            f"absent: {quantity.absent}" if quantity.absent is not None else quantity.source
        )
    return cells


def _operator(row: OperatorRow) -> dict[str, Any]:
    return {
        "class": row.op_class,
        "part": row.part or "",
        "count": row.count,
        "bound": row.bound,
        **_quantities(row, _OPERATOR_QUANTITIES),
    }


def _kernel(row: KernelRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "short_name": row.short_name,
        "family": row.family,
        "class": row.op_class,
        "count": row.count,
        "grid": row.grid,
        "block": row.block,
        "nvtx": "/".join(row.nvtx),
        "join_method": row.join.method,
        "join_confidence": row.join.confidence,
        **_quantities(row, _KERNEL_QUANTITIES),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    saving = finding.saving_ns
    return {
        "rule": finding.rule,
        "outcome": finding.outcome,
        "title": finding.title,
        "saving_ns_low": None if saving is None else saving.low,
        "saving_ns_high": None if saving is None else saving.high,
        "confidence": finding.confidence or "",
        "remedy": finding.remedy,
        **_quantities(finding, _FINDING_QUANTITIES),
    }


def _op(op: Op) -> dict[str, Any]:
    return {
        "index": op.index,
        "name": op.name,
        "class": op.op_class,
        "part": op.part or "",
        "layer": op.layer,
        "module": op.module,
        "module_class": op.module_class,
        "inputs": " ".join(_shape(t.shape, t.dtype) for t in op.inputs),
        "outputs": " ".join(_shape(t.shape, t.dtype) for t in op.outputs),
        "bytes_in": op.bytes_in,
        "bytes_out": op.bytes_out,
        "flops": op.flops,
        "elementwise_flops": op.elementwise_flops,
        "time_ns": op.time_ns,
        "source_line": op.source_line,
    }


def _shape(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"
