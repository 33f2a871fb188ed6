"""An Answer for a terminal and as Markdown."""

from __future__ import annotations

from rooflens.reports.theory.answer import Answer
from rooflens.reports.theory.rendering import words
from rooflens.reports.theory.rendering.tables import markdown_table, text_table


def answer_text(answer: Answer) -> str:
    """Title, verdict, operators, totals, floors, crossover and roof, with notes at the end."""
    parts = [
        words.title(answer),
        words.verdict(answer),
        text_table(words.operator_table(answer)),
        text_table(words.totals_table(answer)),
    ]
    floors = words.floor_table(answer)
    if floors is not None:
        parts.append(text_table(floors))
    parts += [s for s in (words.crossover_sentence(answer), words.roof_sentence(answer)) if s]
    if answer.notes:
        parts.append("\n".join(f"Note: {note}" for note in answer.notes))
    return "\n\n".join(parts)


def answer_markdown(answer: Answer) -> str:
    """The same as Markdown, with where sources disagree."""
    parts = [
        f"## Theory: {words.title(answer)}",
        words.verdict(answer),
        markdown_table(words.operator_table(answer)),
        markdown_table(words.totals_table(answer)),
    ]
    floors = words.floor_table(answer)
    if floors is not None:
        parts.append(markdown_table(floors))
    parts += [s for s in (words.crossover_sentence(answer), words.roof_sentence(answer)) if s]
    parts += ["\n".join(f"- {note}" for note in answer.notes)] if answer.notes else []
    if answer.disagreements:
        listed = "\n".join(f"- {text}" for text in answer.disagreements)
        parts.append(f"Where public sources disagree about this GPU:\n\n{listed}")
    return "\n\n".join(parts)
