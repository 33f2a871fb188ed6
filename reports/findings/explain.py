"""The catalogue in words: one rule for the terminal, or all of them as a Markdown page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rooflens.reports.findings.rule import Need, Rule

WIDTH = 88

_EVIDENCE: dict[Need, str] = {
    "ops": "recorded ops (every `profile run`)",
    "kernels": "kernels (ncu, nsys or a torch trace)",
    "timeline": "a timeline (nsys or a torch trace)",
    "captures": "captures that were asked for",
    "baseline": "a baseline run (`profile diff`)",
}


def overview(rules: Sequence[Rule]) -> str:
    """One line a rule."""
    width = max(len(rule.id) for rule in rules)
    return "".join(f"{rule.id:<{width}}  {rule.looks_for}\n" for rule in rules)


def explanation(rule: Rule) -> str:
    """One rule for the terminal."""
    lines = [rule.id, ""]
    for title, text in _sections(rule):
        lines += [title, textwrap.indent(textwrap.fill(text, WIDTH), "  "), ""]
    return "\n".join(lines)


def catalogue_page(rules: Sequence[Rule]) -> str:
    """All rules as one Markdown page (docs/rules.md)."""
    parts = [
        "# Rules\n",
        "What each finding looks for, why it matters, and what to do. `profile explain R03` prints "
        "one of them. This page is written by `python -m rooflens.reports.findings.explain`.\n",
        "| rule | looks for | needs |\n|---|---|---|\n"
        + "".join(
            f"| [{rule.number}](#{rule.id.lower()}) | {rule.looks_for} | {_needs(rule)} |\n"
            for rule in rules
        ),
    ]
    for rule in rules:
        parts.append(f"## {rule.id}\n")
        parts.extend(f"**{title}.** {text}\n" for title, text in _sections(rule))
    return "\n".join(parts)


def _sections(rule: Rule) -> list[tuple[str, str]]:
    sections = [
        ("Looks for", f"{rule.looks_for}."),
        ("When clear, the report says", f"{rule.clear}."),
        ("Why it matters", rule.why),
        ("What to do", f"{rule.remedy}."),
        ("Where a fix exists", f"{rule.fixed_in}." if rule.fixed_in else ""),
        ("Example", f"{rule.example}."),
        ("Where it goes wrong", rule.limits),
        ("Needs one of", f"{_needs(rule)}."),
        (
            "Thresholds",
            "; ".join(f"{t.value:g}: {t.meaning} ({t.origin})" for t in rule.thresholds),
        ),
    ]
    return [(title, text) for title, text in sections if text]


def _needs(rule: Rule) -> str:
    return "; ".join(_EVIDENCE[need] for need in rule.needs)


if __name__ == "__main__":
    from pathlib import Path

    from rooflens.reports.findings.catalogue import RULES

    Path("docs/rules.md").write_text(catalogue_page(RULES), "utf-8")
