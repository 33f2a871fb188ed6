"""The machine-readable forms of an Answer. The JSON names are a contract (docs/theory.md)."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rooflens.reports.theory.answer import Answer, OperatorAnswer
from rooflens.reports.theory.floor import StepFloors
from rooflens.units import NS_PER_S

CSV_COLUMNS = (
    "name", "detail", "count", "shape", "flops", "bytes_in", "bytes_out", "intensity", "bound",
    "floor_s",
)  # fmt: skip


def answer_data(answer: Answer) -> dict[str, Any]:
    """The JSON object. Without a roof there is no `roof`, `floor_s` or `crossover_tokens`.

    `weights_dtype`, `kv_dtype`, `tp` and `link_bytes` appear only where they differ from the plain
    step. A crossover of null means: never compute-bound.
    """
    totals = answer.totals
    data: dict[str, Any] = {
        "workload": answer.workload,
        "model": answer.model,
        "gpu": answer.gpu,
        "dtype": answer.dtype,
        "batch": answer.batch,
        "context": answer.context,
        "query_tokens": answer.query_tokens,
        "operators": [_operator(row) for row in answer.operators],
        "totals": {
            "params": totals.params,
            "tensor_flops": totals.tensor_flops,
            "flops": totals.flops,
            "ideal_op_bytes": totals.ideal_op_bytes,
            "compulsory_bytes": totals.compulsory_bytes,
            "intensity": totals.intensity,
            "kv_bytes_per_token": totals.kv_bytes_per_token,
            "weight_bytes_read": totals.weight_bytes_read,
        },
    }
    if answer.weights_dtype != answer.dtype:
        data["weights_dtype"] = answer.weights_dtype
    if answer.kv_dtype != answer.dtype:
        data["kv_dtype"] = answer.kv_dtype
    if answer.tp > 1:
        data |= {"tp": answer.tp, "link_bytes": answer.link_bytes}
    if answer.roof is not None and answer.floors is not None:
        data["roof"] = {
            "peak_flops_per_s": answer.roof.peak_flops_per_s,
            "bandwidth_bytes_per_s": answer.roof.bandwidth_bytes_per_s,
            "ridge": answer.ridge,
            "source": answer.roof.source,
        }
        data["crossover_tokens"] = answer.crossover_tokens
        data["floor_s"] = _floors(answer.floors)
    return data


def answer_json(answer: Answer) -> str:
    """`answer_data` as text."""
    return json.dumps(answer_data(answer), indent=2, allow_nan=False)


def answer_csv(answer: Answer) -> str:
    """One line per operator, per call; `floor_s` is empty without a roof."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in answer.operators:
        fields = _operator(row) | {"detail": row.operator.detail}
        writer.writerow([fields.get(column, "") for column in CSV_COLUMNS])
    return out.getvalue().removesuffix("\n")


def _operator(row: OperatorAnswer) -> dict[str, Any]:
    operator = row.operator
    data = {
        "name": operator.name,
        "count": operator.count,
        "shape": operator.shape,
        "flops": operator.flops,
        "bytes_in": operator.bytes_in,
        "bytes_out": operator.bytes_out,
        "intensity": operator.intensity,
        "bound": row.bound,
    }
    if row.floor_ns is not None:
        data["floor_s"] = row.floor_ns / NS_PER_S
    return data


def _floors(floors: StepFloors) -> dict[str, float]:
    return {
        "compute": floors.compute_ns / NS_PER_S,
        "ideal_bytes": floors.ideal_bytes_ns / NS_PER_S,
        "compulsory_bytes": floors.compulsory_bytes_ns / NS_PER_S,
        "step": floors.step_ns / NS_PER_S,
        "sum_of_operators": floors.sum_of_operators_ns / NS_PER_S,
    }
