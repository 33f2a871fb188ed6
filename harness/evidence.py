"""Which evidence works on this machine, and which a run will use.

Theory and counted bytes work everywhere. A timeline of kernels needs a GPU and nsys or torch's
profiler (host ranges need no GPU and are recorded when asked for), counters a GPU, ncu and
permission. Under `auto` what is missing is a warning; evidence that was named and cannot be had
ends the run with the fix.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rooflens.errors import ProfilerError
from rooflens.harness.doctor import Surroundings, examine
from rooflens.model import Check, Run
from rooflens.quantity import Record
from rooflens.vocabulary import EVIDENCE

if TYPE_CHECKING:
    from rooflens.harness.plan import RunPlan
    from rooflens.harness.progress import Progress

ALWAYS = ("theory", "counted")
Collector = Callable[["RunPlan", Run, Path, "Progress"], Run]
"""Adds one level to a run: (plan, run so far, folder for raw files, progress) -> run.

It fills in what its evidence says (timeline, kernels, totals, rows, captures, checks) and leaves
its raw files in the folder; findings are looked for afterwards. ProfilerError when it fails.
"""
COLLECTORS: dict[str, str] = {
    "timeline": "rooflens.harness.collectors.timeline:collect_timeline",
    "counters": "rooflens.harness.collectors.counters:collect_counters",
}
"""Module and function of each level's collector, as `module:function`, in order of collection."""
_BLOCKERS = {
    "timeline": ("gpu", "torch-cuda", "temporary-folder"),
    "counters": (
        "gpu", "torch-cuda", "sandbox", "ncu", "counter-permission", "temporary-folder",
    ),
}  # fmt: skip
"""Checks of the doctor that each level rests on; the first that did not pass is the reason.

A timeline needs no nsys: torch's own profiler records one too."""


class Level(Record, frozen=True, kw_only=True):
    """One evidence level on this machine."""

    name: str
    works: bool
    reason: str = ""
    """Why it does not work here, or what may spoil it."""
    fix: str = ""


class EvidencePlan(Record, frozen=True, kw_only=True):
    """The levels that a run will collect, and what it has to say about the others."""

    levels: tuple[str, ...]
    warnings: tuple[Check, ...] = ()


def evidence_levels(found: Surroundings) -> tuple[Level, ...]:
    """Say for every level whether it works on this machine."""
    checks = {check.id: check for check in examine(found)}
    return tuple(
        Level(name=name, works=True) if name in ALWAYS else _level(name, checks)
        for name in EVIDENCE
    )


def choose_evidence(
    wanted: tuple[str, ...], device: str, levels: tuple[Level, ...]
) -> EvidencePlan:
    """Decide what to collect. `wanted` is empty for `auto`; `device` is where the step runs.

    Raises ProfilerError when a level that was named cannot be had on this machine or device.
    """
    by_name = {level.name: level for level in levels}
    chosen, warnings = list(ALWAYS), []
    for name in (level for level in EVIDENCE if level not in ALWAYS):
        level = by_name[name]
        reason, fix = level.reason, level.fix
        works = level.works and device == "cuda" and name in COLLECTORS
        if name == "timeline" and name in wanted and device == "cpu":
            # Ranges of the host need no GPU: asked for by name, they are recorded.
            works = True
        elif level.works and device != "cuda":
            reason, fix = f"the step runs on {device}, not on the GPU", "Use --device cuda."
        elif level.works and not works:
            reason, fix = "`profile run` does not collect it", "Use profile wrap or profile import."
        if works and (not wanted or name in wanted):
            chosen.append(name)
        elif name in wanted:
            raise ProfilerError(f"--evidence {name} cannot be had here: {reason}.", fix)
        elif not wanted and device == "cuda":
            warnings.append(
                Check(
                    id=f"evidence-{name}",
                    outcome="warning",
                    message=f"No {name} evidence: {reason}.",
                    fix=fix,
                )
            )
    return EvidencePlan(levels=tuple(chosen), warnings=tuple(warnings))


def collect(
    levels: tuple[str, ...],
    named: tuple[str, ...],
    plan: RunPlan,
    run: Run,
    folder: Path,
    progress: Progress,
) -> Run:
    """Collect the levels one after the other.

    What fails under `auto` becomes a warning and the run goes on with what is left; a level that
    was `named` raises its ProfilerError.
    """
    for level in (name for name in COLLECTORS if name in levels):
        module, _, function = COLLECTORS[level].partition(":")
        collector: Collector = getattr(importlib.import_module(module), function)
        try:
            run = collector(plan, run, folder, progress)
        except ProfilerError as error:
            if level in named:
                raise
            failure = Check(
                id=f"evidence-{level}",
                outcome="warning",
                message=f"No {level} evidence: {error.message}",
                fix=error.hint,
            )
            run = msgspec.structs.replace(
                run,
                evidence=tuple(name for name in run.evidence if name != level),
                checks=(*run.checks, failure),
            )
    return run


def _level(name: str, checks: dict[str, Check]) -> Level:
    blocking = (checks[id] for id in _BLOCKERS[name] if id in checks and _blocks(checks[id]))
    check = next(blocking, None)
    if check is None:
        return Level(name=name, works=True)
    return Level(
        name=name, works=False, reason=check.message.split(". ")[0].rstrip("."), fix=check.fix
    )


def _blocks(check: Check) -> bool:
    if check.id in ("nsys", "ncu"):
        return check.outcome != "passed"
    # A driver whose setting cannot be read may still allow counters: only a capture tells.
    if check.id == "counter-permission":
        return check.outcome == "failed"
    return check.outcome in ("failed", "could_not_look")
