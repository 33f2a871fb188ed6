"""Assemble a Run: count, execute, theory, join, findings, checks.

run = run_step(make_plan(RunOptions(workload="decode", batch=1)))
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from rooflens import __version__
from rooflens.architectures import load_config
from rooflens.harness import machine, memory
from rooflens.harness.evidence import EvidencePlan, choose_evidence, collect, evidence_levels
from rooflens.harness.plan import PREFILL_STEP_S, RunPlan, layers_that_fit
from rooflens.harness.progress import Progress
from rooflens.harness.roofs import Roofs, choose_roofs, raise_if_beaten
from rooflens.harness.timing import Sample, class_times, step_time, without_times
from rooflens.model import (
    SCHEMA_VERSION,
    Check,
    Machine,
    Model,
    Op,
    Quantity,
    Roof,
    Run,
    Workload,
    absent,
)
from rooflens.quantity import Record
from rooflens.reports.checks import run_checks
from rooflens.reports.format import plural
from rooflens.workloads.registry import workload

NOTHING_RAN = "nothing ran: --device meta"
LOADING_S = 3.0
COUNTING_S = 2.0
"""About how long counting takes for 28 layers on one core."""


class Executed(Record, frozen=True, kw_only=True):
    """What running the step gave, joined to the counted ops."""

    wall_ns: tuple[float, ...] = ()
    ops: tuple[Op, ...]
    sample: Sample | None
    weights: str
    checks: tuple[Check, ...] = ()


def run_step(plan: RunPlan, progress: Progress | None = None, captures: Path | None = None) -> Run:
    """Run one plan. Raw files of profilers are left in the folder `captures`, if one is given.

    Raises ProfilerError when the step does not fit in memory or evidence that was asked for by
    name cannot be had.
    """
    progress = progress or Progress()
    evidence = _evidence(plan)
    facts = machine.machine_facts(plan.device)
    with progress.stage("Loading torch and transformers", LOADING_S):
        _load_libraries()
    _refuse_if_too_large(plan, facts, ())
    with progress.stage(
        f"Counting every op of {plural(plan.architecture.layers, 'layer')}", COUNTING_S
    ):
        counted = _count(plan)
    _refuse_if_too_large(plan, facts, counted)
    roofs = choose_roofs(plan, progress)
    executed = _execute(plan, facts, counted, roofs, progress)
    roofs = raise_if_beaten(plan, roofs, _fastest_step(executed), progress)
    with progress.stage("Joining counts with theory"):
        run = _assemble(plan, facts, evidence, roofs, executed)
    run = _collect(plan, evidence, run, captures, progress)
    with progress.stage("Looking for findings"):
        return _conclude(run)


def _collect(
    plan: RunPlan, evidence: EvidencePlan, run: Run, captures: Path | None, progress: Progress
) -> Run:
    """Timeline and counters, where they work: into `captures`, or a folder that goes away."""
    named = plan.options.evidence
    if captures is not None:
        return collect(evidence.levels, named, plan, run, captures, progress)
    with tempfile.TemporaryDirectory(prefix="rooflens-") as folder:
        return collect(evidence.levels, named, plan, run, Path(folder), progress)


def _step_time(done: Executed) -> Quantity:
    """Median step of the whole model."""
    if done.sample is None:
        return absent(NOTHING_RAN)
    return step_time(done.wall_ns, done.ops, done.sample)


def _fastest_step(done: Executed) -> float | None:
    """The fastest step of the whole model: one step faster than a ceiling disproves the ceiling."""
    median = _step_time(done).value
    if median is None or not done.wall_ns:
        return median
    # Scaled as the median is, where only some layers ran.
    return median * min(done.wall_ns) / statistics.median(done.wall_ns)


def _evidence(plan: RunPlan) -> EvidencePlan:
    """Which evidence to collect. The machine is looked at only where that can matter."""
    wanted = plan.options.evidence
    if plan.device != "cuda" and not set(wanted) - {"theory", "counted"}:
        return EvidencePlan(levels=("theory", "counted"))
    from rooflens.harness.doctor import look

    return choose_evidence(wanted, plan.device, evidence_levels(look()))


def _load_libraries() -> None:
    """Import what counting and running need, so that their stages show their own time."""
    import torch  # noqa: F401
    from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache  # noqa: F401


def _count(plan: RunPlan) -> tuple[Op, ...]:
    from rooflens.harness.counting import count_step

    return count_step(plan.spec.on("meta"))


def _refuse_if_too_large(plan: RunPlan, facts: Machine, ops: Sequence[Op]) -> None:
    if plan.device == "meta":
        return
    need = memory.memory_need(
        plan.architecture,
        plan.spec,
        dtype=plan.dtype,
        kv_bytes_per_token=plan.theory.kv_bytes_per_token,
        shared=memory.shares_storage(plan.architecture, plan.spec, plan.dtype, facts),
        ops=ops,
    )
    layers = plan.spec.layers or plan.architecture.layers
    memory.refuse_if_too_large(need, plan.spec, memory.available_bytes(plan.device), layers)


def _execute(
    plan: RunPlan, facts: Machine, counted: tuple[Op, ...], roofs: Roofs, progress: Progress
) -> Executed:
    """Run the step where it can be run; on meta there is nothing to run."""
    if plan.device == "meta":
        return Executed(ops=counted, sample=None, weights="none (meta)")
    from rooflens.harness.execution import execute, join_times

    total = plan.architecture.layers
    run_layers = plan.spec.layers or _auto_layers(plan, counted, roofs.here) or total
    step_s = _expected_step_s(counted, roofs.here, run_layers / total)
    done = execute(
        plan.spec.on(plan.device, None if run_layers == total else run_layers),
        warmup=plan.options.warmup,
        steps=plan.options.steps,
        cache_bytes=facts.last_level_cache_bytes,
        progress=progress,
        step_s=step_s,
    )
    ops, mismatch = counted, ""
    if done.recorded:
        ops, mismatch = join_times(counted, done.recorded, run_layers)
    no_op_times = mismatch
    if plan.device == "cuda":
        no_op_times = "host times of a GPU's ops say nothing; they need a timeline"
    return Executed(
        wall_ns=done.wall_ns,
        ops=ops,
        sample=Sample(layers_run=run_layers, layers_model=total, no_op_times=no_op_times),
        weights=done.weights,
        checks=_order_check(mismatch, len(done.recorded)),
    )


def _auto_layers(plan: RunPlan, ops: Sequence[Op], here: Roof | None) -> int | None:
    """`--layers auto`: a prefill on the CPU runs as many as keep a step short; else all."""
    auto = plan.options.layers == "auto" and plan.device == "cpu"
    step_s = _expected_step_s(ops, here, 1.0)
    if not auto or plan.spec.prompt is None or here is None or step_s is None:
        return None
    if step_s <= PREFILL_STEP_S:
        return None
    inside = _expected_step_s([op for op in ops if op.layer is not None], here, 1.0) or 0.0
    return layers_that_fit(step_s, plan.architecture.layers, inside / step_s)


def _expected_step_s(ops: Sequence[Op], here: Roof | None, share: float) -> float | None:
    """Every op at its own floor on this machine, times what ops usually need above it."""
    if here is None:
        return None
    usual = 2.0
    seconds = sum(
        max(
            (op.bytes_in + op.bytes_out) / here.bandwidth_bytes_per_s,
            op.flops / here.peak_flops_per_s,
        )
        for op in ops
    )
    return usual * share * seconds


def _order_check(mismatch: str, recorded: int) -> tuple[Check, ...]:
    if mismatch:
        return (
            Check(
                id="op-order",
                outcome="failed",
                message=f"What ran is not what was counted ({mismatch}): op times are left out.",
                fix="Counts stand. Report this with the model's config.json.",
            ),
        )
    if not recorded:
        return ()
    message = f"What ran is what was counted: {plural(recorded, 'op')} agree in order and name."
    return (Check(id="op-order", outcome="passed", message=message),)


def _assemble(
    plan: RunPlan, facts: Machine, evidence: EvidencePlan, roofs: Roofs, done: Executed
) -> Run:
    """The run as counting and execution know it; findings come when all evidence is there."""
    from rooflens.reports.join.counted import operator_rows, totals

    roof = roofs.all[0] if roofs.all else None
    sample = done.sample
    times, reason = class_times(done.ops, sample) if sample else ({}, NOTHING_RAN)
    rows = operator_rows(done.ops, plan.theory, roof, times)
    if reason:
        rows = without_times(rows, reason)
    return Run(
        schema_version=SCHEMA_VERSION,
        created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        command=plan.options.command,
        evidence=evidence.levels,
        machine=facts,
        tools={"rooflens": __version__} | machine.package_versions(),
        workload=_workload(plan, sample),
        model=_model(plan, done.weights),
        roofs=roofs.all,
        totals=totals(done.ops, plan.theory, roof, _step_time(done)),
        step_times_ns=done.wall_ns,
        operators=rows,
        ops=done.ops,
        kernels=(),
        graphs=(),
        timeline=None,
        findings=(),
        checks=(*evidence.warnings, *done.checks, *roofs.checks),
        labels=dict(plan.options.labels),
    )


def _conclude(run: Run) -> Run:
    """Look for findings, check what can be trusted, and remove what must not be shared."""
    from rooflens.reports.findings import find
    from rooflens.reports.view.redact import redacted

    run = msgspec.structs.replace(run, findings=find(run))
    return redacted(msgspec.structs.replace(run, checks=(*run.checks, *run_checks(run))))


def _workload(plan: RunPlan, sample: Sample | None) -> Workload:
    spec, options = plan.spec, plan.options
    ran = sample is not None
    return Workload(
        name=spec.workload,
        version=workload(spec.workload).version,
        batch=spec.batch,
        context=spec.context,
        prompt=spec.prompt,
        query_tokens=spec.new_tokens,
        attention=spec.attention,
        dtype=plan.dtype,
        device=plan.device,
        layers_run=sample.layers_run if sample else plan.architecture.layers,
        layers_model=plan.architecture.layers,
        logits=spec.logits,
        steps=options.steps if ran else 0,
        warmup=options.warmup if ran else 0,
        seed=spec.seed,
    )


def _model(plan: RunPlan, weights: str) -> Model:
    """Name and shape fields. Numbers and flags only, so that no path can be among them."""
    config: dict[str, Any] = load_config(plan.spec.model)
    shape = {
        key: value
        for key, value in config.items()
        if isinstance(value, bool | int | float) or key in ("model_type", "hidden_act")
    }
    return Model(
        name=plan.architecture.name,
        params=plan.architecture.params,
        weights=weights,
        config=shape,
    )
