"""How this was measured: commands, versions, clocks, captures, and formulas with numbers in."""

from __future__ import annotations

import shlex

from rooflens.model import Capture, Quantity, Roof, Run
from rooflens.reports.format import (
    bandwidth_text,
    bytes_text,
    count_text,
    flop_rate_text,
    hertz_text,
    intensity_text,
    keys_text,
    plural,
    ratio_text,
    time_text,
)
from rooflens.reports.join.counters import measured_flops
from rooflens.reports.view.basis import Basis, quotient, ratio
from rooflens.reports.view.cells import clean, table, words
from rooflens.reports.view.page import Cell, Column, Formula, Measured, Table

MAX_CAPTURES = 40
MAX_COMMANDS = 20


def measured(basis: Basis) -> Measured:
    """Collect what a person needs to repeat or doubt the numbers of this run."""
    run = basis.run
    return Measured(
        commands=tuple(_commands(run)),
        facts=_facts_table(run),
        roofs=_roofs_table(basis),
        captures=_captures_table(run.captures),
        formulas=tuple(_formulas(basis)),
        layers=tuple(_layers(run)),
    )


def _commands(run: Run) -> list[str]:
    commands = [clean(shlex.join(run.command), 2000)] if run.command else []
    for capture in run.captures:
        command = capture.regime.get("command", "")
        if command and clean(command, 2000) not in commands:
            commands.append(clean(command, 2000))
    return commands[:MAX_COMMANDS]


def _facts(run: Run) -> list[tuple[str, str]]:
    work, machine, model = run.workload, run.machine, run.model
    facts: list[tuple[str, object]] = [
        ("Workload", f"{work.name}, version {work.version}" if work.name else ""),
        ("Batch", work.batch),
        ("Keys", keys_text(work.context, work.query_tokens)),
        ("Prompt", work.prompt),
        ("Attention", work.attention),
        ("dtype", work.dtype),
        ("Logits", work.logits),
        ("Steps", _steps(run)),
        ("Seed", work.seed),
        ("Model", model.name),
        ("Parameters", None if model.params is None else count_text(model.params)),
        ("Weights", model.weights),
        ("Device", machine.device),
        ("GPU", machine.gpu),
        ("Number of GPUs", machine.gpu_count),
        ("Compute capability", machine.compute_capability),
        ("Driver", machine.driver),
        ("CUDA", machine.cuda),
        ("SM clock", None if machine.sm_clock_hz is None else hertz_text(machine.sm_clock_hz)),
        ("Memory clock",
         None if machine.memory_clock_hz is None else hertz_text(machine.memory_clock_hz)),
        ("CPU", machine.cpu),
        ("Cores", machine.cores),
        ("Memory", None if machine.memory_bytes is None else bytes_text(machine.memory_bytes)),
        ("Last-level cache", None if machine.last_level_cache_bytes is None
         else bytes_text(machine.last_level_cache_bytes)),
        ("Made at", run.created_at),
    ]  # fmt: skip
    facts += [(f"Version of {name}", version) for name, version in sorted(run.tools.items())]
    facts += [(f"Label {name}", text) for name, text in sorted(run.labels.items())]
    return [
        (clean(name, 60), clean(str(text), 200)) for name, text in facts if text not in (None, "")
    ]


def _facts_table(run: Run) -> Table:
    columns = (Column("Fact", numeric=False), Column("Value", numeric=False))
    rows = [[Cell(name), words(text)] for name, text in _facts(run)[:80]]
    return table("facts-table", "What ran, on what, with which versions", columns, rows)


def _steps(run: Run) -> str:
    steps, warmup = run.workload.steps, run.workload.warmup
    if steps is None:
        return ""
    text = f"{plural(steps, 'step')} measured"
    return text if warmup is None else f"{text}, {plural(warmup, 'step')} of warm-up thrown away"


def _roofs_table(basis: Basis) -> Table | None:
    if not basis.run.roofs:
        return None
    columns = (
        Column("Roof", numeric=False),
        Column("Bandwidth"),
        Column("Peak, dense"),
        Column("Ridge (FLOP per byte)"),
        Column("Kind", numeric=False),
        Column("Source", numeric=False),
    )
    rows = [
        _roof_row(roof, index == 0) for index, roof in enumerate(basis.run.roofs[:MAX_COMMANDS])
    ]
    return table("roofs-table", "Roofs; floors use the first", columns, rows)


def _roof_row(roof: Roof, used: bool) -> list[Cell]:
    kind = roof.kind + (", prediction: the run was not made on it" if roof.prediction else "")
    return [
        Cell(clean(roof.name, 80), css="sum" if used else ""),
        Cell(bandwidth_text(roof.bandwidth_bytes_per_s)),
        Cell(f"{flop_rate_text(roof.peak_flops_per_s)} {clean(roof.dtype, 30)}"),
        Cell(intensity_text(roof.peak_flops_per_s / roof.bandwidth_bytes_per_s)),
        Cell(kind),
        Cell(clean(roof.source, 300)),
    ]


def _captures_table(captures: tuple[Capture, ...]) -> Table | None:
    """The files behind the numbers and the regime under which each was taken."""
    if not captures:
        return None
    columns = (
        Column("File", numeric=False),
        Column("Format", numeric=False),
        Column("Tool", numeric=False),
        Column("Rows"),
        Column("Regime", numeric=False),
        Column("Note", numeric=False),
    )
    rows = [
        [
            words(capture.file),
            words(capture.format),
            words(capture.tool),
            Cell(count_text(capture.rows), sort=capture.rows),
            Cell(_regime(capture)),
            Cell(clean(capture.note, 300)),
        ]
        for capture in captures[:MAX_CAPTURES]
    ]
    more = len(captures) - MAX_CAPTURES
    notes = [f"{plural(more, 'more file')} are in run.json."] if more > 0 else []
    return table("captures-table", "Captured files and their regime", columns, rows, notes)


def _regime(capture: Capture) -> str:
    pairs = [f"{key}: {text}" for key, text in capture.regime.items() if key != "command" and text]
    return clean("; ".join(pairs), 800) or "not recorded"


def _layers(run: Run) -> list[str]:
    """Say which layers ran, and which numbers stand for more than they measured."""
    lines = []
    ran, model = run.workload.layers_run, run.workload.layers_model
    if ran == 0 and model is not None:
        lines.append(f"Nothing was executed: bytes and FLOPs are counted over all {model} layers.")
    elif ran is not None and model is not None:
        lines.append(
            f"All {model} layers ran."
            if ran == model
            else f"{ran} of {model} layers ran; bytes and FLOPs are counted over all {model}, "
            f"times are from the {ran} that ran."
        )
    names = [name for name in type(run.totals).__struct_fields__
             if getattr(run.totals, name).extrapolated_from]  # fmt: skip
    if names:
        some: Quantity = getattr(run.totals, names[0])
        lines.append(
            f"Extrapolated (mean of layers {', '.join(map(str, some.extrapolated_from))} times the "
            f"number of layers): {', '.join(name.replace('_', ' ') for name in names)}."
        )
    return lines


def _formulas(basis: Basis) -> list[Formula]:
    totals = basis.run.totals
    made = [
        _floor_formula(basis),
        _quotient_formula(
            "Software amplification", "requested bytes / minimum bytes",
            totals.requested_bytes, totals.minimum_bytes,
        ),
        _quotient_formula(
            "Hardware amplification", "moved bytes / requested bytes",
            totals.moved_bytes, totals.requested_bytes,
        ),
        _quotient_formula(
            "Gap", "step time / floor", totals.step_time_ns, totals.floor_ns, basis.same_device
        ),
        _intensity_formula(totals.intensity, totals.compulsory_bytes),
        _measured_intensity(measured_flops(basis.classes), totals.moved_bytes),
        _coverage_formula(totals.coverage),
    ]  # fmt: skip
    return [formula for formula in made if formula is not None]


def _number(quantity: Quantity) -> str:
    return count_text(round(float(quantity.value or 0)))


def _floor_formula(basis: Basis) -> Formula | None:
    roof, totals = basis.roof, basis.run.totals
    if roof is None or totals.compulsory_bytes.value is None or totals.minimum_flops.value is None:
        return None
    memory = float(totals.compulsory_bytes.value) / roof.bandwidth_bytes_per_s * 1e9
    compute = float(totals.minimum_flops.value) / roof.peak_flops_per_s * 1e9
    return Formula(
        "Floor of the step",
        "max(compulsory bytes / bandwidth, FLOPs needed / peak)",
        f"max({_number(totals.compulsory_bytes)} B / {bandwidth_text(roof.bandwidth_bytes_per_s)}, "
        f"{_number(totals.minimum_flops)} FLOP / {flop_rate_text(roof.peak_flops_per_s)}) = "
        f"max({time_text(memory)}, {time_text(compute)}) = {time_text(max(memory, compute))}",
    )


def _quotient_formula(
    name: str, formula: str, over: Quantity, under: Quantity, allowed: bool = True
) -> Formula | None:
    times = ratio(over, under)
    if times is None or not allowed:
        return None
    filled = f"{_number(over)} / {_number(under)} {over.unit} = {ratio_text(times)}"
    return Formula(name, formula, filled)


def _intensity_formula(intensity: Quantity, compulsory: Quantity) -> Formula | None:
    if intensity.value is None or compulsory.value is None:
        return None
    flops = float(intensity.value) * float(compulsory.value)
    return Formula(
        "Intensity of the step",
        "all FLOPs of the theory / compulsory bytes",
        f"{count_text(round(flops))} FLOP / {_number(compulsory)} B = {intensity.value:.4f} FLOP/B",
    )


def _measured_intensity(flops: Quantity, moved: Quantity) -> Formula | None:
    intensity = quotient(flops, moved)
    if intensity.value is None:
        return None
    return Formula(
        "Measured intensity",
        "all executed FLOPs, elementwise ones too / moved bytes",
        f"{_number(flops)} FLOP / {_number(moved)} B = {intensity_text(intensity.value)} FLOP/B",
    )


def _coverage_formula(coverage: Quantity) -> Formula | None:
    if coverage.value is None:
        return None
    return Formula(
        "Coverage",
        "requested bytes of known classes / all requested bytes",
        f"{float(coverage.value):.4f}",
    )
