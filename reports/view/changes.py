"""What changed against a baseline: environment first, then totals, operators, kernels, findings."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import Finding, Quantity
from rooflens.reports.compare.deltas import METRIC_NAMES, NOT_JUDGED
from rooflens.reports.compare.records import (
    Comparison,
    Delta,
    Difference,
    FindingChange,
    KernelChange,
    OpChange,
    OperatorChange,
    Verdict,
)
from rooflens.reports.format import count_text, delta_text, percent_text, quantity_text, time_text
from rooflens.reports.view.cells import amount, clean, missing, table, words
from rooflens.reports.view.page import Cell, Changes, Column, Table

MAX_ROWS = 60
_ARROWS = {Verdict.IMPROVED: "▼ better", Verdict.REGRESSED: "▲ worse"}
_CSS = {Verdict.IMPROVED: "better", Verdict.REGRESSED: "worse"}
_COLUMNS = (
    Column("What", numeric=False),
    Column("Before"),
    Column("After"),
    Column("Change"),
    Column("Verdict", numeric=False),
    Column("Why", numeric=False),
)


def changes(comparison: Comparison) -> Changes:
    """Word a comparison; only what changed is shown."""
    tables = [
        _environment(comparison.environment),
        _deltas("changes-totals", "Totals that changed", comparison.totals),
        _operators(comparison.operators),
        _ops(comparison.ops),
        _kernels(comparison.kernels),
        _findings(comparison.findings),
        _differences(comparison.differences),
    ]
    notes = [*comparison.reasons, *(pattern.sentence for pattern in comparison.patterns)]
    notes += [_time(comparison), *comparison.notes]
    return Changes(
        sentence=clean(f"{_heading(comparison.verdict)}: {comparison.sentence}", 600),
        notes=tuple(dict.fromkeys(clean(note, 600) for note in notes[:MAX_ROWS] if note)),
        tables=tuple(made for made in tables if made is not None),
    )


def _heading(verdict: Verdict) -> str:
    """The verdict of the whole comparison, as the command line and CI print it."""
    return str(verdict).replace("_", " ")


def verdict_text(verdict: Verdict) -> str:
    """A verdict with its arrow and word: never colour alone."""
    return _ARROWS.get(verdict, str(verdict).replace("_", " ").lower())


def _time(comparison: Comparison) -> str:
    judged = comparison.time
    if judged.base_median_ns is None or judged.head_median_ns is None:
        return f"Step time: {verdict_text(judged.verdict)}. {judged.reason}"
    text = f"Step time {time_text(judged.base_median_ns)} -> {time_text(judged.head_median_ns)}"
    if judged.relative is not None:
        text += f" ({delta_text(judged.relative)})"
    details = [f"n = {judged.n_base} and {judged.n_head}"]
    if judged.p is not None:
        details.insert(0, f"p = {judged.p:.3f}")
    if judged.smallest_detectable is not None:
        details.append(f"smallest detectable change {percent_text(judged.smallest_detectable)}")
    return f"{text}: {verdict_text(judged.verdict)} ({', '.join(details)}). {judged.reason}"


def _environment(differences: Sequence[Difference]) -> Table | None:
    if not differences:
        return None
    columns = (
        Column("Environment", numeric=False),
        Column("Before", numeric=False),
        Column("After", numeric=False),
        Column("Not compared because of it", numeric=False),
    )
    rows = [
        [
            words(difference.name),
            words(difference.base),
            words(difference.head),
            Cell(
                clean(", ".join(difference.forbids) or "nothing", 200),
                detail=clean(difference.reason),
            ),
        ]
        for difference in differences[:MAX_ROWS]
    ]
    return table("changes-environment", "Differences of the environment", columns, rows)


def _change(delta: Delta) -> Cell:
    if delta.change is None or delta.base.unit is None:
        return missing(delta.reason or delta.base.absent or delta.head.absent or "not comparable")
    size = quantity_text(
        Quantity(value=abs(delta.change), unit=delta.base.unit, source=delta.base.source)
    )
    sign = "+" if delta.change > 0 else "−" if delta.change < 0 else "±"
    relative = "" if delta.relative is None else f" ({delta_text(delta.relative)})"
    return Cell(
        f"{sign}{size}{relative}", css=_CSS.get(delta.verdict, ""), sort=float(delta.change)
    )


def _delta_row(name: str, delta: Delta) -> list[Cell]:
    return [
        words(name),
        amount(delta.base),
        amount(delta.head),
        _change(delta),
        Cell(_verdict_of(delta), css=_CSS.get(delta.verdict, "")),
        Cell("" if delta.reason == NOT_JUDGED else clean(delta.reason, 300)),
    ]


def _verdict_of(delta: Delta) -> str:
    return "not judged" if delta.reason == NOT_JUDGED else verdict_text(delta.verdict)


def _moved(delta: Delta) -> bool:
    return delta.change not in (None, 0) or delta.verdict is Verdict.NOT_COMPARABLE


def _deltas(id: str, caption: str, deltas: Sequence[Delta]) -> Table | None:
    rows = [_delta_row(_metric(delta), delta) for delta in deltas if _moved(delta)]
    return table(id, caption, _COLUMNS, rows[:MAX_ROWS]) if rows else None


def _metric(delta: Delta) -> str:
    return METRIC_NAMES[delta.metric]


def _operators(changed: Sequence[OperatorChange]) -> Table | None:
    rows = []
    for change in changed:
        for delta in change.deltas:
            row = _delta_row(f"{change.op_class}: {_metric(delta)}", delta)
            if change.ops and not row[-1].text:
                row[-1] = Cell(clean(change.ops, 300))
            rows.append(row)
    caption = "Operator classes that changed"
    return table("changes-operators", caption, _COLUMNS, rows[:MAX_ROWS]) if rows else None


def _ops(changed: Sequence[OpChange]) -> Table | None:
    if not changed:
        return None
    columns = (
        Column("Module", numeric=False),
        Column("Class", numeric=False),
        Column("Places"),
        Column("Ops before", numeric=False),
        Column("Ops after", numeric=False),
        Column("Calls"),
        Column("Bytes"),
        Column("Verdict", numeric=False),
    )
    rows = [
        [
            words(change.module or change.head_module or "outside any module"),
            words(change.op_class),
            Cell(count_text(change.layers)),
            Cell(clean(change.base_ops, 200) or "–"),
            Cell(clean(change.head_ops, 200) or "–"),
            Cell(f"{change.calls_change:+,}"),
            Cell(_signed_bytes(change.bytes_change)),
            Cell(verdict_text(change.verdict), css=_CSS.get(change.verdict, "")),
        ]
        for change in changed[:MAX_ROWS]
    ]
    return table("changes-ops", "Ops that changed, by module", columns, rows, _more(len(changed)))


def _signed_bytes(change: int) -> str:
    size = quantity_text(Quantity(value=abs(change), unit="byte", source="counted"))
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{size}"


def _kernels(changed: Sequence[KernelChange]) -> Table | None:
    if not changed:
        return None
    columns = (
        Column("Kernel", numeric=False),
        Column("How it changed", numeric=False),
        Column("Launches"),
        Column("Moved bytes"),
        Column("Time"),
        Column("Verdict", numeric=False),
        Column("Why", numeric=False),
    )
    rows = [
        [
            words(_kernel_name(change)),
            words(change.kind),
            _change(change.launches),
            _change(change.moved_bytes),
            _change(change.time_ns),
            Cell(verdict_text(change.verdict), css=_CSS.get(change.verdict, "")),
            Cell(clean(change.reason, 300)),
        ]
        for change in changed[:MAX_ROWS]
    ]
    return table("changes-kernels", "Kernels that changed", columns, rows, _more(len(changed)))


def _kernel_name(change: KernelChange) -> str:
    if change.base_name and change.head_name and change.base_name != change.head_name:
        return f"{change.base_name} -> {change.head_name}"
    return change.head_name or change.base_name


def _findings(changed: Sequence[FindingChange]) -> Table | None:
    rows = [
        [
            words(f"{change.rule}: {change.kind}"),
            amount(change.saving_bytes.base),
            amount(change.saving_bytes.head),
            _change(change.saving_bytes),
            Cell(verdict_text(change.verdict), css=_CSS.get(change.verdict, "")),
            Cell(clean(change.title, 300)),
        ]
        for change in changed[:MAX_ROWS]
    ]
    return table("changes-findings", "Findings that changed", _COLUMNS, rows) if rows else None


def _differences(answers: Sequence[Finding]) -> Table | None:
    """Findings of the rules that need both runs; what could not be looked at stands below."""
    columns = (
        Column("Rule", numeric=False),
        Column("What the two runs show", numeric=False),
        Column("Evidence", numeric=False),
        Column("What to do", numeric=False),
    )
    rows = [
        [
            words(finding.rule),
            Cell(clean(finding.title, 300)),
            Cell(clean("; ".join(finding.evidence[:6]), 600)),
            Cell(clean(finding.remedy, 300)),
        ]
        for finding in answers
        if finding.outcome == "found"
    ]
    unseen = [
        clean(f"{finding.rule} could not look: {finding.confidence_reason}", 300)
        for finding in answers
        if finding.outcome == "could_not_look"
    ]
    caption = "Findings that only the comparison shows"
    return table("changes-differences", caption, columns, rows, unseen) if rows else None


def _more(count: int) -> list[str]:
    return [f"{count - MAX_ROWS} more are in the comparison's JSON."] if count > MAX_ROWS else []
