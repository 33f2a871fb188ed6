"""The rules that need two runs (R25, R32, R33, R38, R39, R40), within what may be compared."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflens.model import Finding, Run, absent
from rooflens.reports.compare.operators import Forbidden
from rooflens.reports.findings import find_differences

CLOCK_RULE = "R38-clock-regime"
_NEEDS_KERNELS = (
    "R25-low-precision-not-faster", "R32-kernel-substitution", "R33-launch-count-drift",
    "R40-graph-lost",
)  # fmt: skip
_NEEDS_TIMES = ("R25-low-precision-not-faster", "R39-host-regression")


def answers(base: Sequence[Run], head: Sequence[Run]) -> tuple[Finding, ...]:
    """What the rules say of the first run of each side, which stands for its side."""
    return find_differences(base[0], head[0])


def clock_reason(found: Sequence[Finding]) -> str:
    """Why the clocks forbid comparing times; empty when they do not."""
    return next((f.title for f in found if f.rule == CLOCK_RULE and f.outcome == "found"), "")


def allowed(found: Sequence[Finding], forbids: Forbidden) -> tuple[Finding, ...]:
    """The same answers, silent about what the environments forbid to compare."""
    return tuple(_allowed(finding, forbids) for finding in found)


def _allowed(finding: Finding, forbids: Forbidden) -> Finding:
    reason = forbids.kernels if finding.rule in _NEEDS_KERNELS else ""
    reason = reason or (forbids.time if finding.rule in _NEEDS_TIMES else "")
    if finding.outcome != "found":
        return finding
    if reason:
        unseen = absent(f"could not look: {reason}")
        return Finding(
            rule=finding.rule,
            outcome="could_not_look",
            title=f"Not compared: {reason}",
            saving_bytes=unseen,
            consumer_bytes=unseen,
            confidence_reason=reason,
        )
    if forbids.time and finding.rule != CLOCK_RULE:
        lines = [
            line.rpartition(", ")[0] if line.endswith(" time") else line
            for line in finding.evidence
        ]
        return msgspec.structs.replace(finding, saving_ns=None, evidence=tuple(lines))
    return finding
