"""A run directory from your own torch code: any model, any serving stack, no `profile run`.

    from rooflens.harness.recording import record_run, save_run

    with torch.device("meta"):
        model = MyModel(config)
    run = record_run(lambda: model(tokens, cache), model, workload="decode", batch=1, context=2047)
    save_run(run, "rooflens-runs/head")

What is recorded is exact on every device: ops, shapes, requested bytes and FLOPs. Nothing is timed.
On the `meta` device nothing is computed and no memory is needed, whatever the size of the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rooflens import __version__
from rooflens.errors import InputError
from rooflens.harness import machine
from rooflens.model import SCHEMA_VERSION, Model, Run, Workload, absent

if TYPE_CHECKING:
    from torch import nn

NOT_TIMED = "recorded, not timed"


def record_run(
    step: Callable[[], object],
    model: nn.Module,
    *,
    workload: str = "step",
    name: str = "",
    batch: int | None = None,
    context: int | None = None,
    new_tokens: int | None = None,
    cache: object = None,
    labels: Mapping[str, str] | None = None,
) -> Run:
    """Run `step` once and return what it asked memory and the arithmetic units for.

    `workload`, `batch`, `context` (tokens in the cache before the step) and `new_tokens` are kept
    in the run: runs are compared only where they agree. `cache` is the KV cache where the model is
    not handed it by one of the usual names. Raises InputError when the step called no operator.
    """
    from rooflens.harness.recorder import record
    from rooflens.reports.checks import run_checks
    from rooflens.reports.classify import classify
    from rooflens.reports.findings import find
    from rooflens.reports.join.counted import operator_rows, totals

    ops = classify(record(step, model, cache=cache))
    if not ops:
        raise InputError("The step called no torch operator.", "Call the model inside it.")
    parameters = list(model.parameters())
    device = parameters[0].device.type if parameters else "cpu"
    facts = machine.machine_facts(device)
    run = Run(
        schema_version=SCHEMA_VERSION,
        created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        command=(Path(sys.argv[0]).name or "python",),
        evidence=("counted",),
        machine=facts,
        tools={"rooflens": __version__} | machine.package_versions(),
        workload=Workload(
            name=workload,
            batch=batch,
            context=context,
            query_tokens=new_tokens,
            dtype=str(parameters[0].dtype).removeprefix("torch.") if parameters else "",
            device=device,
        ),
        model=Model(
            name=name or type(model).__name__,
            params=sum(parameter.numel() for parameter in parameters),
            weights="own code",
        ),
        roofs=(),
        totals=totals(ops, None, None, absent(NOT_TIMED)),
        step_times_ns=(),
        operators=operator_rows(ops),
        ops=ops,
        kernels=(),
        graphs=(),
        timeline=None,
        findings=(),
        checks=(),
        labels=dict(labels or {}),
    )
    run = msgspec.structs.replace(run, findings=find(run))
    return msgspec.structs.replace(run, checks=run_checks(run))


def save_run(run: Run, directory: str | Path, *, force: bool = False) -> Path:
    """Write the run directory (run.json, report.html, summary.md) and return its path.

    Raises UsageError when it exists and `force` is not given.
    """
    from rooflens.harness.run_directory import write_run

    write_run(run, Path(directory), force=force)
    return Path(directory)
