"""Findings as cards, biggest saving first; rules that found nothing or could not look, by name."""

from __future__ import annotations

import msgspec

from rooflens.model import Finding, KernelRow, Outcome, Run
from rooflens.reports.findings.directions import directions
from rooflens.reports.format import (
    bytes_text,
    percent_text,
    plural,
    quantity_text,
    source_text,
    time_range_text,
    time_text,
)
from rooflens.reports.view.basis import Basis, per_what
from rooflens.reports.view.cells import clean
from rooflens.reports.view.page import Card, Direction, Findings, RuleLine

OPEN_CARDS = 7
ALWAYS_OPEN = 3
SMALL_SHARE = 0.01
MAX_CARDS = 60
MAX_EVIDENCE = 24
MAX_KERNELS = 2000
MAX_RULES = 100
_CONFIDENCE = {"high": "High", "medium": "Medium", "low": "Low"}


def found_by_saving(run: Run) -> tuple[Finding, ...]:
    """What was found, ordered by recoverable time, or by bytes where there is no roof."""

    def weight(finding: Finding) -> tuple[float, float]:
        time = finding.saving_ns.high if finding.saving_ns is not None else 0.0
        return time, float(finding.saving_bytes.value or 0)

    found = [finding for finding in run.findings if finding.outcome == "found"]
    return tuple(sorted(found, key=weight, reverse=True))


def findings(basis: Basis, found: tuple[Finding, ...]) -> Findings:
    """Make the cards and the two folded lists of a run."""
    cards = [_card(basis, finding) for finding in found[:MAX_CARDS]]
    opened = _open_count(basis, found)
    return Findings(
        cards=tuple(cards[:opened]),
        more=tuple(cards[opened:]),
        clear=_lines(basis.run, "clear"),
        unknown=_lines(basis.run, "could_not_look"),
        directions=_directions(basis.run),
        sentence=_sentence(basis, found),
    )


def _open_count(basis: Basis, found: tuple[Finding, ...]) -> int:
    """How many cards are shown unfolded: three, and up to seven while they are worth a look."""
    requested = basis.run.totals.requested_bytes.value
    opened = min(len(found), ALWAYS_OPEN)
    for finding in found[ALWAYS_OPEN:OPEN_CARDS]:
        saved = finding.saving_bytes.value
        if requested and saved is not None and saved / requested < SMALL_SHARE:
            break
        opened += 1
    return opened


def _directions(run: Run) -> tuple[Direction, ...]:
    return tuple(
        Direction(
            question=clean(entry.direction, 200),
            verdict=entry.verdict.capitalize(),
            answer=clean(entry.answer, 600),
            evidence=tuple(clean(fact, 300) for fact in entry.evidence[:MAX_EVIDENCE]),
        )
        for entry in directions(_with_largest_kernels(run))
    )


def _with_largest_kernels(run: Run) -> Run:
    """The run with the kernels that take most time, so that rendering always ends soon.

    Looking at a name that no rule knows takes milliseconds; a real step has a few hundred names.
    """
    if len(run.kernels) <= MAX_KERNELS:
        return run

    def weight(kernel: KernelRow) -> float:
        return float(kernel.duration_ns.value or 0) * kernel.count

    largest = sorted(run.kernels, key=weight, reverse=True)[:MAX_KERNELS]
    return msgspec.structs.replace(run, kernels=tuple(largest))


def _lines(run: Run, outcome: Outcome) -> tuple[RuleLine, ...]:
    return tuple([_line(f) for f in run.findings if f.outcome == outcome][:MAX_RULES])


def _line(finding: Finding) -> RuleLine:
    return RuleLine(clean(finding.rule, 60), clean(finding.title or finding.why, 300))


def _sentence(basis: Basis, found: tuple[Finding, ...]) -> str:
    if not basis.run.findings:
        return "No rule has looked at this run, so nothing can be said about what to fix."
    if not found:
        return "No rule found anything to fix."
    known = [f for f in found if f.saving_bytes.value is not None]
    text = plural(len(found), "finding")
    if known:
        saved = sum(f.saving_bytes.value or 0 for f in known)
        text += f", together {bytes_text(saved)} {per_what(basis.run)}"
        requested = basis.run.totals.requested_bytes.value
        if requested:
            text += f" ({percent_text(saved / requested)} of the requested bytes)"
        text += _readers(basis, saved, sum(f.consumer_bytes.value or 0 for f in found))
    if len(found) > MAX_CARDS:
        text += f"; the first {MAX_CARDS} are shown"
    if basis.roof is None and all(finding.saving_ns is None for finding in found):
        text += ". Ordered by bytes: without a roof there is no time"
        if basis.run.totals.compulsory_bytes.value is not None:
            text += "; add --gpu NAME for one"
    return text + "."


def _readers(basis: Basis, saved: float, less: float) -> str:
    """What the readers of removed tensors ask for less, where that fits into the gap as well."""
    totals = basis.run.totals
    gap = (totals.requested_bytes.value or 0) - (totals.compulsory_bytes.value or 0)
    if not less or saved + less > gap:
        return ""
    return f"; the ops that read these tensors ask for {bytes_text(less)} less as well"


def _card(basis: Basis, finding: Finding) -> Card:
    evidence = [clean(line, 400) for line in finding.evidence[:MAX_EVIDENCE]]
    if len(finding.evidence) > MAX_EVIDENCE:
        evidence.append(f"{len(finding.evidence) - MAX_EVIDENCE} more lines are in run.json.")
    consumers = finding.consumer_bytes
    if consumers.value:
        evidence.append(f"Their consumers read {quantity_text(consumers)} less as well.")
    evidence += _places(basis.run, finding)
    return Card(
        id=f"finding-{_slug(finding.rule)}",
        rule=clean(finding.rule, 60),
        title=clean(finding.title, 300),
        saves=_saves(basis, finding),
        saves_source=source_text(finding.saving_bytes),
        saves_note=clean(finding.saving_note, 400),
        why=clean(finding.why, 1200),
        remedy=clean(finding.remedy, 1200),
        confidence=_CONFIDENCE.get(finding.confidence or "", "Not said"),
        confidence_reason=clean(finding.confidence_reason, 400),
        evidence=tuple(evidence),
    )


def _saves(basis: Basis, finding: Finding) -> str:
    saved, requested = finding.saving_bytes, basis.run.totals.requested_bytes.value
    parts = []
    if saved.value is not None:
        text = f"{bytes_text(saved.value)} {per_what(basis.run)}"
        if requested:
            text += f" ({percent_text(saved.value / requested)} of the requested bytes)"
        parts.append(text)
    if finding.saving_ns is not None and finding.saving_ns.high > 0:
        text = time_range_text(finding.saving_ns)
        if basis.roof is not None and not basis.same_device:
            text += f" on {clean(basis.roof.name, 60)} (prediction)"
        parts.append(text if parts else f"{text} {per_what(basis.run)}")
    if saved.value is None:
        reason = clean(saved.absent or "", 200)
        parts.append(f"bytes not known ({reason})" if parts else f"not known: {reason}")
    return ", ".join(parts)


def _places(run: Run, finding: Finding) -> list[str]:
    """Say which ops and kernels a finding rests on, with one example of each."""
    lines = []
    ops = [index for index in finding.ops if 0 <= index < len(run.ops)]
    if ops:
        op = run.ops[ops[0]]
        place = op.module or "outside any module"
        source = f", {op.source_line}" if op.source_line else ""
        lines.append(clean(f"{plural(len(ops), 'op')}, e.g. {op.name} in {place}{source}"))
        times = [spent for i in ops if (spent := run.ops[i].time_ns) is not None]
        if len(times) == len(ops):
            took = "would take about" if run.totals.step_time_ns.extrapolated_from else "took"
            lines.append(
                f"These ops {took} {time_text(sum(times))} of the step (host clock): the time of "
                "all they do, not a saving."
            )
    rows = [index for index in finding.kernels if 0 <= index < len(run.kernels)]
    if rows:
        name = run.kernels[rows[0]].short_name
        lines.append(clean(f"{plural(len(rows), 'kernel row')}, e.g. {name}"))
    return lines


def _slug(rule: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in rule.lower())[:60]
