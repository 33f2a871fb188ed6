"""What a page holds: text that is already worded and formatted, tables, and pictures.

Renderers place these; they do not compute, format or choose. A section that the evidence cannot
fill has `empty`: the sentence that says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.reports.charts.drawing import Drawing


@dataclass(frozen=True)
class Cell:
    """One table cell. `source` is its evidence level, `exact` the number without rounding."""

    text: str
    source: str = ""
    exact: str = ""
    sort: float | None = None
    detail: str = ""
    """Longer text that unfolds, e.g. a kernel's full name."""
    css: str = ""
    absent: str = ""
    """Why there is no number (then `text` is a dash)."""


@dataclass(frozen=True)
class Column:
    """A column head; `source` stands here when all its numbers come from one place."""

    title: str
    numeric: bool = True
    source: str = ""
    help: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first cell of every row is its head. `notes` explain what is missing."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """One of the four big numbers."""

    title: str
    value: str
    source: str
    detail: str
    change: str = ""
    """Old → new with arrow, sign and word; only with a baseline."""
    change_css: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer: one sentence, then four numbers."""

    sentence: str
    losses: str
    """Where the time above the floor went; empty where it cannot be split."""
    lead: str
    tiles: tuple[Tile, ...]
    bar_step: float
    """Step time in ns for a two-bar comparison with the floor; 0 when they must not be compared."""
    bar_floor: float


@dataclass(frozen=True)
class CheckLine:
    """One check; `mark` says its outcome in a word."""

    id: str
    mark: str
    message: str
    fix: str


@dataclass(frozen=True)
class Trust:
    """Can these numbers be trusted? What failed is shown, what passed is folded."""

    headline: str
    problems: tuple[CheckLine, ...]
    unknown: tuple[CheckLine, ...]
    passed: tuple[CheckLine, ...]


@dataclass(frozen=True)
class Chart:
    """A picture, how to read it, and the same numbers as a table."""

    drawing: Drawing
    reading: str
    table: Table
    keys: tuple[tuple[str, str], ...] = ()
    """Colour class and name of every group in the picture."""


@dataclass(frozen=True)
class Where:
    """Where the time (or the bytes) goes, with the floor on the same scale."""

    heading: str
    charts: tuple[Chart, ...]
    sentences: tuple[str, ...]
    empty: str


@dataclass(frozen=True)
class Card:
    """One finding."""

    id: str
    rule: str
    title: str
    saves: str
    saves_source: str
    saves_note: str
    why: str
    remedy: str
    confidence: str
    confidence_reason: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class RuleLine:
    """A rule that found nothing, or that could not look and why."""

    rule: str
    text: str


@dataclass(frozen=True)
class Direction:
    """One of the questions that people ask by hand after a profile, with our answer."""

    question: str
    verdict: str
    answer: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """What to do, biggest saving first."""

    cards: tuple[Card, ...]
    more: tuple[Card, ...]
    clear: tuple[RuleLine, ...]
    unknown: tuple[RuleLine, ...]
    directions: tuple[Direction, ...]
    sentence: str


@dataclass(frozen=True)
class Roofline:
    """Achieved against possible."""

    chart: Chart | None
    sentences: tuple[str, ...]
    empty: str


@dataclass(frozen=True)
class Operators:
    """What each operator needs, asks for and moves."""

    table: Table | None
    parts: Table | None
    sentences: tuple[str, ...]
    empty: str


@dataclass(frozen=True)
class Kernels:
    """Kernels by lost time."""

    table: Table | None
    graphs: Table | None
    sentences: tuple[str, ...]
    empty: str


@dataclass(frozen=True)
class TimelineView:
    """One step in time, and what separates it from its floor."""

    strip: Chart | None
    strip_empty: str
    gaps: Table | None
    waterfall: Chart | None
    waterfall_empty: str
    facts: tuple[str, ...]
    phases: Table | None
    ranges: Table | None


@dataclass(frozen=True)
class Changes:
    """What changed against a baseline."""

    sentence: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class Formula:
    """A formula and the same with this run's numbers in it."""

    name: str
    formula: str
    filled: str


@dataclass(frozen=True)
class Measured:
    """How this was measured."""

    commands: tuple[str, ...]
    facts: Table
    roofs: Table | None
    captures: Table | None
    formulas: tuple[Formula, ...]
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Word:
    """One entry of the glossary."""

    word: str
    meaning: str


@dataclass(frozen=True)
class Page:
    """A whole report, ready to be placed."""

    title: str
    subtitle: str
    created: str
    labels: tuple[tuple[str, str], ...]
    evidence: tuple[tuple[str, str, bool], ...]
    """Evidence level, what it gives, and whether this run has it."""
    verdict: Verdict
    trust: Trust
    where: Where
    findings: Findings
    roofline: Roofline
    operators: Operators
    kernels: Kernels
    timeline: TimelineView
    changes: Changes | None
    measured: Measured
    words: tuple[Word, ...]
    data: str
    """The run for programs, as JSON text (without ops and shapes); empty when it is too large."""
