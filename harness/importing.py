"""Capture files in, one run out: detect, read, merge with provenance, join with theory.

    run, launches = import_files([Path("step.ncu-rep")], ImportOptions(gpu="h100-sxm"))

To add a format, add a row to `parsers/detect.py` and one to READERS. A reader is a module with
`read(path) -> Reading` that raises InputError with the precise statement of what is missing.
"""

from __future__ import annotations

import importlib
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec

from rooflens import __version__
from rooflens.errors import InputError, UsageError
from rooflens.harness.hints import Hints, ImportOptions, choose_import_roofs, read_hints
from rooflens.harness.merging import merge_kernels, merge_launches, merge_machines
from rooflens.model import (
    SCHEMA_VERSION,
    Check,
    KernelRow,
    Launch,
    Op,
    OperatorRow,
    Roof,
    Run,
    Timeline,
    Totals,
    absent,
    known,
)
from rooflens.parsers.detect import detect, title
from rooflens.parsers.kernels import UNKNOWN
from rooflens.quantity import Record
from rooflens.reading import Reading
from rooflens.reports.format import count_text, plural
from rooflens.reports.join.counters import REPLAY_TIME
from rooflens.reports.join.kernels import Joined, Measured
from rooflens.vocabulary import EVIDENCE

READERS: dict[str, str] = {
    "ncu-rep": "rooflens.parsers.ncu_report",
    "ncu-csv": "rooflens.parsers.ncu_csv",
    "ncu-text": "rooflens.parsers.ncu_csv.text",
    "nsys-sqlite": "rooflens.parsers.nsys_sqlite",
    "nsys-rep": "rooflens.parsers.nsys_rep",
    "nsys-stats": "rooflens.parsers.nsys_stats",
    "nsys-text": "rooflens.parsers.nsys_stats",
    "torch-trace": "rooflens.parsers.torch_trace",
}


class Imported(Record, frozen=True, kw_only=True):
    """A run made of capture files, and what is kept beside it."""

    run: Run
    found: tuple[str, ...]
    """One sentence a file: what it is."""
    launches: tuple[tuple[str, Launch], ...]
    """Single launches, each with the name of its file."""
    joined: tuple[Joined, ...]
    """One per launch."""


def read_file(path: Path) -> Reading:
    """Detect and read one capture file.

    Raises InputError when the file is of no known format, or holds nothing that can be used.
    """
    name = detect(path)
    try:
        module = importlib.import_module(READERS[name])
    except ModuleNotFoundError as error:
        if error.name != READERS[name]:
            raise
        raise InputError(f"{path} is a {title(name)}; this release cannot read it.") from None
    read = cast("Callable[[Path], Reading]", module.read)
    return read(path)


def describe(reading: Reading) -> str:
    """What a file was found to be, in one sentence; its own words cannot steer a terminal."""
    from rooflens.reports.view.cells import clean

    capture = reading.capture
    words = [f"{capture.file}: {title(reading.format)}"]
    if capture.tool not in ("", "ncu", "nsys", "torch"):
        words.append(f"of {capture.tool}")
    if reading.machine.gpu:
        words.append(f"on {clean(reading.machine.gpu)}")
    held = plural(capture.rows, "kernel launch", "kernel launches")
    if not capture.rows and reading.timeline is not None and reading.timeline.ranges:
        held = f"{plural(len(reading.timeline.ranges), 'range')} and no kernel"
    return f"{' '.join(words)}, {held}."


def import_files(
    paths: Sequence[Path], options: ImportOptions | None = None, ops: Sequence[Op] = ()
) -> Imported:
    """Read capture files of one step and make a run of them.

    `ops` are those of a recording of the same step, which launches are then joined to. Raises
    InputError when a file cannot be read or nothing in it can be used, UsageError for hints that
    contradict each other.
    """
    options = options or ImportOptions()
    hints = read_hints(options)
    readings = [read_file(path) for path in paths]
    _refuse_empty(readings)
    return assemble(readings, hints, ops)


def _refuse_empty(readings: Sequence[Reading]) -> None:
    def holds(reading: Reading) -> bool:
        return bool(
            reading.launches or reading.kernels or reading.graphs or reading.timeline is not None
        )

    if not any(holds(reading) for reading in readings):
        names = ", ".join(reading.capture.file for reading in readings)
        raise InputError(
            f"{names}: how a capture was taken, but no kernel of it.",
            "Import the report or its raw page together with this file.",
        )


def assemble(readings: Sequence[Reading], hints: Hints, ops: Sequence[Op] = ()) -> Imported:
    """Make a run of what the parsers read."""
    from rooflens.reports.findings import find
    from rooflens.reports.join.kernel_rows import kernel_rows
    from rooflens.reports.join.kernels import join_launches
    from rooflens.reports.view.redact import redacted

    ranks = _ranks(readings)
    hints = _per_rank(hints, ranks)
    options = hints.options
    counter_files = [r for r in readings if r.evidence == "counters"]
    merged = merge_launches(counter_files)
    launches = [launch for _, launch in merged.launches]
    joined = join_launches(launches, ops)
    counted = [*kernel_rows(launches, joined), *(k for r in counter_files for k in r.kernels)]
    timed = [k for r in readings if r.evidence != "counters" for k in r.kernels]
    counted = [_per_step(row, options.steps) for row in counted]
    kernels, kernel_checks = merge_kernels(timed, counted)
    machine, machine_checks = merge_machines(readings)
    roofs, roof_checks = choose_import_roofs(hints, machine, launches)
    measured, to = _measured(launches, joined, counter_files)
    rows, totals = _rows(hints, roofs[0] if roofs else None, ops, measured, to, timed)
    step_times = next((r.step_times_ns for r in readings if r.step_times_ns), ())
    checks = [check for reading in readings for check in reading.checks]
    checks += [*merged.checks, *kernel_checks, *machine_checks, *roof_checks]
    checks += [*_join_check(kernels, joined), *_rank_check(hints, ranks)]
    checks += _sampling_check(measured, to, hints.layers_model)
    run = Run(
        schema_version=SCHEMA_VERSION,
        created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        command=options.command,
        evidence=_evidence(readings, hints, ops),
        machine=machine,
        tools={"rooflens": __version__} | {k: v for r in readings for k, v in r.tools.items() if v},
        workload=hints.workload,
        model=hints.model,
        roofs=roofs,
        totals=_with_time(totals, step_times, bool(measured)),
        step_times_ns=step_times,
        operators=rows,
        ops=tuple(ops),
        kernels=kernels,
        graphs=tuple(graph for reading in readings for graph in reading.graphs),
        timeline=_with_demand(readings, hints, roofs[0] if roofs else None, ranks),
        findings=(),
        checks=(),
        captures=tuple(reading.capture for reading in readings),
        labels=dict(options.labels),
    )
    run = msgspec.structs.replace(run, findings=find(run))
    run = msgspec.structs.replace(run, checks=(*checks, *_run_checks(run)))
    return Imported(
        run=redacted(run),
        found=tuple(describe(reading) for reading in readings),
        launches=merged.launches,
        joined=joined,
    )


def _ranks(readings: Sequence[Reading]) -> int:
    """Ranks of the program that a trace names; the trace is of one of them."""
    return max((int(r.capture.regime.get("ranks", "1")) for r in readings), default=1)


def _per_rank(hints: Hints, ranks: int) -> Hints:
    """Hints with the theory of one tensor-parallel rank; without theory where ranks do not divide.

    A capture of one of several ranks must not be held against the work of all of them.
    """
    from rooflens.reports.theory.step import step_theory

    if hints.theory is None or ranks < 2:
        return hints
    shape = msgspec.structs.replace(hints.theory.shape, tp=ranks)
    try:
        theory = step_theory(hints.theory.architecture, shape)
    except UsageError:
        theory = None
    return msgspec.structs.replace(hints, theory=theory)


def _rank_check(hints: Hints, ranks: int) -> list[Check]:
    if ranks < 2 or hints.options.model is None:
        return []
    fits = hints.theory is not None
    return [
        Check(
            id="ranks",
            outcome="passed" if fits else "warning",
            message=f"The trace is of one of {ranks} ranks; theory is that of one "
            "tensor-parallel rank."
            if fits
            else f"The trace is of one of {ranks} ranks, which do not divide the model: no theory.",
            fix="" if fits else "Name the model that ran with --model.",
        )
    ]


def _with_demand(
    readings: Sequence[Reading], hints: Hints, roof: Roof | None, ranks: int
) -> Timeline | None:
    """The first timeline, with what theory demands of its phases where the model is named."""
    from rooflens.reports.join.phases import with_demand

    timeline = next((r.timeline for r in readings if r.timeline is not None), None)
    return timeline and with_demand(timeline, hints.theory, roof, ranks)


def _run_checks(run: Run) -> tuple[Check, ...]:
    from rooflens.reports.checks import run_checks

    return run_checks(run)


def _measured(
    launches: Sequence[Launch], joined: Sequence[Joined], readings: Sequence[Reading]
) -> tuple[list[Measured], list[Joined]]:
    """Launches and summary rows together, each with its join."""
    from rooflens.reports.join.kernels import join_launches

    summaries = [kernel for reading in readings for kernel in reading.kernels]
    return [*launches, *summaries], [*joined, *join_launches(summaries)]


def _rows(
    hints: Hints,
    roof: Roof | None,
    ops: Sequence[Op],
    measured: Sequence[Measured],
    joined: Sequence[Joined],
    timed: Sequence[KernelRow],
) -> tuple[tuple[OperatorRow, ...], Totals]:
    """Operator rows and totals: theory and recording where there are any, then the captures."""
    from rooflens.reports.join.counted import operator_rows, totals
    from rooflens.reports.join.counters import with_classes, with_counter_totals, with_counters
    from rooflens.reports.join.timeline import kernel_time_by_class, with_times

    rows = operator_rows(ops, hints.theory, roof)
    sums = totals(ops, hints.theory, roof)
    if measured:
        rows = with_counters(
            rows, measured, joined, layers_model=hints.layers_model, steps=hints.options.steps
        )
        sums = with_counter_totals(sums, rows)
    if timed:
        times = kernel_time_by_class(timed)
        rows = with_times(with_classes(rows, times), times, roof)
    return rows, sums


def _per_step(row: KernelRow, steps: int) -> KernelRow:
    """Launches per step, where they divide evenly; else they stay per capture."""
    if steps == 1 or row.count % steps:
        return row
    return msgspec.structs.replace(row, count=row.count // steps)


def _with_time(totals: Totals, step_times_ns: Sequence[float], counters: bool) -> Totals:
    """The median step of a timeline; ncu has no time of a step."""
    if step_times_ns:
        time = known(statistics.median(step_times_ns), "ns", "timeline")
    else:
        time = REPLAY_TIME if counters else absent("the capture shows no steps")
    return msgspec.structs.replace(totals, step_time_ns=time)


def _evidence(readings: Sequence[Reading], hints: Hints, ops: Sequence[Op]) -> tuple[str, ...]:
    have = {str(reading.evidence) for reading in readings}
    have |= {"theory"} if hints.theory is not None else set()
    have |= {"counted"} if ops else set()
    return tuple(level for level in EVIDENCE if level in have)


def _sampling_check(
    measured: Sequence[Measured], joined: Sequence[Joined], layers_model: int | None
) -> list[Check]:
    from rooflens.reports.join.counters import sampling, sampling_check

    check = sampling_check(sampling(measured, joined, layers_model), layers_model)
    return [] if check is None else [check]


def _join_check(kernels: Sequence[KernelRow], joined: Sequence[Joined]) -> list[Check]:
    """How the launches found their operators, and which names nobody knows."""
    if not joined:
        return []
    methods = Counter(to.join.method for to in joined)
    by = ", ".join(
        f"{count_text(number)} "
        f"{'guessed from kernel names' if method == 'name class' else f'by {method}'}"
        for method, number in methods.items()
        if method != "none"
    )
    unknown = [k.short_name for k in kernels if k.family == UNKNOWN]
    classed = count_text(len(joined) - methods["none"])
    have = "has" if len(joined) == 1 else "have"
    message = f"{classed} of {plural(len(joined), 'launch', 'launches')} {have} an operator class"
    message += f": {by}." if by else "."
    if unknown:
        shown = ", ".join(name[:60] for name in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        message += f" Unknown names: {shown}{more}."
    low = methods["none"] + methods["name class"]
    checks = []
    if kernels and all(kernel.family == "rng" for kernel in kernels):
        checks.append(
            Check(
                id="wrong-kernels",
                outcome="failed",
                message="Every kernel of the capture fills tensors with random numbers: the "
                "set-up was captured, not the step.",
                fix="Skip the set-up: --launch-skip, a kernel filter, or an NVTX range around the "
                "step with --nvtx-include.",
            )
        )
    return [
        *checks,
        Check(
            id="kernel-join",
            outcome="warning" if low else "passed",
            message=message,
            fix="Capture with NVTX ranges (`profile run --evidence counters`, or "
            "--nvtx with module ranges) to join kernels to operators."
            if low
            else "",
        ),
    ]
