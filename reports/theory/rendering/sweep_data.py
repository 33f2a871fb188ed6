"""A Sweep as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rooflens.reports.theory.sweep import Sweep, SweepRow
from rooflens.units import NS_PER_S

CSV_COLUMNS = (
    "workload", "model", "gpu", "dtype", "batch", "context", "query_tokens", "flops",
    "tensor_flops", "compulsory_bytes", "ideal_op_bytes", "kv_cache_bytes", "intensity", "ridge",
    "bound", "floor_s", "tokens_per_s", "measured_s",
)  # fmt: skip


def sweep_json(sweep: Sweep) -> str:
    """All rows and crossings; what a row has no value for (no roof, not measured) is left out."""
    data: dict[str, Any] = {
        "workload": sweep.workload,
        "model": sweep.model,
        "dtype": sweep.dtype,
        "options": list(sweep.options),
        "along": sweep.along,
        "rows": [_row(row) for row in sweep.rows],
        "crossings": [
            {
                "gpu": crossing.gpu,
                "along": crossing.along,
                "at": crossing.at,
                **{
                    name: getattr(crossing, name)
                    for name in ("batch", "context", "query_tokens")
                    if name != crossing.along
                },
            }
            for crossing in sweep.crossings
        ],
    }
    if sweep.crossover_tokens:
        data["crossover_tokens"] = sweep.crossover_tokens
    if sweep.measured_on:
        data["measured_on"] = sweep.measured_on
    return json.dumps(data, indent=2, allow_nan=False)


def sweep_csv(sweep: Sweep) -> str:
    """One line per point and GPU."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    shared = {"workload": sweep.workload, "model": sweep.model, "dtype": sweep.dtype}
    for row in sweep.rows:
        fields = shared | _row(row)
        writer.writerow([fields.get(column, "") for column in CSV_COLUMNS])
    return out.getvalue().removesuffix("\n")


def _row(row: SweepRow) -> dict[str, Any]:
    data: dict[str, Any] = {
        "gpu": row.gpu,
        "batch": row.batch,
        "context": row.context,
        "query_tokens": row.query_tokens,
        "flops": row.flops,
        "tensor_flops": row.tensor_flops,
        "compulsory_bytes": row.compulsory_bytes,
        "ideal_op_bytes": row.ideal_op_bytes,
        "kv_cache_bytes": row.kv_cache_bytes,
        "intensity": row.intensity,
        "ridge": row.ridge,
        "bound": row.bound,
        "floor_s": None if row.floor_ns is None else row.floor_ns / NS_PER_S,
        "tokens_per_s": row.tokens_per_s,
        "measured_s": None if row.measured_ns is None else row.measured_ns / NS_PER_S,
    }
    return {name: value for name, value in data.items() if value is not None}
