"""The five checks that people do by hand after a profile, answered from the evidence of a run.

for item in directions(run): item.direction, item.answer, item.evidence
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rooflens.model import KernelRow, Op, Run
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import kind_of
from rooflens.reports.findings.kernel_numbers import metric
from rooflens.reports.findings.r03_repeat_kv_expand import detect as find_expansion
from rooflens.reports.findings.r06_gqa_not_packed import detect as find_rereads
from rooflens.reports.findings.r14_layout_copy import detect as find_copies
from rooflens.reports.findings.r19_launch_gap import representative
from rooflens.reports.findings.r20_device_sync import detect as find_syncs
from rooflens.reports.findings.rule import Claim
from rooflens.reports.format import (
    bytes_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)

Verdict = Literal["yes", "no", "could not look"]

_GATHERS = frozenset({
    "aten.gather", "aten.index", "aten.index_select", "aten.scatter", "aten.scatter_",
    "aten.index_add_", "aten.take_along_dim", "aten.index_put", "aten.scatter_add_",
})  # fmt: skip


@dataclass(frozen=True)
class Direction:
    """One question, whether the run shows the problem, our answer, and what it rests on."""

    direction: str
    verdict: Verdict
    answer: str
    evidence: tuple[str, ...] = ()


def directions(run: Run) -> tuple[Direction, ...]:
    """The five directions, in their usual order."""
    evidence = Evidence.of(run)
    return (
        _gathers(evidence),
        _reuse(evidence),
        _occupancy(evidence),
        _pages(evidence),
        _moved_elsewhere(evidence),
    )


def _gathers(evidence: Evidence) -> Direction:
    direction = "Extra gathers, scatters and transposes"
    if not evidence.ops:
        rows = evidence.rows_of("copy")
        if not evidence.kernels:
            return Direction(direction, "could not look", "Nothing was recorded or captured.")
        share = _time_share(evidence, rows)
        if not _whole_step(evidence):
            answer = "The capture holds single kernels, not a step with products and attention."
            return Direction(direction, "could not look", answer)
        return Direction(
            direction,
            "yes" if share and share > 0.02 else "no",
            "Copies are known by kernel name only; what each is for needs a counted run.",
            () if share is None else (f"copy kernels: {percent_text(share)} of the kernel time",),
        )
    moved = [op for op in evidence.ops if base_name(op) in _GATHERS and op.layer is not None]
    copies = find_copies(evidence)
    facts = [_bytes_fact(moved, "gathers and scatters inside layers", evidence)] if moved else []
    if isinstance(copies, Claim):
        facts.append(f"{copies.title}: {bytes_text(sum(copies.saved.values()))}")
    if not facts:
        return Direction(direction, "no", "The layers gather, scatter and copy nothing.")
    return Direction(direction, "yes", "The step moves data without computing on it.", tuple(facts))


def _reuse(evidence: Evidence) -> Direction:
    direction = "Reuse of K and V on chip across the query heads of a group"
    expansion = find_expansion(evidence)
    if isinstance(expansion, Claim):
        return Direction(
            direction,
            "yes",
            "K and V are expanded in memory, so no kernel can share a read between query heads.",
            expansion.evidence,
        )
    rereads = find_rereads(evidence)
    if isinstance(rereads, Claim):
        return Direction(direction, "yes", rereads.title + ".", rereads.evidence)
    grouped = [call for call in evidence.fused if call.heads > call.kv_heads]
    if grouped:
        call = grouped[0]
        return Direction(
            direction,
            "no" if rereads is None else "could not look",
            "The fused call is handed K and V unexpanded; whether its kernel reads them once, only "
            "L2 and DRAM counters show."
            if rereads is not None
            else "The attention kernels read K and V about once.",
            (f"{call.heads} query heads share {call.kv_heads} KV heads in one call",),
        )
    if evidence.fused or evidence.composites:
        return Direction(direction, "no", "Each query head has its own K and V: nothing to share.")
    return Direction(
        direction,
        "could not look" if rereads is not None else "no",
        "No attention op was recorded, and the kernels have no L2 and DRAM bytes."
        if rereads is not None
        else "The attention kernels read K and V about once.",
    )


def _occupancy(evidence: Evidence) -> Direction:
    direction = "Occupancy that registers and shared memory cost"
    rows = [
        (kernel, occupancy)
        for kernel in evidence.kernels
        if (occupancy := metric(kernel, "occupancy_percent")) is not None
    ]
    if not rows:
        return Direction(
            direction,
            "could not look",
            "No kernel has a measured occupancy (ncu: Occupancy section).",
        )
    limited = [
        (kernel, occupancy) for kernel, occupancy in rows if occupancy < 50 and _below_roofs(kernel)
    ]
    if not limited:
        return Direction(
            direction,
            "no",
            "No kernel is below half occupancy while it is also below 60 % of both roofs.",
        )
    limited.sort(key=lambda item: -(item[0].duration_ns.value or 0) * item[0].count)
    return Direction(
        direction,
        "yes",
        "These kernels are below half occupancy and below 60 % of both roofs: look at registers, "
        "shared memory and the number of blocks.",
        tuple(_occupancy_fact(kernel, occupancy) for kernel, occupancy in limited[:4]),
    )


def _below_roofs(kernel: KernelRow) -> bool:
    names = (
        "dram_percent_of_roof", "dram_throughput_percent", "tensor_percent_of_roof",
        "sm_throughput_percent",
    )  # fmt: skip
    shares = [share for name in names if (share := metric(kernel, name)) is not None]
    return bool(shares) and max(shares) < 60


def _occupancy_fact(kernel: KernelRow, occupancy: float) -> str:
    registers = metric(kernel, "registers_per_thread")
    waves = metric(kernel, "waves_per_sm")
    parts = [f"{kernel.short_name}: occupancy {percent_text(occupancy / 100)}"]
    if registers is not None:
        parts.append(f"{count_text(registers)} registers a thread")
    if waves is not None:
        parts.append(f"{waves:.2g} waves")
    return ", ".join(parts)


def _pages(evidence: Evidence) -> Direction:
    direction = "Fragmentation of a paged KV cache"
    paged = [
        row for row in evidence.rows_of("attention", "kv_write") if _is_paged(evidence.kernels[row])
    ]
    pages = [op for op in evidence.ops if "paged" in op.name or "reshape_and_cache" in op.name]
    if not paged and not pages:
        if evidence.fused or evidence.composites:
            answer = "No paged cache is in use: keys and values lie in one tensor a layer."
            return Direction(direction, "no", answer)
        answer = "No kernel or op in the evidence names a paged cache; names need not tell."
        return Direction(direction, "could not look", answer)
    row = next(
        (r for r in evidence.operators if r.op_class == "attention" and r.part is None), None
    )
    moved = None if row is None else row.moved_bytes.value
    minimum = None if row is None else row.minimum_bytes.value
    if moved is None or not minimum:
        return Direction(
            direction,
            "could not look",
            "The cache is paged; what half-empty pages cost needs moved bytes beside the minimum.",
            tuple(evidence.kernels[r].short_name for r in paged[:2]),
        )
    return Direction(
        direction,
        "yes" if moved / minimum > 1.1 else "no",
        f"Attention moves {ratio_text(moved / minimum)} its minimum.",
        (f"{bytes_text(moved)} moved, {bytes_text(minimum)} needed",),
    )


def _is_paged(kernel: KernelRow) -> bool:
    name = kernel.name.lower()
    return any(word in name for word in ("paged", "block_table", "reshape_and_cache"))


def _moved_elsewhere(evidence: Evidence) -> Direction:
    direction = "Bottleneck moved to sampling, communication or CPU-GPU synchronisation"
    facts: list[str] = []
    problem = False
    for kind, label in (("sampler", "sampling"), ("communication", "communication")):
        share = _time_share(evidence, evidence.rows_of(kind))
        if share is not None:
            facts.append(f"{label}: {percent_text(share)} of the kernel time")
            problem = problem or share > 0.1
    step = representative(evidence)
    if step is not None and step.wall_ns:
        idle = step.idle_ns / step.wall_ns
        facts.append(f"idle: {percent_text(idle)} of the step ({time_text(step.idle_ns)})")
        problem = problem or idle > 0.2
    syncs = find_syncs(evidence)
    if isinstance(syncs, Claim):
        facts.append(syncs.title)
        problem = True
    elif evidence.ops:
        facts.append("no op of the step makes the host wait")
    if not facts:
        return Direction(direction, "could not look", "Neither ops nor kernel times are there.")
    answer = (
        "Part of the step's time is outside the model's operators."
        if problem
        else "Nothing outside the model's operators takes a visible part of the step."
    )
    if not problem and not _whole_step(evidence):
        return Direction(
            direction,
            "could not look",
            "Sampling, communication and idle time need the kernels of a whole step with their "
            "times (products and attention at least).",
            tuple(facts),
        )
    return Direction(direction, "yes" if problem else "no", answer, tuple(facts))


def _whole_step(evidence: Evidence) -> bool:
    """True when timed products and attention are there: a few kernels are no step."""
    kinds = {kind_of(k) for k in evidence.kernels if k.duration_ns.value is not None}
    return {"product", "attention"} <= kinds


def _time_share(evidence: Evidence, rows: Iterable[int]) -> float | None:
    everything = evidence.kernel_ns
    return evidence.time_of(rows) / everything if everything else None


def _bytes_fact(ops: list[Op], what: str, evidence: Evidence) -> str:
    total = sum(op.bytes_in + op.bytes_out for op in ops)
    share = total / evidence.step_bytes if evidence.step_bytes else 0.0
    return f"{plural(len(ops), 'op')} are {what}: {bytes_text(total)} ({percent_text(share)})"
