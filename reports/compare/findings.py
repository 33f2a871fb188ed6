"""Findings of two sides: what appeared, vanished, grew or shrank."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import Finding, Quantity, Run, absent, known
from rooflens.reports.compare.deltas import delta
from rooflens.reports.compare.records import FindingChange, Verdict


def compare_findings(base: Sequence[Run], head: Sequence[Run]) -> list[FindingChange]:
    """Compare the answers of every rule; rules that one side did not ask are left out."""
    sides = [_by_rule(side) for side in (base, head)]
    changes = [
        change
        for rule in sorted(set(sides[0]) & set(sides[1]))
        if (change := _compare(rule, sides[0][rule], sides[1][rule])) is not None
    ]
    return sorted(changes, key=lambda change: -abs(change.saving_bytes.change or 0))


def rules_answered(
    base: Sequence[Run], head: Sequence[Run], differences: Sequence[Finding] = ()
) -> tuple[str, ...]:
    """Rules that both sides asked and that the head could look at: a gate may rest on them.

    `differences` are the answers of rules that look at both sides at once.
    """
    sides = [_by_rule(side) for side in (base, head)]
    answered = {
        rule
        for rule in set(sides[0]) & set(sides[1])
        if _outcome(sides[1][rule]) != "could_not_look"
    }
    answered |= {finding.rule for finding in differences if finding.outcome != "could_not_look"}
    return tuple(sorted(answered))


def _by_rule(side: Sequence[Run]) -> dict[str, list[Finding]]:
    rules: dict[str, list[Finding]] = {}
    for finding in side[0].findings:
        rules.setdefault(finding.rule, []).append(finding)
    return rules


def _outcome(findings: list[Finding]) -> str:
    outcomes = [finding.outcome for finding in findings]
    return "found" if "found" in outcomes else outcomes[0]


def _saving(findings: list[Finding]) -> Quantity:
    found = [finding.saving_bytes for finding in findings if finding.outcome == "found"]
    values = [quantity.value for quantity in found if quantity.value is not None]
    if not found:
        return absent("not found on this side")
    if len(values) < len(found):
        return next(quantity for quantity in found if quantity.value is None)
    return known(sum(values), "byte", found[0].source or "counted")


def _compare(rule: str, base: list[Finding], head: list[Finding]) -> FindingChange | None:
    before, after = _outcome(base), _outcome(head)
    shown = next((item for item in (*head, *base) if item.outcome == "found"), None)
    if shown is None:
        return None
    savings = [_saving(base), _saving(head)]
    note = ""
    if before == after:
        change = delta("requested_bytes", savings[0], savings[1])
        if not change.change:
            return None
        kind = "grew" if change.change > 0 else "shrank"
        verdict = change.verdict
    elif "could_not_look" in (before, after):
        kind = "seen only in head" if after == "found" else "seen only in base"
        verdict = Verdict.CANNOT_JUDGE
        side = base if before == "could_not_look" else head
        note = f"could not look on the other side: {side[0].title}"
    elif after == "found":
        kind, verdict = "appeared", Verdict.REGRESSED
    else:
        kind, verdict = "vanished", Verdict.IMPROVED
    if kind in ("appeared", "vanished"):
        # Nothing found on one side is nothing to save there.
        savings = [
            _or_zero(saving, other) for saving, other in zip(savings, savings[::-1], strict=True)
        ]
    return FindingChange(
        rule=rule,
        kind=kind,
        verdict=verdict,
        title=shown.title,
        saving_bytes=delta("requested_bytes", savings[0], savings[1]),
        note=note,
    )


def _or_zero(saving: Quantity, other: Quantity) -> Quantity:
    if saving.value is None and other.value is not None and other.source is not None:
        return known(0, "byte", other.source)
    return saving
