"""R33: a class of operators has another number of launches than in the baseline."""

from __future__ import annotations

from collections import Counter

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import kind_of
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.format import count_text


def _counts(evidence: Evidence, ops: bool) -> Counter[str]:
    """Launches (or recorded ops) of a step by operator class; by kernel kind where unknown."""
    counts: Counter[str] = Counter()
    if ops:
        counts.update(op.op_class for op in evidence.ops)
        return counts
    for kernel in evidence.kernels:
        name = kernel.op_class if kernel.op_class != "other" else kind_of(kernel)
        counts[name] += kernel.count
    return counts


def detect(evidence: Evidence) -> Answer:
    base = evidence.baseline
    if base is None:
        return CannotLook("there is no baseline run to compare with")
    both_kernels = bool(base.kernels and evidence.kernels)
    if not both_kernels and not (base.ops and evidence.ops):
        return CannotLook("the two runs share neither kernels nor recorded ops")
    what = "launches" if both_kernels else "ops"
    before = _counts(base, not both_kernels)
    after = _counts(evidence, not both_kernels)
    changed = sorted(
        (name for name in before | after if before[name] != after[name]),
        key=lambda name: -abs(after[name] - before[name]),
    )
    if not changed:
        return None
    fewer = [name for name in changed if after[name] < before[name]]
    warning = (
        ("fewer can mean that work is missing (vllm#52190: 0 of 276 kernels ran)",) if fewer else ()
    )
    total = (sum(before.values()), sum(after.values()))
    return Claim(
        title=(
            f"The number of {what} changed: {count_text(total[0])} in the baseline, "
            f"{count_text(total[1])} now"
        ),
        no_bytes="a change of counts; bytes and time are compared by profile diff",
        confidence="high",
        confidence_reason="counts have no noise",
        evidence=(
            *(
                f"{name}: {count_text(before[name])} → {count_text(after[name])}"
                for name in changed[:8]
            ),
            *warning,
        ),
    )


RULE = Rule(
    id="R33-launch-count-drift",
    needs=("baseline",),
    looks_for="operator classes with more or fewer launches than in the baseline",
    clear="Every operator class has as many launches as in the baseline",
    why=(
        "Counts are exact: one more copy per layer, a lost fusion or a missing kernel shows "
        "without any timing. Both directions matter."
    ),
    remedy="Look at the classes below; a fusion that was lost or work that no longer runs",
    fixed_in="no version; sglang#5953: a copy removed, then added back by mistake",
    example="attention: 28 → 168 launches after a switch to eager attention",
    limits="A new capture size or batch changes counts rightly: compare equal steps.",
    detect=detect,
)
