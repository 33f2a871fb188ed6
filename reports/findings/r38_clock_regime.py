"""R38: two runs held different clocks."""

from __future__ import annotations

from statistics import median

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_numbers import metric
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import CLOCK_TOLERANCE
from rooflens.reports.format import delta_text, hertz_text


def _clocks(evidence: Evidence) -> dict[str, float]:
    """SM and memory clock that were held, where the run knows them."""
    held = [
        value for kernel in evidence.kernels if (value := metric(kernel, "sm_clock_hz")) is not None
    ]
    clocks = {
        "SM clock": median(held) if held else evidence.machine.sm_clock_hz,
        "memory clock": evidence.machine.memory_clock_hz,
    }
    return {name: value for name, value in clocks.items() if value}


def detect(evidence: Evidence) -> Answer:
    base = evidence.baseline
    before = _clocks(base) if base is not None else {}
    after = _clocks(evidence)
    shared = before.keys() & after.keys()
    if not shared:
        return CannotLook("the clocks of the two runs are not both known")
    changed = {
        name: after[name] / before[name] - 1
        for name in sorted(shared)
        if abs(after[name] / before[name] - 1) > CLOCK_TOLERANCE.value
    }
    if not changed:
        return None
    first = next(iter(changed))
    return Claim(
        title=f"The {first} differs by {delta_text(changed[first])}: times cannot be compared",
        no_bytes="clocks change times only; bytes and counts still compare",
        confidence="high",
        confidence_reason="the clocks were recorded with both captures",
        evidence=tuple(
            f"{name}: {hertz_text(before[name])} → {hertz_text(after[name])} ({delta_text(change)})"
            for name, change in changed.items()
        ),
    )


RULE = Rule(
    id="R38-clock-regime",
    needs=("baseline",),
    looks_for="clocks that differ between two runs whose times are compared",
    clear="Both runs held the same clocks",
    why=(
        "ncu locks base clocks, a live run boosts, a hot GPU throttles: times move with the clock "
        "and would be taken for a change of the code."
    ),
    remedy="Lock the clocks (nvidia-smi -lgc) or capture both runs in one job, interleaved",
    fixed_in="no version",
    example="1.980 GHz before, 1.410 GHz now: every kernel 1.4 times as long",
    thresholds=(CLOCK_TOLERANCE,),
    detect=detect,
)
