"""A report for a pull request: Markdown of fewer than 60,000 characters, details folded.

Foreign text (names, messages, commands) is escaped: it can close no table cell, open no tag, start
no link or mention, and make no heading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rooflens.reports.format import plural
from rooflens.reports.view.page import Card, Cell, CheckLine, Column, Page, Table

MAX_CHARACTERS = 60_000
"""GitHub refuses comments of 65,536 characters; this leaves room for what a bot adds."""
_KEEP = 59_000
MAX_ROWS = 30
OPEN_FINDINGS = 3
_ACTIVE = re.compile(r"([\\`*\[\]#!|~$]|(?<![^\W_])_|_(?![^\W_]))")
_LINE_START = re.compile(r"^(?:(\d+)(?=[.)](?:\s|$))|(?=[-+=]))")
_LINK = re.compile(r"(?i)\b(https?|ftp|www)(?=[:.])")


def escape(text: str) -> str:
    """Escape everything that Markdown or HTML could read as markup; one line."""
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _ACTIVE.sub(r"\\\1", text)
    # A zero-width word joiner keeps @name from pinging people and URLs from becoming links.
    text = text.replace("@", "@\u2060")
    text = _LINK.sub("\\1\u2060", text)
    return _LINE_START.sub(r"\1\\", text)


def render_markdown(page: Page) -> str:
    """Render the page for a pull request, whole sections only, below the limit."""
    blocks = [
        _head(page),
        _trust(page),
        _findings(page),
        _changes(page),
        _operators(page),
        _kernels(page),
        _measured(page),
    ]
    kept: list[str] = []
    length = 0
    cut = False
    for block in blocks:
        if not block:
            continue
        if length + len(block) > _KEEP:
            cut = True
            continue
        kept.append(block)
        length += len(block) + 1
    if cut:
        kept.append("_Some sections were left out to fit a comment: see report.html._\n")
    return "\n".join(kept)


def _head(page: Page) -> str:
    lines = [f"### {escape(page.title)}", "", f"**{escape(page.verdict.sentence)}**", ""]
    if page.changes is not None:
        lines += [f"Against the baseline: **{escape(page.changes.sentence)}**", ""]
    lines += [escape(page.verdict.lead), ""]
    lines += ["| | | evidence | |", "|---|---:|---|---|"]
    lines += [
        f"| {escape(tile.title)} | **{escape(tile.value)}** | {escape(tile.source)} "
        f"| {escape(tile.detail)} |"
        for tile in page.verdict.tiles
    ]
    lines += ["", f"<sub>{escape(page.subtitle)}</sub>", ""]
    return "\n".join(lines)


def _trust(page: Page) -> str:
    lines = [f"**Can these numbers be trusted?** {escape(page.trust.headline)}", ""]
    lines += [_check(check) for check in page.trust.problems[:MAX_ROWS]]
    more = len(page.trust.problems) - MAX_ROWS
    if more > 0:
        lines.append(f"- {more} more in report.html")
    return "\n".join([*lines, ""]) if page.trust.problems else "\n".join(lines)


def _check(check: CheckLine) -> str:
    fix = f" Fix: {escape(check.fix)}" if check.fix else ""
    return f"- **{check.mark}**: {escape(check.message)}{fix}"


def _findings(page: Page) -> str:
    cards = [*page.findings.cards, *page.findings.more]
    lines = ["#### What to do", "", escape(page.findings.sentence), ""]
    for number, card in enumerate(cards[:OPEN_FINDINGS], start=1):
        lines += _card(number, card)
    rest = cards[OPEN_FINDINGS : OPEN_FINDINGS + MAX_ROWS]
    if rest:
        body: list[str] = []
        for number, card in enumerate(rest, start=OPEN_FINDINGS + 1):
            body += _card(number, card)
        lines += _fold(plural(len(rest), "smaller finding"), body)
    unknown = page.findings.unknown[:MAX_ROWS]
    if unknown:
        lines += _fold(
            f"{plural(len(page.findings.unknown), 'rule')} could not look",
            [f"- {escape(rule.rule)}: {escape(rule.text)}" for rule in unknown],
        )
    answers = [
        f"- {escape(entry.question)}: **{escape(entry.verdict)}.** {escape(entry.answer)}"
        for entry in page.findings.directions
    ]
    lines += _fold("Five things that people check by hand", answers)
    if page.findings.clear:
        names = ", ".join(escape(rule.rule) for rule in page.findings.clear[:80])
        lines += _fold(
            f"{plural(len(page.findings.clear), 'rule')} looked and found nothing", [names]
        )
    return "\n".join(lines)


def _card(number: int, card: Card) -> list[str]:
    lines = [f"{number}. **{escape(card.title)}** ({escape(card.rule)})"]
    lines.append(f"   - Saves: **{escape(card.saves)}**")
    if card.why:
        lines.append(f"   - Why: {escape(card.why)}")
    if card.remedy:
        lines.append(f"   - Do this: {escape(card.remedy)}")
    reason = f": {escape(card.confidence_reason)}" if card.confidence_reason else ""
    lines += [f"   - How sure: {escape(card.confidence)}{reason}", ""]
    return lines


def _fold(summary: str, body: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{escape(summary)}</summary>", "", *body, "", "</details>", ""]


def _changes(page: Page) -> str:
    if page.changes is None:
        return ""
    lines = ["#### What changed", "", f"**{escape(page.changes.sentence)}**", ""]
    lines += [f"- {escape(note)}" for note in page.changes.notes[:MAX_ROWS]]
    for table in page.changes.tables:
        lines += ["", *_table(table)]
    return "\n".join([*lines, ""])


def _operators(page: Page) -> str:
    if page.operators.table is None:
        return f"#### Operators\n\n{escape(page.operators.empty)}\n"
    lines = ["#### Operators", "", *(f"- {escape(line)}" for line in page.operators.sentences), ""]
    return "\n".join([*lines, *_fold(page.operators.table.caption, _table(page.operators.table))])


def _kernels(page: Page) -> str:
    if page.kernels.table is None:
        return ""
    return "\n".join(_fold(page.kernels.table.caption, _table(page.kernels.table)))


def _table(table: Table) -> list[str]:
    lines = ["| " + " | ".join(_heading(column) for column in table.columns) + " |"]
    lines.append(
        "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|"
    )
    lines += [
        "| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows[:MAX_ROWS]
    ]
    notes = list(table.notes)
    if len(table.rows) > MAX_ROWS:
        notes.append(f"{len(table.rows) - MAX_ROWS} more rows are in report.html.")
    if notes:
        lines += ["", *(f"- {escape(note)}" for note in notes)]
    return lines


def _heading(column: Column) -> str:
    source = f"<br><sub>{escape(column.source)}</sub>" if column.source else ""
    return f"{escape(column.title)}{source}"


def _cell(cell: Cell) -> str:
    source = f" <sub>{escape(cell.source)}</sub>" if cell.source else ""
    mark = " (invalid)" if cell.css == "invalid" and "invalid" not in cell.text else ""
    return f"{escape(cell.text)}{mark}{source}"


def _measured(page: Page) -> str:
    body: list[str] = []
    for command in page.measured.commands:
        body += [f"- <code>{escape(command)}</code>"]
    body += ["", *(escape(line) for line in page.measured.layers), ""]
    body += [
        f"- {escape(f.name)}: {escape(f.formula)} = {escape(f.filled)}"
        for f in page.measured.formulas
    ]
    for table in (page.measured.roofs, page.measured.captures, page.measured.facts):
        if table is not None:
            body += ["", *_table(table)]
    return "\n".join(_fold("How this was measured", body))
