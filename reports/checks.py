"""Can these numbers be trusted? Checks of a finished run, each one line with its fix.

`run_checks` sees only the Run, so it answers the same for a run read back from disk. What only the
harness knows (did recorded and counted ops agree, how old are the ceilings) it adds itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from rooflens.model import Check, Op, Run
from rooflens.reports.format import bytes_text, percent_text, plural, time_text

COVERAGE_LIMIT = 0.99
"""Below this share of bytes in known classes, sums by class mislead."""
SPREAD_LIMIT = 0.10
"""Slowest against fastest step, beyond which a small change cannot be seen."""
STEPS_WANTED = 3
FLOOR_SLACK = 0.98
"""A time may undercut its floor by so much before the roof is called wrong (clock, rounding)."""
CACHED_MULTIPLE = 2
"""A step that needs less than so many last-level caches may be served from there."""
RECORDED_LIMIT = 1.25
"""Ops timed one by one may add up to so much more than the step."""


def run_checks(run: Run) -> tuple[Check, ...]:
    """All checks that have a subject in this run, in a fixed order."""
    made = (check(run) for check in CHECKS)
    return tuple(check for check in made if check is not None)


def coverage(run: Run) -> Check | None:
    """Every op has a class; what has none is named."""
    share = run.totals.coverage.value
    if share is None:
        return None
    stray = sorted({op.name for op in run.ops if op.op_class == "other"})
    if share >= 1 and not stray:
        return _passed("coverage", "Every recorded op belongs to an operator class.")
    names = ", ".join(stray[:5]) + (" ..." if len(stray) > 5 else "")
    message = f"{percent_text(1 - share)} of the requested bytes have no operator class ({names})."
    if share >= COVERAGE_LIMIT:
        return _passed("coverage", message)
    return Check(
        id="coverage",
        outcome="warning",
        message=message,
        fix="Read those rows by themselves: they are in no class's sum or floor.",
    )


def modelled(run: Run) -> Check | None:
    """Ops that stand for a kernel that could not run here."""
    names = sorted({op.name for op in run.ops if op.attributes.get("modelled")})
    if not names:
        return None
    return Check(
        id="modelled",
        outcome="warning",
        message=f"Modelled, not executed: {', '.join(names)}. Bytes and FLOPs follow its shapes.",
        fix="Run on a machine that has this kernel to see what it really does.",
    )


def idle_experts(run: Run) -> Check | None:
    """A grouped product of more experts than it has rows cannot read all of their weights."""
    extra = sum(_idle_bytes(op) for op in run.ops if "grouped_mm" in op.name)
    if extra <= 0:
        return None
    return Check(
        id="experts",
        outcome="warning",
        message=f"Expert weights are counted whole; {bytes_text(extra)} of them belong to experts "
        "that no token of this step can have picked.",
        fix="Take the experts' minimum bytes instead: they count active experts only.",
    )


def _idle_bytes(op: Op) -> float:
    weights = [t for t in op.inputs if t.role == "weight" and len(t.shape) == 3]
    rows = [t.shape[0] for t in op.inputs if t.role != "weight" and len(t.shape) == 2]
    if not weights or not rows:
        return 0
    experts, elements = weights[0].shape[0], math.prod(weights[0].shape)
    # Fewer bytes than elements: the recorder has already left idle experts out.
    if rows[0] >= experts or weights[0].bytes < elements:
        return 0
    return weights[0].bytes * (1 - rows[0] / experts)


def times_exist(run: Run) -> Check | None:
    """A meta run computes nothing and therefore has no times."""
    if run.machine.device != "meta":
        return None
    return Check(
        id="times",
        outcome="could_not_look",
        message="Nothing was executed (--device meta): bytes and FLOPs are exact, times are not "
        "there.",
        fix="Run with --device cpu or cuda for times; --gpu NAME gives floors.",
    )


def roof_exists(run: Run) -> Check | None:
    """Without a roof there are no floors."""
    if run.roofs:
        return None
    return Check(
        id="roof",
        outcome="could_not_look",
        message="There is no roof: no floors, and savings are in bytes only.",
        fix="Add --gpu NAME (see `profile list`).",
    )


def layers(run: Run) -> Check | None:
    """Did all layers run, or are times scaled from some?"""
    ran, total = run.workload.layers_run, run.workload.layers_model
    if not run.step_times_ns or ran is None or total is None:
        return None
    if ran == total:
        return _passed("layers", f"All {total} layers ran.")
    return Check(
        id="layers",
        outcome="warning",
        message=f"Times are scaled from {plural(ran, 'layer')} to {total}; "
        "bytes and FLOPs cover all layers.",
        fix="--layers all runs every layer.",
    )


def spread(run: Run) -> Check | None:
    """How far apart the timed steps are."""
    times = run.step_times_ns
    if not times:
        return None
    again = "Close other programs and use --steps 20 for a comparison."
    if len(times) < STEPS_WANTED:
        return Check(
            id="spread",
            outcome="could_not_look",
            message=f"{plural(len(times), 'timed step')}: the spread is not known.",
            fix=again,
        )
    low, high = min(times), max(times)
    wide = (high - low) / statistics.median(times)
    message = (
        f"{len(times)} steps took {time_text(low)} to {time_text(high)} "
        f"({percent_text(wide)} of the median)."
    )
    if wide <= SPREAD_LIMIT:
        return _passed("spread", message)
    return Check(id="spread", outcome="warning", message=message, fix=again)


def above_floor(run: Run) -> Check | None:
    """A step faster than its floor means that the roof or the clock is wrong."""
    time, floor = run.totals.step_time_ns.value, run.totals.floor_ns.value
    if time is None or floor is None or not run.roofs or run.roofs[0].prediction:
        return None
    if time >= FLOOR_SLACK * floor:
        return _fastest_against_floor(run, float(time), float(floor))
    cache, needed = run.machine.last_level_cache_bytes, run.totals.compulsory_bytes.value
    if cache is not None and needed is not None and needed < CACHED_MULTIPLE * cache:
        return Check(
            id="floor",
            outcome="warning",
            message=f"The step beats its floor because its {bytes_text(needed)} stay in the "
            f"{bytes_text(cache)} last-level cache; the floor assumes DRAM.",
            fix="Use a larger model, batch or context to measure DRAM traffic.",
        )
    measured = run.roofs[0].kind == "measured"
    return Check(
        id="floor",
        outcome="failed",
        message=f"The step takes {time_text(time)}, less than its floor of {time_text(floor)}: "
        "the roof is wrong.",
        fix="Run with --refresh-ceilings on an idle machine."
        if measured
        else "Name the GPU that it ran on with --gpu.",
    )


def _fastest_against_floor(run: Run, time: float, floor: float) -> Check:
    """A median above the floor may hide a step below it, which disproves the roof all the same."""
    samples = run.step_times_ns
    fastest = time * min(samples) / statistics.median(samples) if samples else time
    if fastest >= FLOOR_SLACK * floor:
        return _passed("floor", "The step is not faster than its floor.")
    measured = run.roofs[0].kind == "measured"
    return Check(
        id="floor",
        outcome="warning",
        message=f"The fastest step, {time_text(fastest)}, beats the floor of {time_text(floor)}: "
        + ("the ceilings were probed on a busier machine." if measured else "the roof is wrong."),
        fix="Run with --refresh-ceilings on an idle machine."
        if measured
        else "Name the GPU that it ran on with --gpu.",
    )


def op_times_fit_step(run: Run) -> Check | None:
    """Ops timed one by one should not add up to much more than the step."""
    step = run.totals.step_time_ns.value
    # Rows with a part split a row that is already in the sum.
    rows = [row for row in run.operators if row.part is None]
    timed = [row.time_ns.value for row in rows if row.time_ns.source == "host"]
    if step is None or not timed:
        return None
    total = sum(value or 0 for value in timed)
    message = f"Op times, taken in extra steps, add up to {percent_text(total / step)} of a step."
    if total <= RECORDED_LIMIT * step:
        return _passed("op-times", message)
    return Check(
        id="op-times",
        outcome="warning",
        message=message,
        fix="Read them as shares; run again on an idle machine.",
    )


def shared_weights(run: Run) -> Check | None:
    """Dummy layers may share storage only when the cache cannot keep a layer."""
    if "share" not in run.model.weights:
        return None
    cache = run.machine.last_level_cache_bytes
    where = f"its {bytes_text(cache)} last-level cache" if cache else "any common cache"
    return _passed(
        "weights",
        f"Dummy weights: all layers read one layer's memory, which is several times {where}, "
        "so every layer comes from DRAM as in the real model (--weights dummy-full fills all).",
    )


CHECKS: tuple[Callable[[Run], Check | None], ...] = (
    coverage,
    modelled,
    idle_experts,
    times_exist,
    roof_exists,
    layers,
    spread,
    above_floor,
    op_times_fit_step,
    shared_weights,
)


def _passed(id: str, message: str) -> Check:
    return Check(id=id, outcome="passed", message=message)
