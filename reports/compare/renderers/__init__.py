"""Write a comparison down: terminal text, Markdown for a pull request, JSON, JUnit, annotations.

    render(comparison, answers, "markdown") -> str

HTML is the report page of the head with a section "what changed" (`rooflens.reports.html`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.errors import UsageError, did_you_mean
from rooflens.reports.compare.gate import Answer
from rooflens.reports.compare.records import Comparison

FORMATS = ("text", "markdown", "json", "junit", "github")


def render(comparison: Comparison, answers: Sequence[Answer], format: str) -> str:
    """Render a comparison and the answers of its gate as text of one of FORMATS."""
    if format == "text":
        from rooflens.reports.compare.renderers.text import render_text

        return render_text(comparison, answers)
    if format == "markdown":
        from rooflens.reports.compare.renderers.markdown import render_markdown

        return render_markdown(comparison, answers)
    if format == "json":
        from rooflens.reports.compare.renderers.machine import render_json

        return render_json(comparison, answers)
    if format == "junit":
        from rooflens.reports.compare.renderers.machine import render_junit

        return render_junit(comparison, answers)
    if format == "github":
        from rooflens.reports.compare.renderers.machine import render_annotations

        return render_annotations(comparison, answers)
    raise UsageError(f'Unknown format "{format}".', did_you_mean(format, FORMATS))
