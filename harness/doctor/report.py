"""The doctor's answer as a record, as text and as JSON."""

from __future__ import annotations

import msgspec

from rooflens.harness.doctor import examine
from rooflens.harness.doctor.collection import tiny_collections
from rooflens.harness.doctor.surroundings import Surroundings, look
from rooflens.harness.evidence import Level, evidence_levels
from rooflens.model import Check
from rooflens.quantity import Record

_MARKS = {"passed": "ok", "warning": "warn", "failed": "FAIL", "could_not_look": "?"}
_INDENT = " " * 7
TRIALS = {"counters": ("ncu-trial", "self-check-flops", "self-check-bytes")}
"""Trials without which a level cannot be believed. A timeline has torch's profiler besides nsys."""


class Diagnosis(Record, frozen=True, kw_only=True):
    """What was checked, and which evidence works here."""

    checks: tuple[Check, ...]
    evidence: tuple[Level, ...]


def diagnose(found: Surroundings | None = None, *, collect: bool = True) -> Diagnosis:
    """Look, judge, and (`collect`) try the profilers for real on something tiny."""
    found = found if found is not None else look()
    trials = tiny_collections(found) if collect else ()
    levels = tuple(_after_trials(level, trials) for level in evidence_levels(found))
    return Diagnosis(checks=(*examine(found), *trials), evidence=levels)


def _after_trials(level: Level, trials: tuple[Check, ...]) -> Level:
    """A trial that failed outweighs every check that passed."""
    failed = next((check for check in trials if check.outcome == "failed"
                   and check.id in TRIALS.get(level.name, ())), None)  # fmt: skip
    if failed is None or not level.works:
        return level
    return Level(name=level.name, works=False, reason=failed.message.rstrip("."), fix=failed.fix)


def render_text(diagnosis: Diagnosis) -> str:
    """One line a check, its fix below it, then the evidence that this machine can give."""
    lines = ["Checks"]
    for check in diagnosis.checks:
        lines.append(f"  {_MARKS[check.outcome]:<4} {check.message}")
        if check.fix and check.outcome != "passed":
            lines.append(f"{_INDENT}fix: {check.fix}")
    lines += ["", "Evidence that this machine can give"]
    ranges = any(c.id == "nsys-trial" and c.outcome == "passed" for c in diagnosis.checks)
    for level in diagnosis.evidence:
        answer = "yes" if level.works else f"no: {level.reason}"
        if level.name == "timeline" and not level.works and ranges:
            answer += " (host ranges only: --evidence timeline)"
        lines.append(f"  {level.name:<9} {answer}")
    return "\n".join(lines)


def render_json(diagnosis: Diagnosis) -> str:
    """The same as JSON: `checks` and `evidence`."""
    return msgspec.json.format(msgspec.json.encode(diagnosis), indent=1).decode()
