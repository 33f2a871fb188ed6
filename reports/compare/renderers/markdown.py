"""A comparison for a pull request: Markdown below 60,000 characters, whatever the runs hold.

The verdict and what changed stand open, details are folded. Rows are left out, never cut in half,
until the text fits. All foreign text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.reports.compare.gate import Answer
from rooflens.reports.compare.records import Comparison, Verdict
from rooflens.reports.compare.renderers.text import not_compared, time_line
from rooflens.reports.format import plural
from rooflens.reports.markdown import MAX_CHARACTERS, escape
from rooflens.reports.view.cells import clean
from rooflens.reports.view.changes import changes
from rooflens.reports.view.page import Table

_ROW_LIMITS = (30, 12, 5, 2, 0)
_OPEN_TABLES = ("changes-totals", "changes-operators")
_HEADINGS = {
    Verdict.REGRESSED: "▲ REGRESSED",
    Verdict.IMPROVED: "▼ IMPROVED",
    Verdict.NO_CHANGE_SHOWN: "● NO CHANGE SHOWN",
    Verdict.WITHIN_NOISE: "● WITHIN NOISE",
    Verdict.NOT_COMPARABLE: "◆ NOT COMPARABLE",
    Verdict.CANNOT_JUDGE: "◆ CANNOT JUDGE",
}


def render_markdown(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """Render a comparison as a comment of a pull request."""
    text = ""
    for rows in _ROW_LIMITS:
        text = _render(comparison, answers, rows)
        if len(text) < MAX_CHARACTERS - 1000:
            return text
    return text[: MAX_CHARACTERS - 1000]


def _render(comparison: Comparison, answers: Sequence[Answer], rows: int) -> str:
    heading = _HEADINGS.get(comparison.verdict, str(comparison.verdict))
    lines = [f"### Rooflens: {heading}", ""]
    lines += [f"**{escape(clean(comparison.sentence, 600))}**", ""]
    lines += [f"<sub>{escape(clean(_sides(comparison), 600))}</sub>", ""]
    failed = [answer for answer in answers if answer.outcome != "passed"]
    lines += [
        f"- **{answer.outcome}**: <code>--fail-on {escape(answer.condition)}</code>: "
        f"{escape(clean(answer.message, 300))}"
        for answer in failed[:rows]
    ]
    told = [pattern.sentence for pattern in comparison.patterns[:rows]]
    lines += [f"- {escape(clean(sentence, 400))}" for sentence in told]
    lines += [f"- {escape(clean(time_line(comparison.time), 400))}", ""]
    tables = {table.id: table for table in changes(comparison).tables}
    for name in _OPEN_TABLES:
        if name in tables:
            lines += [f"**{escape(tables[name].caption)}**", "", *_table(tables.pop(name), rows)]
    environment = tables.pop("changes-environment", None)
    for table in tables.values():
        lines += _fold(f"{table.caption} ({len(table.rows)})", _table(table, rows))
    if environment is not None:
        body = [
            f"- {escape(': '.join(row[:2]))}: {escape(row[2])}"
            for row in not_compared(comparison)[:rows]
        ]
        count = len(comparison.environment)
        lines += _fold(f"{plural(count, 'difference')} of the environment", body)
    lines += [f"- {escape(clean(note, 300))}" for note in comparison.notes[:rows]]
    lines += ["", f"<sub>{escape(clean(comparison.workload, 200))}. Bytes, FLOPs and launches are "
              "exact; times are called changed only when shown.</sub>", ""]  # fmt: skip
    return "\n".join(lines)


def _sides(comparison: Comparison) -> str:
    sides = []
    for side in (comparison.base, comparison.head):
        commit = side.labels.get("commit", "")
        named = f"{side.name} {commit[:12]}".strip()
        sides.append(f"{named} ({plural(side.runs, 'run')})")
    return f"{sides[0]} → {sides[1]}"


def _table(table: Table, rows: int) -> list[str]:
    heads = [escape(column.title) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(rule)}|"]
    lines += [
        f"| {' | '.join(escape(clean(cell.text, 120)) for cell in row)} |"
        for row in table.rows[:rows]
    ]
    if len(table.rows) > rows:
        lines += ["", f"…and {len(table.rows) - rows} more rows (`--format json` has all)."]
    lines += ["", *(f"- {escape(clean(note, 300))}" for note in table.notes)]
    return [*lines, ""]


def _fold(summary: str, body: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{escape(summary)}</summary>", "", *body, "</details>", ""]
