"""A comparison for a terminal: the verdict first, then only what changed."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import Finding
from rooflens.reports.compare.deltas import METRIC_NAMES, NOT_JUDGED, change_text
from rooflens.reports.compare.gate import Answer
from rooflens.reports.compare.records import (
    EVERYTHING,
    Comparison,
    Delta,
    Difference,
    FindingChange,
    KernelChange,
    OpChange,
    Side,
    TimeJudgement,
    Verdict,
)
from rooflens.reports.format import (
    NONE,
    bytes_text,
    delta_text,
    percent_text,
    plural,
    quantity_text,
    time_text,
)
from rooflens.reports.view.cells import clean

MAX_ROWS = 15
MARKS = {
    Verdict.REGRESSED: "▲ worse",
    Verdict.IMPROVED: "▼ better",
    Verdict.NEW: "＋ new",
    Verdict.GONE: "－ gone",
    Verdict.NO_CHANGE_SHOWN: "",
    Verdict.WITHIN_NOISE: "~ within noise",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.CANNOT_JUDGE: "cannot judge",
}
_SHOWN = (
    "requested_bytes", "moved_bytes", "requested_flops", "executed_flops", "calls", "launches",
    "step_time_ns", "gap_ns",
)  # fmt: skip


def render_text(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """Render a comparison as plain text, at most a screen or two."""
    lines = [f"{comparison.verdict}: {clean(comparison.sentence, 600)}", ""]
    lines += [f"  {_side(comparison.base)}", f"  {_side(comparison.head)}"]
    lines += [f"  {clean(comparison.workload)}", ""]
    lines += _section("Step", _totals(comparison))
    lines += [time_line(comparison.time), ""]
    lines += _section("Operators", _operators(comparison))
    lines += _section("Modules", [_op(change) for change in comparison.ops])
    lines += _section("Kernels", [_kernel(change) for change in comparison.kernels])
    lines += _section("Findings", [_finding(change) for change in comparison.findings])
    two_runs = [finding for finding in comparison.differences if finding.outcome == "found"]
    lines += _section("Shown by the comparison", [_difference(finding) for finding in two_runs])
    told = [pattern.sentence for pattern in comparison.patterns]
    lines += _section("Together", [[clean(text, 600)] for text in told])
    lines += _section("Not compared", not_compared(comparison))
    lines += _section("Notes", [[clean(note, 600)] for note in comparison.notes])
    lines += _section("Gate", [_answer(answer) for answer in answers])
    return "\n".join(lines).rstrip() + "\n"


def _side(side: Side) -> str:
    labels = " ".join(f"{key}={value}" for key, value in sorted(side.labels.items()))
    said = f"{side.name} ({plural(side.runs, 'run')}, {', '.join(side.evidence)})"
    return clean(f"{said} {labels}".rstrip())


def _section(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A headed block with aligned columns; nothing for no rows."""
    if not rows:
        return []
    shown = [list(row) for row in rows[:MAX_ROWS]]
    widths = [
        max(len(row[index]) for row in shown if index < len(row) - 1)
        if any(index < len(row) - 1 for row in shown)
        else 0
        for index in range(max(len(row) for row in shown))
    ]
    lines = [title]
    for row in shown:
        cells = [cell.ljust(widths[index]) for index, cell in enumerate(row[:-1])]
        lines.append("  " + "  ".join([*cells, row[-1]]).rstrip())
    if len(rows) > MAX_ROWS:
        lines.append(f"  … and {len(rows) - MAX_ROWS} more (--format json has all)")
    return [*lines, ""]


def _totals(comparison: Comparison) -> list[list[str]]:
    return [
        _delta(item)
        for item in comparison.totals
        if item.metric in _SHOWN and item.change is not None
    ]


def _delta(item: Delta, name: str = "") -> list[str]:
    arrow = f"{quantity_text(item.base)} → {quantity_text(item.head)}"
    mark = "" if item.reason == NOT_JUDGED else MARKS[item.verdict]
    return [name or METRIC_NAMES[item.metric], arrow, change_text(item), mark]


def time_line(time: TimeJudgement) -> str:
    """The judgement of the step time in one line, with p, n and what would have shown."""
    if time.base_median_ns is None or time.head_median_ns is None:
        return f"Step time: {_words(time.verdict)}: {clean(time.reason)}."
    text = f"Step time: {time_text(time.base_median_ns)} → {time_text(time.head_median_ns)}"
    if time.relative is not None and time.low is not None and time.high is not None:
        text += f", {delta_text(time.relative)} ({delta_text(time.low)} to {delta_text(time.high)})"
    facts = [f"n={time.n_base} and {time.n_head}"]
    if time.p is not None:
        facts.insert(0, f"p={time.p:.3f}")
    if time.smallest_detectable is not None:
        facts.append(f"smallest detectable {percent_text(time.smallest_detectable)}")
    return f"{text}: {_words(time.verdict)} ({', '.join(facts)}). {clean(time.reason)}"


def _words(verdict: Verdict) -> str:
    return verdict.replace("_", " ").lower()


def _operators(comparison: Comparison) -> list[list[str]]:
    rows = []
    for change in comparison.operators:
        mark = MARKS[change.verdict]
        for number, item in enumerate(change.deltas):
            cells = _delta(item)
            rows.append([change.op_class if number == 0 else "", *cells[:3], mark])
            mark = ""
        if change.ops:
            rows.append([f"    {clean(change.ops, 160)}"])
    return rows


def _op(change: OpChange) -> list[str]:
    module = clean(change.module or "outside any module", 60)
    if change.head_module != change.module:
        module += f" → {clean(change.head_module, 60)}"
    sign = "+" if change.bytes_change > 0 else "−" if change.bytes_change < 0 else "±"
    what = f"{clean(change.base_ops, 70) or NONE} → {clean(change.head_ops, 70) or NONE}"
    return [
        f"{module} ×{change.layers}",
        change.op_class,
        f"{sign}{bytes_text(abs(change.bytes_change))}",
        MARKS[change.verdict],
        what,
    ]


def _kernel(change: KernelChange) -> list[str]:
    name = clean(change.head_name or change.base_name, 60)
    if change.kind == "substituted":
        name = f"{clean(change.base_name, 50)} → {clean(change.head_name, 50)}"
    facts = [
        f"{METRIC_NAMES[item.metric]} {change_text(item)}"
        for item in (change.launches, change.moved_bytes, change.time_ns)
        if item.change
    ]
    facts += [clean(change.reason, 200)] if change.reason else []
    return [
        clean(change.op_class, 20),
        change.kind + (f" ×{change.rows}" if change.rows > 1 else ""),
        name,
        MARKS[change.verdict],
        "; ".join(facts),
    ]


def _finding(change: FindingChange) -> list[str]:
    saving = change.saving_bytes
    size = change_text(saving) if saving.change is not None else NONE
    return [clean(change.rule, 40), change.kind, size, clean(change.title, 120)]


def _difference(finding: Finding) -> list[str]:
    return [
        clean(finding.rule, 40),
        clean(finding.title, 120),
        clean("; ".join(finding.evidence[:3]), 240),
    ]


def not_compared(comparison: Comparison) -> list[list[str]]:
    """Differences of the environment, with what they forbid."""
    return [
        [
            clean(item.name, 40),
            f"{clean(item.base, 40) or NONE} → {clean(item.head, 40) or NONE}",
            f"forbids {forbids_text(item)}: {clean(item.reason)}"
            if item.forbids
            else "forbids nothing",
        ]
        for item in comparison.environment
    ]


def forbids_text(item: Difference) -> str:
    """What a difference forbids to compare, in words."""
    return "everything" if set(item.forbids) == set(EVERYTHING) else ", ".join(item.forbids)


def _answer(answer: Answer) -> list[str]:
    return [answer.outcome, answer.condition, clean(answer.message, 300)]
