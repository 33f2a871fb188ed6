"""One step in time: the strip, its gaps with their likely causes, and the gap waterfall."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflens.model import Gap, RangeTime, Run, Shape, StepTime, Timeline
from rooflens.reports.charts.strip import MAX_ROWS, MAX_SHAPES, strip
from rooflens.reports.format import NONE, count_text, percent_text, plural, time_text
from rooflens.reports.view.basis import Basis
from rooflens.reports.view.cells import amount, clean, table, words
from rooflens.reports.view.page import Cell, Chart, Column, Table, TimelineView
from rooflens.reports.view.waterfall import waterfall_chart, why_no_waterfall

MAX_GAPS = 20
MAX_RANGES = 40
MAX_FACTS = 30
_COLOURS = {
    "kernel": "c0",
    "copy": "c1",
    "memcpy": "c1",
    "memset": "c1",
    "communication": "c3",
    "launch": "c2",
    "graph": "c0",
    "nvtx": "c4",
    "range": "c4",
    "host": "c2",
    "os": "rest",
}


def timeline_view(basis: Basis) -> TimelineView:
    """Show one step of the timeline capture, or say what a timeline needs."""
    run = basis.run
    gap = waterfall_chart(basis)
    waterfall_empty = "" if gap else why_no_waterfall(basis)
    timeline = run.timeline
    if timeline is None:
        return TimelineView(None, _why_none(run), None, gap, waterfall_empty, (), None, None)
    step = representative(timeline)
    chart = _strip(timeline, step)
    return TimelineView(
        strip=chart,
        strip_empty="" if chart else "The timeline capture holds no shape of a step to draw.",
        gaps=_gaps_table(timeline.gaps, step),
        waterfall=gap,
        waterfall_empty=waterfall_empty,
        facts=tuple(_facts(timeline, step)),
        phases=_phases_table(timeline),
        ranges=_ranges_table(timeline.ranges),
    )


def _why_none(run: Run) -> str:
    if run.machine.device == "meta":
        return "A meta run computes shapes only: nothing happened in time."
    return (
        "No timeline was captured. Add `--evidence timeline`, or import an nsys report or a torch "
        "trace with `profile import`."
    )


def representative(timeline: Timeline) -> StepTime | None:
    """The step that the shapes and gaps are of."""
    for step in timeline.steps:
        if step.index == timeline.representative_step:
            return step
    return timeline.steps[0] if timeline.steps else None


def _strip(timeline: Timeline, step: StepTime | None) -> Chart | None:
    shapes = [_cleaned(shape) for shape in timeline.shapes]
    if not shapes:
        return None
    ends = [shape.start_ns + shape.duration_ns for shape in shapes]
    length = max([*ends, step.wall_ns if step is not None else 0.0])
    which = f"step {step.index}" if step is not None else "the capture"
    description = f"{plural(len(shapes), 'shape')} of {which}, {time_text(length)} long"
    gaps = [msgspec.structs.replace(gap, cause=clean(gap.cause, 120)) for gap in timeline.gaps]
    drawing = strip("strip", "Timeline of one step", description, length, shapes, gaps, _COLOURS)
    rows = list(dict.fromkeys(shape.row for shape in shapes))
    reading = (
        f"One representative step ({which}) from left to right; stripes are gaps in which the "
        "device had nothing to do."
    )
    if len(shapes) > MAX_SHAPES:
        reading += (
            f" {plural(len(shapes), 'shape')} are merged to at most {count_text(MAX_SHAPES)}."
        )
    if len(rows) > MAX_ROWS:
        reading += f" The first {MAX_ROWS} of {len(rows)} rows are drawn."
    return Chart(drawing, reading, _rows_table(rows, shapes, length), _keys(shapes))


def _cleaned(shape: Shape) -> Shape:
    return Shape(
        row=clean(shape.row, 40),
        start_ns=shape.start_ns,
        duration_ns=shape.duration_ns,
        label=clean(shape.label, 60),
        kind=shape.kind,
    )


def _keys(shapes: Sequence[Shape]) -> tuple[tuple[str, str], ...]:
    kinds = dict.fromkeys(shape.kind for shape in shapes)
    keys: dict[str, list[str]] = {}
    for kind in kinds:
        keys.setdefault(_COLOURS.get(kind, "rest"), []).append(clean(kind, 30) or "other")
    return tuple((css, ", ".join(names)) for css, names in keys.items())


def _rows_table(rows: Sequence[str], shapes: Sequence[Shape], length: float) -> Table:
    columns = (
        Column("Row", numeric=False),
        Column("Shapes"),
        Column("Time covered", help="sum over the row"),
        Column("Share of the step"),
    )
    cells = []
    for row in rows[:MAX_ROWS]:
        spans = [(s.start_ns, s.start_ns + s.duration_ns) for s in shapes if s.row == row]
        covered = _union(spans)
        cells.append([
            words(row),
            Cell(count_text(len(spans)), sort=len(spans)),
            Cell(time_text(covered), "timeline", sort=covered),
            Cell(percent_text(covered / length) if length else "", sort=covered),
        ])  # fmt: skip
    return table("strip-table", "Rows of the timeline", columns, cells)


def _union(spans: Sequence[tuple[float, float]]) -> float:
    """Length of a union of intervals: nested and overlapping shapes count once."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return covered


def _gaps_table(gaps: Sequence[Gap], step: StepTime | None) -> Table | None:
    if not gaps:
        return None
    longest = sorted(gaps, key=lambda gap: -gap.duration_ns)
    columns = (
        Column("Starts at", numeric=False),
        Column("Length"),
        Column("Likely cause", numeric=False),
    )
    rows = [
        [
            Cell(time_text(gap.start_ns), sort=gap.start_ns),
            Cell(time_text(gap.duration_ns), "timeline", sort=gap.duration_ns),
            words(gap.cause),
        ]
        for gap in longest[:MAX_GAPS]
    ]
    notes = []
    if len(gaps) > MAX_GAPS:
        rest = sum(gap.duration_ns for gap in longest[MAX_GAPS:])
        notes.append(f"{plural(len(gaps) - MAX_GAPS, 'shorter gap')}, {time_text(rest)} together.")
    whole = sum(gap.duration_ns for gap in gaps)
    share = f", {percent_text(whole / step.wall_ns)} of the step" if step and step.wall_ns else ""
    caption = f"Gaps of this step, longest first ({time_text(whole)}{share})"
    return table("gaps-table", caption, columns, rows, notes)


def _facts(timeline: Timeline, step: StepTime | None) -> list[str]:
    facts = []
    if step is not None and step.wall_ns > 0:
        text = f"Step {step.index}: {time_text(step.wall_ns)}"
        if step.busy_ns > 0:
            share = percent_text(step.busy_ns / step.wall_ns)
            text += f", device busy {time_text(step.busy_ns)} ({share})"
            text += f", idle {time_text(step.idle_ns)}"
        if step.copy_ns:
            text += f", copies {time_text(step.copy_ns)}"
        if step.communication_ns:
            text += f", communication {time_text(step.communication_ns)}"
        if step.launches:
            text += f"; {plural(step.launches, 'launch', 'launches')}"
        facts.append(text + ".")
    if timeline.bound:
        facts.append(
            f"This step is {clean(timeline.bound, 40)}-bound: {clean(timeline.bound_reason)}."
        )
    elif timeline.bound_reason:
        facts.append(f"Host-bound or device-bound cannot be said: {clean(timeline.bound_reason)}.")
    if timeline.phase_method:
        facts.append(f"Phases were split by {clean(timeline.phase_method, 80)}.")
    facts += [clean(fact, 300) for fact in timeline.facts[:MAX_FACTS]]
    return [fact.replace("..", ".") for fact in facts]


def _phases_table(timeline: Timeline) -> Table | None:
    """Prefill, decode ...: how many steps, how long, how steady."""
    if not timeline.phases:
        return None
    steady = {entry.phase: entry for entry in timeline.statistics}
    columns = (
        Column("Phase", numeric=False),
        Column("Steps"),
        Column("Median step", source="timeline"),
        Column("Interval", source="timeline"),
        Column("Variation"),
        Column("Device busy", source="timeline"),
        Column("Kernels a step"),
        Column("Told apart by", numeric=False),
    )
    rows = []
    for phase in timeline.phases[:MAX_GAPS]:
        spread = steady.get(phase.name)
        busy = percent_text(phase.busy_ns / phase.wall_ns) if phase.wall_ns > 0 else NONE
        rows.append([
            words(phase.name),
            Cell(count_text(len(phase.steps)), sort=len(phase.steps)),
            Cell(time_text(phase.wall_ns), sort=phase.wall_ns),
            Cell(f"{time_text(spread.low_ns)} to {time_text(spread.high_ns)}" if spread else NONE),
            Cell(percent_text(spread.variation) if spread else NONE),
            Cell(busy),
            Cell(count_text(phase.kernels), sort=phase.kernels),
            words(f"{phase.method}, {phase.confidence} confidence: {phase.reason}"),
        ])  # fmt: skip
    return table("phases-table", "Phases of the capture", columns, rows)


def _ranges_table(ranges: Sequence[RangeTime]) -> Table | None:
    if not ranges:
        return None
    ordered = sorted(
        ranges, key=lambda r: -float(r.device_ns.value or r.host_ns.value or 0) * r.count
    )
    columns = (
        Column("NVTX range", numeric=False),
        Column("Count"),
        Column("Host time each"),
        Column("Device time each"),
    )
    rows = [
        [
            words(" / ".join(entry.path)),
            Cell(count_text(entry.count), sort=entry.count),
            amount(entry.host_ns),
            amount(entry.device_ns),
        ]
        for entry in ordered[:MAX_RANGES]
    ]
    more = len(ranges) - MAX_RANGES
    notes = [f"{plural(more, 'more range')} are in run.json."] if more > 0 else []
    return table("ranges-table", "NVTX ranges, most time first", columns, rows, notes)
