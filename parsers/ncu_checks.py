"""What the launches of a counter capture say about themselves: lost kernels, missing counters,
values above the roof. Empty is not zero, so each of these is a sentence on the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rooflens.model import Check, KernelRow, Launch, Quantity

Measured = Launch | KernelRow
"""A launch, or a summary row that stands for several."""

INVALID_PERCENT = 105.0
"""A value this far above the roof held during the capture cannot be right."""
SHARES = ("dram_percent_of_roof", "tensor_percent_of_roof", "flop_percent_of_roof")
CLOCK_SPREAD = 1.06
_PLANNER = "See `profile metrics --gpu NAME --dtype DTYPE` for the counters to ask for."


def launch_checks(launches: Sequence[Measured]) -> Iterator[Check]:
    """Say what is missing from, or wrong in, the launches of one capture."""
    dead = [launch for launch in launches if is_dead(launch)]
    alive = [launch for launch in launches if not is_dead(launch)]
    if dead:
        yield Check(
            id="ncu-dead-kernels",
            outcome="failed" if not alive else "warning",
            message=f"{_of(dead, launches)} died in replay: every counter is NaN ({_names(dead)}). "
            "Sums leave them out.",
            fix="Profile these alone, with fewer metrics, or with --replay-mode application.",
        )
    for what, words, fix in _NEEDED:
        lacking = [launch for launch in alive if getattr(launch, what).value is None]
        if lacking:
            yield Check(
                id=f"ncu-no-{what.replace('_', '-')}",
                outcome="warning",
                message=f"{_of(lacking, launches)} without {words}: "
                f"{_reason(getattr(x, what) for x in lacking)}.",
                fix=fix,
            )
    yield from _above_roof(alive)
    yield from _clocks(alive)


_NEEDED = (
    ("duration_ns", "a time", "Add gpu__time_duration.sum to --metrics. " + _PLANNER),
    ("dram_bytes", "DRAM bytes", _PLANNER),
    ("flops", "FLOPs", _PLANNER),
)


def is_dead(launch: Measured) -> bool:
    """Whether a launch was recorded but none of its counters has a value."""
    quantities = (launch.duration_ns, launch.dram_bytes, launch.l2_bytes)
    return all(q.value is None for q in quantities) and any(
        "nan" in (q.absent or "") for q in quantities
    )


def _of(some: Sequence[Measured], launches: Sequence[Measured]) -> str:
    noun = "kernel" if len(launches) == 1 else "kernels"
    return f"{len(some)} of {len(launches)} {noun}"


def _names(launches: Iterable[Measured]) -> str:
    names = list(dict.fromkeys(launch.name[:60] for launch in launches))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _reason(quantities: Iterable[Quantity]) -> str:
    """The commonest reason, in the words of its first kernel; figures in it may differ."""
    reasons = [q.absent or "" for q in quantities]
    counts = Counter(re.sub(r"\d[\d.]*", "#", reason) for reason in reasons)
    kind, number = counts.most_common(1)[0]
    most = next(reason for reason in reasons if re.sub(r"\d[\d.]*", "#", reason) == kind)
    rest = len(reasons) - number
    return most + (f" (and {rest} for other reasons)" if rest else "")


def _above_roof(launches: Sequence[Measured]) -> Iterator[Check]:
    above: dict[str, list[float]] = {}
    for launch in launches:
        for name in SHARES:
            share = launch.metrics.get(name)
            if share is not None and (share.value or 0) > INVALID_PERCENT:
                above.setdefault(launch.name[:60], []).append(float(share.value or 0))
    if above:
        worst = max(above, key=lambda name: max(above[name]))
        yield Check(
            id="above-roof",
            outcome="failed",
            message=f"{sum(map(len, above.values()))} kernels lie above 105 % of the roof that was "
            f"held ({worst}: {max(above[worst]):.0f} %): their counters or times are wrong.",
            fix="Capture again on an idle GPU; several passes may have run at different clocks.",
        )
    elif launches and any(name in x.metrics for x in launches for name in SHARES):
        yield Check(
            id="above-roof", outcome="passed",
            message="No kernel lies above the roof that was held during the capture.",
        )  # fmt: skip


def _clocks(launches: Sequence[Measured]) -> Iterator[Check]:
    clocks = [
        float(clock.value)
        for launch in launches
        if (clock := launch.metrics.get("sm_clock_hz")) is not None and clock.value
    ]
    if len(clocks) > 1 and max(clocks) > min(clocks) * CLOCK_SPREAD:
        yield Check(
            id="sm-clock",
            outcome="warning",
            message=f"The SM clock moved from {min(clocks) / 1e9:.2f} to {max(clocks) / 1e9:.2f} "
            "GHz between kernels: compare their shares of the roof, not their times.",
            fix="Capture with --clock-control base, or lock the clocks.",
        )


def passes_of(launches: Iterable[Measured]) -> dict[str, str]:
    """How often the kernels were replayed, as a regime entry; empty when the capture is silent."""
    passes = sorted({int(p.value) for x in launches if (p := x.metrics.get("passes")) and p.value})
    if not passes:
        return {}
    return {"passes": str(passes[0]) if len(passes) == 1 else f"{passes[0]} to {passes[-1]}"}
