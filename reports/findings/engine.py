"""Runs the rules of the catalogue over a run and prices what they find.

    find(run)                      every rule: found, clear, or could not look
    find_differences(base, head)   the rules that need two runs

Savings are never counted twice: an op's bytes go to the first rule in catalogue order that claims
them, and all savings together never exceed the gap (requested - compulsory bytes; step time -
floor).
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import Finding, Run, absent
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.pricing import Limit, price
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Need, Rule

_NEED_TEXT: dict[Need, str] = {
    "ops": "no operator was recorded (a counted run has them)",
    "kernels": "no kernel was captured (an ncu or nsys capture has them)",
    "timeline": "there is no timeline (an nsys or torch trace capture has one)",
    "captures": "nothing was captured: a counted run needs no such check",
    "baseline": "there is no baseline run to compare with",
}

_OUTCOME_ORDER = {"found": 0, "could_not_look": 1, "clear": 2}


def find(run: Run, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """Every rule's finding on one run: found first, by recoverable time (bytes without a roof).

    Rules that need a baseline are left to `find_differences`.
    """
    chosen = [rule for rule in rules if rule.needs != ("baseline",)]
    return _find(run, Evidence.of(run), chosen)


def find_differences(base: Run, head: Run, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """The findings about `head` that only a comparison with `base` can show."""
    chosen = [rule for rule in rules if "baseline" in rule.needs]
    return _find(head, Evidence.of(head, base), chosen)


def _find(run: Run, evidence: Evidence, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    answers = [(rule, answer_of(rule, evidence)) for rule in rules]
    claims = [(rule, answer) for rule, answer in answers if isinstance(answer, Claim)]
    findings = price(claims, evidence, Limit.of(run))
    findings += [_silent(rule, answer) for rule, answer in answers if not isinstance(answer, Claim)]
    return tuple(sorted(findings, key=_order))


def answer_of(rule: Rule, evidence: Evidence) -> Answer:
    """Ask one rule, after checking that the evidence which it needs is there."""
    missing = [need for need in rule.needs if not _has(evidence, need)]
    if len(missing) == len(rule.needs):
        return CannotLook("; ".join(_NEED_TEXT[need] for need in missing))
    return rule.detect(evidence)


def _has(evidence: Evidence, need: Need) -> bool:
    present: dict[Need, bool] = {
        "ops": bool(evidence.ops),
        "kernels": bool(evidence.kernels),
        "timeline": evidence.timeline is not None,
        "captures": bool(evidence.captures),
        "baseline": evidence.baseline is not None,
    }
    return present[need]


def _silent(rule: Rule, answer: CannotLook | None) -> Finding:
    """The record of a rule that found nothing or could not look."""
    if answer is None:
        nothing = absent("nothing was found")
        return Finding(
            rule=rule.id,
            outcome="clear",
            title=rule.clear,
            saving_bytes=nothing,
            consumer_bytes=nothing,
        )
    unseen = absent(f"could not look: {answer.reason}")
    return Finding(
        rule=rule.id,
        outcome="could_not_look",
        title=f"Could not look for: {rule.looks_for}",
        saving_bytes=unseen,
        consumer_bytes=unseen,
        confidence_reason=answer.reason,
    )


def _order(finding: Finding) -> tuple[int, float, float, str]:
    """Found first; among those the most recoverable time, then bytes, then the rule's number."""
    time = finding.saving_ns.high if finding.saving_ns else 0.0
    return (
        _OUTCOME_ORDER[finding.outcome],
        -time,
        -(finding.saving_bytes.value or 0),
        finding.rule,
    )
