"""The answer in one sentence and four numbers."""

from __future__ import annotations

import statistics

from rooflens.model import Finding, Roof, Run
from rooflens.reports.format import (
    NONE,
    bytes_text,
    percent_text,
    plural,
    quantity_text,
    ratio_text,
    source_text,
    time_range_text,
    time_text,
)
from rooflens.reports.view.basis import IMPORTED, Basis, machine_name, per_what, ratio, with_article
from rooflens.reports.view.cells import clean, levels
from rooflens.reports.view.page import Tile, Verdict
from rooflens.reports.view.waterfall import gap_parts

NOTEWORTHY_RATIO = 1.005
"""Below half a per cent of extra bytes the sentence says that nothing is lost there."""


def verdict(basis: Basis, found: tuple[Finding, ...]) -> Verdict:
    """Word the verdict of a run; `found` are its findings, biggest saving first."""
    run = basis.run
    comparable = basis.same_device and None not in (basis.time.value, basis.floor.value)
    return Verdict(
        sentence=_sentence(basis),
        losses=_losses(basis),
        lead=_lead(basis, found),
        tiles=(_time_tile(basis), _floor_tile(basis), _bytes_tile(basis), _last_tile(run, found)),
        bar_step=float(basis.time.value or 0) if comparable else 0.0,
        bar_floor=float(basis.floor.value or 0) if comparable else 0.0,
    )


def _sentence(basis: Basis) -> str:
    time = _time_clause(basis)
    subject = "it" if time else f"this {step_name(basis.run)} step"
    parts = [part for part in (time, _bytes_clause(basis, subject)) if part]
    if not parts:
        return _kernels_clause(basis.run)
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _time_clause(basis: Basis) -> str:
    time, floor, roof = basis.time, basis.floor, basis.roof
    step = f"{step_name(basis.run)} step"
    if time.value is None:
        if floor.value is None or roof is None:
            return ""
        return (
            f"on {with_article(clean(roof.name, 60))} this {step} cannot take less than "
            f"{time_text(floor.value)} (prediction, not measured)"
        )
    takes = "would take about" if time.extrapolated_from else "takes"
    spent = f"this {step} {takes} {time_text(time.value)}"
    if floor.value is None or roof is None:
        return spent + _largest_class(basis)
    least = time_text(floor.value)
    if not basis.same_device:
        on = with_article(clean(roof.name, 60))
        return f"{spent} here; on {on} it cannot take less than {least} (prediction)"
    if time.value < floor.value:
        return (
            f"{spent}, less than the {least} that the roof allows: the roof or the clock is wrong"
        )
    times = ratio(time, floor)
    more = f" ({ratio_text(times)})" if times else ""
    return f"{spent}, this machine needs at least {least} for it{more}"


def _largest_class(basis: Basis) -> str:
    """Where most of the time goes, for a step that has no floor to be held against."""
    timed = [(float(row.time_ns.value or 0), row.op_class) for row in basis.classes]
    whole = sum(spent for spent, _ in timed)
    if not whole:
        return ""
    most, name = max(timed)
    return f", {percent_text(most / whole)} of the operators' time in {clean(name, 40)}"


def _bytes_clause(basis: Basis, subject: str) -> str:
    totals = basis.run.totals
    asked = ratio(totals.requested_bytes, totals.minimum_bytes)
    requested, minimum = quantity_text(totals.requested_bytes), quantity_text(totals.minimum_bytes)
    if asked is None:
        known = totals.requested_bytes.value is not None
        return f"{subject} asks memory for {requested}" if known else ""
    if asked >= NOTEWORTHY_RATIO:
        return (
            f"{subject} asks memory for {requested}, {ratio_text(asked)} the {minimum} that its "
            "operators need"
        )
    return f"{subject} asks memory for {requested}, no more than its operators need ({minimum})"


def _kernels_clause(run: Run) -> str:
    launches = sum(kernel.count for kernel in run.kernels) + sum(g.launches for g in run.graphs)
    if launches:
        text = f"The capture holds {plural(launches, 'launch', 'launches')}"
        timed = [k for k in run.kernels if k.duration_ns.value is not None]
        if timed:
            spent = sum(float(kernel.duration_ns.value or 0) * kernel.count for kernel in timed)
            text += f" of {time_text(spent)} together"
            longest = max(timed, key=lambda k: float(k.duration_ns.value or 0) * k.count)
            share = float(longest.duration_ns.value or 0) * longest.count / spent if spent else 0.0
            text += f", {percent_text(share)} of it in {clean(longest.short_name, 80)}"
        return f"{text}, and no timed step."
    return "This run holds no time, no bytes and no kernels: see the checks below."


def _lead(basis: Basis, found: tuple[Finding, ...]) -> str:
    return " ".join(part for part in (_losses(basis), _first_finding(basis, found)) if part)


def _losses(basis: Basis) -> str:
    """Where the time above the operator floor went, when it can be split."""
    parts = gap_parts(basis)
    if parts is None or parts.inefficiency_ns < 0:
        return ""
    lost = parts.measured_ns - parts.floor_ns
    return (
        f"{time_text(lost)} are lost against the sum of the operators' floors: "
        f"{time_text(parts.extra_bytes_ns)} in extra bytes, {time_text(parts.inefficiency_ns)} in "
        f"low efficiency, {time_text(parts.idle_ns)} idle."
    )


def _first_finding(basis: Basis, found: tuple[Finding, ...]) -> str:
    if found:
        first = found[0]
        more = f" ({plural(len(found) - 1, 'more finding')} below)" if len(found) > 1 else ""
        title = clean(first.title).rstrip(".")
        if first.saving_bytes.value is None and first.saving_ns is None:
            return f"First finding: {title}{more}."
        return f"Biggest avoidable cost: {title}: {saving_text(basis, first)}{more}."
    looked = [finding for finding in basis.run.findings if finding.outcome == "clear"]
    if looked:
        return f"{plural(len(looked), 'rule')} looked and found nothing to fix."
    return "No rule has looked at this run."


def saving_text(basis: Basis, finding: Finding) -> str:
    """What a finding saves, in bytes and, where there is a roof, in time."""
    parts = []
    if finding.saving_bytes.value is not None:
        parts.append(bytes_text(finding.saving_bytes.value))
    if finding.saving_ns is not None and finding.saving_ns.high > 0:
        where = "" if basis.same_device or basis.roof is None else " (prediction)"
        parts.append(f"{time_range_text(finding.saving_ns)}{where}")
    return f"{', '.join(parts)} {per_what(basis.run)}" if parts else "saving not known"


def step_name(run: Run) -> str:
    """`decode`, `prefill` ... ; an imported capture has only a captured step."""
    return "captured" if run.workload.name in ("", IMPORTED) else clean(run.workload.name, 40)


def _samples_text(basis: Basis) -> str:
    """How many steps were timed, and how far apart they are."""
    samples = basis.run.step_times_ns
    scaled = _extrapolated(basis)
    if len(samples) == 1:
        return f"one step{scaled}: no spread known"
    low, high = time_text(min(samples)), time_text(max(samples))
    text = f"median of {len(samples)} steps{scaled}"
    took = "; they took" if scaled else ","
    text += f"{took} {low} to {high}" if low != high else ", all within rounding"
    return f"{text}; too few steps to judge a change" if len(samples) < 5 else text


def _extrapolated(basis: Basis) -> str:
    """` of 2 of 28 layers, scaled` when the time stands for more layers than ran."""
    layers = basis.time.extrapolated_from
    if not layers:
        return ""
    model = basis.run.workload.layers_model
    return f" of {len(layers)}{'' if model is None else f' of {model}'} layers, scaled"


def _time_tile(basis: Basis) -> Tile:
    time = basis.time
    if time.value is None:
        return Tile("Step time", NONE, "", clean(time.absent or ""))
    details = [_samples_text(basis)] if basis.run.step_times_ns else []
    over = ratio(time, basis.floor) if basis.same_device else None
    if over is not None:
        details.insert(0, f"{ratio_text(over)} the floor")
    return Tile("Step time", time_text(time.value), source_text(time), "; ".join(details))


def _floor_tile(basis: Basis) -> Tile:
    floor, roof = basis.floor, basis.roof
    if floor.value is None or roof is None:
        return Tile("Floor", NONE, "", _no_floor(basis))
    kind = "prediction for" if not basis.same_device else "on"
    detail = f"{kind} {clean(roof.name, 60)}, {roof.kind}; {floor_limit(basis, roof)}"
    return Tile("Floor: cannot take less", time_text(floor.value), source_text(floor), detail)


def _no_floor(basis: Basis) -> str:
    """Why there is no floor, and the options that give one."""
    if step_name(basis.run) == "captured":
        gpu = "" if basis.roof is not None else "--gpu NAME, "
        return f"no theory for this step: import again with {gpu}--model, --batch and --context"
    if basis.run.totals.compulsory_bytes.value is None:
        return (
            "no theory for this step: a floor needs the config of a Qwen2- or Llama-shaped model "
            "(profile run --model)"
        )
    if basis.roof is None:
        return "No roof: add --gpu NAME (for example --gpu h200) for floors and times."
    return clean(basis.floor.absent or "no roof")


def floor_limit(basis: Basis, roof: Roof) -> str:
    """Say which side of the maximum the floor of the step is."""
    totals = basis.run.totals
    if totals.compulsory_bytes.value is None or totals.minimum_flops.value is None:
        return "limit not known"
    memory = totals.compulsory_bytes.value / roof.bandwidth_bytes_per_s
    compute = totals.minimum_flops.value / roof.peak_flops_per_s
    if memory >= compute:
        return "limited by memory (compulsory bytes)"
    return "limited by compute (FLOPs needed)"


def _bytes_tile(basis: Basis) -> Tile:
    totals = basis.run.totals
    asked = ratio(totals.requested_bytes, totals.minimum_bytes)
    moved = ratio(totals.moved_bytes, totals.requested_bytes)
    if asked is not None:
        detail = f"{quantity_text(totals.requested_bytes)} of {quantity_text(totals.minimum_bytes)}"
        sources = [totals.requested_bytes, totals.minimum_bytes]
        if moved is not None:
            detail += f"; moved / requested {ratio_text(moved)}"
            sources.append(totals.moved_bytes)
        return Tile("Bytes requested / minimum", ratio_text(asked), levels(*sources), detail)
    for title, quantity in (
        ("Bytes moved", totals.moved_bytes),
        ("Bytes requested", totals.requested_bytes),
        ("Minimum bytes", totals.minimum_bytes),
    ):
        if quantity.value is not None:
            return Tile(title, quantity_text(quantity), source_text(quantity), per_what(basis.run))
    return Tile("Bytes", NONE, "", clean(totals.moved_bytes.absent or ""))


def _last_tile(run: Run, found: tuple[Finding, ...]) -> Tile:
    timeline = run.timeline
    if timeline is not None and timeline.steps and any(step.busy_ns for step in timeline.steps):
        shares = [step.busy_ns / step.wall_ns for step in timeline.steps if step.wall_ns > 0]
        if shares:
            busy = statistics.median(shares)
            steps = plural(len(shares), "step")
            return Tile("Device busy", percent_text(busy), "timeline", f"median of {steps}")
    known = [f.saving_bytes for f in found if f.saving_bytes.value is not None]
    if known:
        saved = sum(quantity.value or 0 for quantity in known)
        return Tile(
            "Recoverable", bytes_text(saved), levels(*known), _recoverable_detail(run, found)
        )
    count = sum(finding.outcome == "clear" for finding in run.findings)
    return Tile(
        "Findings", str(len(found)), "", f"{plural(count, 'rule')} looked and found nothing"
    )


def _recoverable_detail(run: Run, found: tuple[Finding, ...]) -> str:
    text = f"by {plural(len(found), 'finding')}"
    requested = run.totals.requested_bytes.value
    saved = sum(f.saving_bytes.value or 0 for f in found)
    if requested:
        text += f", {percent_text(saved / requested)} of the requested bytes"
    time = sum(f.saving_ns.high for f in found if f.saving_ns is not None)
    predicted = " (prediction)" if run.roofs and run.roofs[0].prediction else ""
    return f"{text}, up to {time_text(time)}{predicted}" if time > 0 else text


def model_name(run: Run) -> str:
    """The model's name, empty where an imported capture does not say."""
    return "" if run.model.name == "unknown" else clean(run.model.name, 80)


def title_of(run: Run) -> str:
    """The page's title: workload, batch and model."""
    imported = run.workload.name == IMPORTED
    parts = ["Imported capture" if imported else step_name(run).capitalize()]
    if run.workload.batch is not None:
        parts.append(f"batch {run.workload.batch}")
    name = model_name(run)
    where = "counted without a device" if run.machine.device == "meta" else machine_name(run)
    return ", ".join(part for part in (" ".join(parts), name, clean(where, 60)) if part)
