"""R30: more collectives than a tensor-parallel layer needs."""

from __future__ import annotations

from collections import Counter

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import COLLECTIVES_PER_LAYER, COLLECTIVES_TOLERANCE
from rooflens.reports.format import count_text, plural

NO_BYTES = "collectives move bytes between GPUs, which are not DRAM bytes of one"


def detect(evidence: Evidence) -> Answer:
    limit = COLLECTIVES_PER_LAYER.value
    ops = [op for op in evidence.ops if _is_collective(op.name)]
    per_layer = Counter(op.layer for op in ops if op.layer is not None)
    busy = {layer: count for layer, count in per_layer.items() if count > limit}
    if busy:
        worst = max(busy.values())
        return Claim(
            title=f"{worst} collectives in a layer that needs {count_text(limit)}",
            no_bytes=NO_BYTES,
            confidence="medium",
            confidence_reason="the calls are recorded; Mixture-of-Experts layers may need more",
            evidence=(
                f"{plural(len(ops), 'collective')} in {plural(len(per_layer), 'layer')}: "
                + ", ".join(sorted({op.name for op in ops})),
            ),
            ops=tuple(op.index for op in ops if op.layer in busy),
        )
    if evidence.ops:
        return None
    return _from_kernels(evidence)


def _is_collective(name: str) -> bool:
    return name.startswith(("c10d.", "_c10d_functional.")) and "wait" not in name


def _from_kernels(evidence: Evidence) -> Answer:
    rows = evidence.rows_of("communication")
    layers = _layers(evidence)
    if not rows:
        return None
    if layers is None:
        return CannotLook("the number of layers cannot be told: no attention kernel")
    launches = sum(evidence.kernels[row].count for row in rows)
    if launches / layers < COLLECTIVES_PER_LAYER.value + COLLECTIVES_TOLERANCE.value:
        return None
    return Claim(
        title=(
            f"{plural(launches, 'collective')} beside {count_text(layers)} launches of attention: "
            f"{launches / layers:.2g} a layer"
        ),
        no_bytes=NO_BYTES,
        confidence="low",
        confidence_reason="layers are counted by attention launches; a collective kernel's time is "
        "mostly waiting for the slowest GPU and proves nothing",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


def _layers(evidence: Evidence) -> int | None:
    """Attention launches, over all devices as the collectives are."""
    launches = sum(evidence.kernels[row].count for row in evidence.rows_of("attention"))
    return launches or None


RULE = Rule(
    id="R30-collective-excess",
    needs=("ops", "kernels"),
    looks_for="more than two collectives in a tensor-parallel layer",
    clear="No layer has more collectives than it needs",
    why=(
        "A dense tensor-parallel layer adds its parts up twice: after attention and after the MLP. "
        "Any further collective waits for the slowest GPU once more."
    ),
    remedy="Remove the redundant all-reduce (add before reducing), or fuse it with the norm",
    fixed_in="vllm#52301: a redundant MoE all-reduce, 4.07 to 4.64 ms a token and back",
    example="3 all-reduces in a layer where 2 are enough",
    limits="Only counts are judged: a collective's duration is mostly another GPU's lateness.",
    thresholds=(COLLECTIVES_PER_LAYER, COLLECTIVES_TOLERANCE),
    detect=detect,
)
