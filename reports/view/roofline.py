"""The roofline of a run: operator classes, the whole step, and kernels when counters exist."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.model import OperatorRow, Quantity, Roof
from rooflens.reports.charts.roofline import Ceiling, Point, roofline
from rooflens.reports.format import (
    bandwidth_text,
    flop_rate_text,
    intensity_text,
    percent_text,
    ratio_text,
    source_text,
)
from rooflens.reports.view.basis import Basis, ratio
from rooflens.reports.view.cells import clean, levels, missing, table, words
from rooflens.reports.view.kernels import INVALID_SHARE, is_invalid
from rooflens.reports.view.page import Cell, Chart, Column, Roofline, Table

NO_ROOF = (
    "There is no roof, so there is no roofline. Add --gpu NAME (for example --gpu h200) to see "
    "where this step stands on that GPU."
)
MAX_KERNELS = 60
LOWEST_INTENSITY = 0.01
"""Kernels below (copies, fills) have no FLOPs to speak of and would only stretch the axes."""
LABELLED_KERNELS = 10
DIFFERENT = 1.03
"""Requested and theoretical intensity that differ by less than 3 % are drawn as one point."""

CLASS, REQUESTED, KERNEL, STEP, WRONG = "c0", "c1", "c2", "step", "invalid"
_KEYS = {
    CLASS: "operator class, at its theoretical intensity (not measured)",
    "requested": "operator class, at its requested intensity (not measured)",
    "measured": "operator class, measured rate",
    KERNEL: "kernel (square), counters",
    STEP: "whole step, at its compulsory bytes",
}


def roofline_section(basis: Basis) -> Roofline:
    """Draw the roofline, or say what it needs."""
    roof = basis.roof
    if roof is None:
        return Roofline(None, _ridge_sentences(basis), NO_ROOF)
    points = [*_class_points(basis, roof), *_kernel_points(basis), *_step_point(basis, roof)]
    if not points:
        return Roofline(
            None, (), "No operator of this run has both FLOPs and bytes: there is nothing to place."
        )
    drawn = _drawn_roofs(basis)
    ceilings = [_ceiling(other, "roof" if other is roof else "roof second") for other in drawn]
    description = f"{len(points)} points under the roofs of " + ", ".join(r.name for r in drawn)
    drawing = roofline("roofline", "Roofline of one step", description, ceilings, points)
    twin = _twin(roof, points)
    keys = _keys(basis, points)
    return Roofline(
        Chart(drawing, _reading(basis), twin, keys), _sentences(basis, roof, points), ""
    )


def _drawn_roofs(basis: Basis) -> list[Roof]:
    """Roofs of one device only: a prediction and a measurement never share the axes."""
    first = basis.run.roofs[0]
    return [roof for roof in basis.run.roofs if roof.prediction == first.prediction][:2]


def _ceiling(roof: Roof, css: str) -> Ceiling:
    kind = "measured" if roof.kind == "measured" else "data sheet"
    return Ceiling(
        peak=roof.peak_flops_per_s,
        bandwidth=roof.bandwidth_bytes_per_s,
        peak_label=f"{flop_rate_text(roof.peak_flops_per_s)} {roof.dtype}, {kind}",
        bandwidth_label=f"memory {bandwidth_text(roof.bandwidth_bytes_per_s)}, {kind}",
        css=css,
    )


def attainable(roof: Roof, intensity: float) -> float:
    """The most FLOP/s that a roof allows at an intensity."""
    return min(roof.peak_flops_per_s, roof.bandwidth_bytes_per_s * intensity)


def _positive(quantity: Quantity) -> float:
    return float(quantity.value) if quantity.value is not None and quantity.value > 0 else 0.0


def _class_points(basis: Basis, roof: Roof) -> list[Point]:
    points: list[Point] = []
    whole = _positive(basis.time)
    for row in basis.classes:
        if not _positive(row.minimum_flops) and not _positive(row.requested_flops):
            continue
        points += _measured_point(basis, row, whole) or _placed_points(row, roof)
    return points


def _measured_point(basis: Basis, row: OperatorRow, whole: float) -> list[Point]:
    """A class whose time was taken on the device of the roof."""
    time = _positive(row.time_ns)
    flops = row.executed_flops if row.executed_flops.value is not None else row.requested_flops
    moved = row.moved_bytes if row.moved_bytes.value is not None else row.requested_bytes
    intensity = ratio(flops, moved)
    if not basis.same_device or not time or not intensity:
        return []
    if basis.per_capture and flops.source != "counters":
        return []  # FLOPs of a step over the time of a whole capture mean nothing
    rate = _positive(flops) / time * 1e9
    return [
        Point(row.op_class, intensity, rate, REQUESTED, weight=time / whole if whole else 0.0,
              tip=f"{row.op_class}: {intensity_text(intensity)} FLOP/B, {flop_rate_text(rate)}",
              source=levels(flops, moved, row.time_ns))
    ]  # fmt: skip


def _placed_points(row: OperatorRow, roof: Roof) -> list[Point]:
    """A class without a time: where theory and the requested bytes put it on the roof."""
    points = []
    theory = ratio(row.minimum_flops, row.minimum_bytes)
    asked = ratio(row.requested_flops, row.requested_bytes)
    if theory:
        points.append(_placed(row.op_class, theory, roof, CLASS, row.minimum_bytes))
    apart = not theory or (asked and max(asked / theory, theory / asked) > DIFFERENT)
    if asked and apart:
        name = f"{row.op_class} as requested"
        points.append(_placed(name, asked, roof, REQUESTED, row.requested_bytes))
    return points


def _placed(name: str, intensity: float, roof: Roof, css: str, nbytes: Quantity) -> Point:
    rate = attainable(roof, intensity)
    tip = f"{name}: {intensity_text(intensity)} FLOP/B, at most {flop_rate_text(rate)}"
    return Point(name, intensity, rate, css, hollow=True, tip=tip, source=source_text(nbytes))


def _kernel_points(basis: Basis) -> list[Point]:
    if not basis.same_device:
        return []
    usable = [
        kernel
        for kernel in basis.run.kernels
        if _positive(kernel.flops)
        and _positive(kernel.duration_ns)
        and _positive(kernel.intensity) >= LOWEST_INTENSITY
    ]
    usable.sort(key=lambda kernel: -_positive(kernel.duration_ns) * kernel.count)
    points = []
    for number, kernel in enumerate(usable[:MAX_KERNELS]):
        rate = _positive(kernel.flops) / _positive(kernel.duration_ns) * 1e9
        wrong = is_invalid(kernel)
        name = clean(kernel.short_name, 40) + (" (invalid)" if wrong else "")
        points.append(
            Point(name, _positive(kernel.intensity), rate, WRONG if wrong else KERNEL, square=True,
                  labelled=number < LABELLED_KERNELS, tip=f"{name}: {flop_rate_text(rate)}",
                  source=levels(kernel.flops, kernel.dram_bytes, kernel.duration_ns))
        )  # fmt: skip
    return points


def _step_point(basis: Basis, roof: Roof) -> list[Point]:
    totals = basis.run.totals
    intensity = _positive(totals.intensity)
    if not intensity:
        return []
    time = _positive(totals.step_time_ns)
    flops = _positive(totals.minimum_flops)
    if basis.same_device and time and flops:
        source = levels(totals.intensity, totals.step_time_ns)
        return [Point("whole step", intensity, flops / time * 1e9, STEP, source=source)]
    top, source = attainable(roof, intensity), source_text(totals.intensity)
    return [Point("whole step", intensity, top, STEP, hollow=True, source=source)]


def _keys(basis: Basis, points: Sequence[Point]) -> tuple[tuple[str, str], ...]:
    keys = []
    if any(point.css == CLASS for point in points):
        keys.append((f"{CLASS} hollow", _KEYS[CLASS]))
    if any(point.css == REQUESTED for point in points):
        hollow = any(point.hollow for point in points if point.css == REQUESTED)
        css = f"{REQUESTED} hollow" if hollow else REQUESTED
        keys.append((css, _KEYS["requested" if hollow else "measured"]))
    keys += [(css, _KEYS[css]) for css in (KERNEL, STEP) if any(p.css == css for p in points)]
    if any(point.css == WRONG for point in points):
        keys.append((WRONG, "above 105 % of the held roof: invalid"))
    return tuple(keys)


def _reading(basis: Basis) -> str:
    text = "Left of the ridge, where the roof slopes, memory is the limit; right of it, compute. "
    if basis.same_device:
        return text + "The further a point lies below the roof, the more time is lost in it."
    return text + (
        "Hollow points lie on the roof by construction: they show the most that their intensity "
        "allows, not a measurement. Further left means more bytes per FLOP."
    )


def _sentences(basis: Basis, roof: Roof, points: Sequence[Point]) -> tuple[str, ...]:
    ridge = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
    lines = [
        f"Roof: {clean(roof.name, 60)}, {roof.kind} ({clean(roof.source, 200)}); ridge at "
        f"{intensity_text(ridge)} FLOP per byte."
    ]
    if not basis.same_device:
        lines.append(
            f"This is a prediction for {clean(roof.name, 60)}: the run was not made on it."
        )
    above = [point for point in points if _is_above(roof, point)]
    if above:
        names = ", ".join(point.name for point in above[:5])
        lines.append(
            f"Above 105 % of the roof, so bytes came from a cache or the roof is too low: {names}."
        )
    return (*lines, *_excluded(basis))


def _is_above(roof: Roof, point: Point) -> bool:
    allowed = INVALID_SHARE * attainable(roof, point.intensity)
    return not point.hollow and point.css != STEP and point.rate > allowed


def _excluded(basis: Basis) -> tuple[str, ...]:
    """Say which share of the step's bytes has no place in the picture."""
    totals = basis.run.totals
    requested = _positive(totals.requested_bytes)
    if not requested:
        return ()
    placed = sum(
        _positive(row.requested_bytes)
        for row in basis.classes
        if _positive(row.minimum_flops) or _positive(row.requested_flops)
    )
    left_out = 1 - placed / requested
    if left_out <= 0.0005:
        return ()
    return (
        f"{percent_text(left_out)} of the requested bytes are in classes without matrix or "
        "attention FLOPs (norms, copies, residuals): they have no place here.",
    )


def _ridge_sentences(basis: Basis) -> tuple[str, ...]:
    intensity = basis.run.totals.intensity
    if intensity.value is None:
        return ()
    return (f"The whole step has {intensity_text(intensity.value)} FLOP per compulsory byte "
            f"({source_text(intensity)}).",)  # fmt: skip


def _twin(roof: Roof, points: Sequence[Point]) -> Table:
    columns = (
        Column("Point", numeric=False),
        Column("Intensity (FLOP per byte)"),
        Column("Rate"),
        Column("Roof there"),
        Column("Rate / roof"),
        Column("Limit", numeric=False),
    )
    ridge = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
    rows = []
    for point in points:
        top = attainable(roof, point.intensity)
        share = point.rate / top
        not_measured = missing("not measured: the point lies on the roof by construction")
        rows.append([
            words(point.name),
            Cell(intensity_text(point.intensity), point.source, sort=point.intensity),
            not_measured if point.hollow else Cell(flop_rate_text(point.rate), sort=point.rate),
            Cell(flop_rate_text(top), sort=top),
            not_measured if point.hollow else Cell(
                percent_text(share) if share < 1 else ratio_text(share), sort=share),
            Cell("memory" if point.intensity < ridge else "compute"),
        ])  # fmt: skip
    return table("roofline-table", "The points of the roofline", columns, rows)
