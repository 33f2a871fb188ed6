"""Can these numbers be trusted? Failed checks first, then warnings, what could not look, passed."""

from __future__ import annotations

from rooflens.model import Check, Run
from rooflens.reports.format import plural
from rooflens.reports.view.cells import clean
from rooflens.reports.view.page import CheckLine, Trust

MARKS = {
    "failed": "Failed",
    "warning": "Warning",
    "could_not_look": "Could not look",
    "passed": "Passed",
}
MAX_LINES = 60
"""Checks shown of one outcome; further ones are counted."""


def trust(run: Run) -> Trust:
    """Sort the checks of a run and say in one line how they went."""
    by_outcome: dict[str, list[Check]] = {outcome: [] for outcome in MARKS}
    for check in run.checks:
        by_outcome[check.outcome].append(check)
    failed, warned = by_outcome["failed"], by_outcome["warning"]
    return Trust(
        headline=_headline(run.checks, len(failed), len(warned), by_outcome["could_not_look"]),
        problems=_lines(failed) + _lines(warned),
        unknown=_lines(by_outcome["could_not_look"]),
        passed=_lines(by_outcome["passed"]),
    )


def _headline(checks: tuple[Check, ...], failed: int, warned: int, unknown: list[Check]) -> str:
    if not checks:
        return "No check has been made: take every number with care."
    passed = len(checks) - failed - warned - len(unknown)
    parts = []
    if failed:
        parts.append(f"{plural(failed, 'check')} failed")
    if warned:
        parts.append(plural(warned, "warning"))
    if unknown:
        parts.append(f"{plural(len(unknown), 'check')} could not look")
    if not parts:
        return "The one check passed." if passed == 1 else f"All {passed} checks passed."
    if passed:
        parts.append(f"{passed} passed")
    return ", ".join(parts) + "."


def _lines(checks: list[Check]) -> tuple[CheckLine, ...]:
    lines = [
        CheckLine(clean(c.id, 60), MARKS[c.outcome], clean(c.message, 600), clean(c.fix, 600))
        for c in checks[:MAX_LINES]
    ]
    if len(checks) > MAX_LINES:
        more = f"{plural(len(checks) - MAX_LINES, 'more check')} with this outcome are in run.json."
        lines.append(CheckLine("more", MARKS[checks[0].outcome], more, ""))
    return tuple(lines)
