"""From a run to a page: pure, no files, no clock, no environment; same run in, same page out.

    page = build_page(run)
    page = build_page(run, baseline=other_run)

One file a section, in the order of the page: verdict, trust, where, findings, roofline, operators,
kernels, timeline (with waterfall), changes, measured, words. `page.py` holds the records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from rooflens.model import Finding, Run
from rooflens.reports.format import count_text, keys_text, plural
from rooflens.reports.view.basis import Basis, basis, machine_name
from rooflens.reports.view.cells import clean
from rooflens.reports.view.findings import findings, found_by_saving
from rooflens.reports.view.kernels import kernels
from rooflens.reports.view.measured import measured
from rooflens.reports.view.operators import operators
from rooflens.reports.view.page import Changes, Page, Verdict
from rooflens.reports.view.redact import redacted
from rooflens.reports.view.roofline import roofline_section
from rooflens.reports.view.timeline import timeline_view
from rooflens.reports.view.trust import trust
from rooflens.reports.view.verdict import model_name, title_of, verdict
from rooflens.reports.view.where import where
from rooflens.reports.view.words import WORDS

if TYPE_CHECKING:
    from rooflens.reports.compare.records import Comparison

__all__ = ["Page", "build_page"]

MAX_DATA_BYTES = 250_000
"""The run is embedded for programs up to this size (JSON bytes)."""

_EVIDENCE = (
    ("theory", "formulas from the model's config: minimum bytes and FLOPs, floors"),
    ("counted", "the tensors of every op: requested bytes and FLOPs"),
    ("timeline", "nsys or a torch trace: kernel times, launches, idle"),
    ("counters", "ncu: bytes that DRAM moved, FLOPs that were executed"),
)

_HOST_CLOCK = ("host clock", "the clock of the process that ran the step: times on a CPU", True)


def build_page(run: Run, baseline: Run | None = None, comparison: Comparison | None = None) -> Page:
    """Word, format and draw everything a report of `run` shows.

    With a `baseline` (or a ready-made `comparison` with one) it has the section "what changed".
    """
    if comparison is None and baseline is not None:
        comparison = _compared(baseline, run)
    run = redacted(run)
    facts = basis(run)
    found = found_by_saving(run)
    return Page(
        title=title_of(run),
        subtitle=_subtitle(run),
        created=clean(run.created_at, 40),
        labels=tuple((clean(k, 40), clean(v, 120)) for k, v in sorted(run.labels.items())[:12]),
        evidence=_evidence(run),
        verdict=_verdict(facts, found, baseline, comparison),
        trust=trust(run),
        where=where(facts),
        findings=findings(facts, found),
        roofline=roofline_section(facts),
        operators=operators(facts),
        kernels=kernels(facts),
        timeline=timeline_view(facts),
        changes=None if comparison is None else _changes(comparison),
        measured=measured(facts),
        words=WORDS,
        data=_data(run),
    )


def _evidence(run: Run) -> tuple[tuple[str, str, bool], ...]:
    """The legend of the labels: the four levels, and the host clock if it timed the step."""
    levels = tuple((level, gives, level in run.evidence) for level, gives in _EVIDENCE)
    return (*levels, _HOST_CLOCK) if run.totals.step_time_ns.source == "host" else levels


def _verdict(
    facts: Basis, found: tuple[Finding, ...], baseline: Run | None, comparison: Comparison | None
) -> Verdict:
    """The verdict; with a baseline and its comparison every tile says old → new."""
    said = verdict(facts, found)
    if baseline is None or comparison is None:
        return said
    from rooflens.reports.view.tile_changes import with_changes

    old = redacted(baseline)
    before = verdict(basis(old), found_by_saving(old)).tiles
    return replace(said, tiles=with_changes(said.tiles, before, comparison))


def _changes(comparison: Comparison) -> Changes:
    from rooflens.reports.view.changes import changes

    return changes(comparison)


def _compared(baseline: Run, run: Run) -> Comparison:
    # Imported here: comparing needs numpy, which rendering alone does not.
    from rooflens.reports.compare import compare

    return compare([baseline], [run])


def _subtitle(run: Run) -> str:
    """The facts that a reader asks first, in one line."""
    work, model = run.workload, run.model
    parts = [
        model_name(run),
        "" if model.params is None else f"{count_text(model.params)} parameters",
        clean(model.weights, 80) and f"weights: {clean(model.weights, 80)}",
        "" if work.batch is None else f"batch {work.batch}",
        keys_text(work.context, work.query_tokens),
        clean(work.dtype, 20),
        clean(work.attention, 40) and f"{clean(work.attention, 40)} attention",
        "" if work.layers_model is None else plural(work.layers_model, "layer"),
        clean(machine_name(run), 80),
    ]
    return " · ".join(part for part in parts if part)


def _data(run: Run) -> str:
    """The run as JSON without ops and shapes, or empty when it is too large for the page."""
    timeline = run.timeline
    if timeline is not None:
        timeline = msgspec.structs.replace(timeline, shapes=())
    data = msgspec.json.encode(msgspec.structs.replace(run, ops=(), timeline=timeline))
    return data.decode() if len(data) <= MAX_DATA_BYTES else ""
