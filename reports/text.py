"""The verdict for a terminal: one sentence, the step against its floor, the top three findings."""

from __future__ import annotations

import io
import textwrap

from rich.console import Console
from rich.text import Text

from rooflens.reports.format import NONE, time_text
from rooflens.reports.view.page import Card, Page

TOP_FINDINGS = 3
BAR = 40
DEFAULT_WIDTH = 100


def render_text(page: Page, width: int = DEFAULT_WIDTH, color: bool = False) -> str:
    """Render the verdict as text of at most `width` columns; `color` adds terminal styles."""
    out = io.StringIO()
    # Only our own Text objects are printed: markup and emoji codes in foreign names stay inert.
    console = Console(
        file=out, width=width, force_terminal=color, no_color=not color, markup=False, emoji=False,
        highlight=False, legacy_windows=False, color_system="standard" if color else None,
    )  # fmt: skip
    console.print(_wrapped(page.title, width, style="bold"))
    if page.subtitle:
        console.print(_wrapped(page.subtitle, width, style="dim"))
    console.print()
    console.print(_wrapped(page.verdict.sentence, width, style="bold"))
    if page.verdict.losses:
        console.print(_wrapped(page.verdict.losses, width))
    if page.changes is not None:
        console.print(_wrapped(f"Against the baseline: {page.changes.sentence}", width))
    console.print()
    _numbers(console, page)
    _problems(console, page)
    _findings(console, page)
    return out.getvalue()


def _wrapped(text: str, width: int, indent: int = 0, style: str = "", first: str = "") -> Text:
    """Wrap by words; lines start at `indent`, the first one with `first` standing out of it."""
    lead = f"{first:>{indent}}" if first else " " * indent
    lines = textwrap.wrap(
        text, width, initial_indent=lead, subsequent_indent=" " * indent, break_on_hyphens=False
    )
    return Text("\n".join(lines), style=style)


def _numbers(console: Console, page: Page) -> None:
    verdict = page.verdict
    widest = max(len(tile.title) for tile in verdict.tiles)
    for tile in verdict.tiles:
        line = Text(f"  {tile.title:<{widest}}  ")
        line.append(tile.value, style="bold")
        source = f"  [{tile.source}]" if tile.source else ""
        if len(line) + len(source) <= console.width:
            line.append(source, style="dim")
        console.print(line)
        if tile.detail:
            console.print(_wrapped(tile.detail, console.width, widest + 4, "dim"))
    if verdict.bar_step > 0 and verdict.bar_floor > 0:
        longest = max(verdict.bar_step, verdict.bar_floor)
        console.print()
        for name, length in (("step", verdict.bar_step), ("floor", verdict.bar_floor)):
            cells = max(round(BAR * length / longest), 1)
            console.print(Text(f"  {name:<6}{'█' * cells} {time_text(length)}"))
    console.print()


def _problems(console: Console, page: Page) -> None:
    problems = page.trust.problems
    if not problems:
        console.print(_wrapped(f"Checks: {page.trust.headline}", console.width, style="dim"))
    for check in problems[:TOP_FINDINGS]:
        console.print(_wrapped(f"{check.mark}: {check.message}", console.width, style="yellow"))
        if check.fix:
            console.print(_wrapped(f"Fix: {check.fix}", console.width, 2))
    if len(problems) > TOP_FINDINGS:
        console.print(Text(f"{len(problems) - TOP_FINDINGS} more in the report."))
    console.print()


def _findings(console: Console, page: Page) -> None:
    findings = page.findings
    console.print(_wrapped(findings.sentence, console.width))
    for number, card in enumerate(findings.cards[:TOP_FINDINGS], start=1):
        _finding(console, number, card)
    more = len(findings.cards) + len(findings.more) - TOP_FINDINGS
    if more > 0:
        console.print(Text(f"  and {more} more in the report."))


def _finding(console: Console, number: int, card: Card) -> None:
    console.print()
    title = f"{card.title} ({card.rule})"
    console.print(_wrapped(title, console.width, 3, "bold", f"{number}. "))
    console.print(_wrapped(f"Saves: {card.saves or NONE}", console.width, 3))
    if card.remedy:
        console.print(_wrapped(f"Do: {card.remedy}", console.width, 3))
    console.print(_wrapped(f"How sure: {card.confidence.lower()}", console.width, 3))
