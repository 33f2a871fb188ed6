"""R20: the host waits for the device inside the step."""

from __future__ import annotations

from collections import Counter

from rooflens.model import Op
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import small_copies_to_host
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import plural

NO_BYTES = "a wait costs time, not bytes; how much, only a timeline shows"

_READS_BACK = frozenset({
    "aten._local_scalar_dense", "aten.item", "aten.is_nonzero", "aten.equal", "aten.nonzero",
    "aten.masked_select", "aten.unique_consecutive", "aten._unique2", "aten.unique_dim",
})  # fmt: skip
_INDEXING = frozenset({
    "aten.index", "aten.index_put", "aten.index_put_", "aten._unsafe_index",
})  # fmt: skip


def _waits(op: Op) -> bool:
    """Ops whose result (or its size) the host needs; a bool index hides a nonzero on CUDA."""
    if base_name(op) in _READS_BACK:
        return True
    masks = [tensor for tensor in op.inputs[1:] if tensor.dtype in {"bool", "uint8"}]
    return base_name(op) in _INDEXING and bool(masks)


def detect(evidence: Evidence) -> Answer:
    waits = [op for op in evidence.ops if _waits(op)]
    if waits:
        names = Counter(op.name.removeprefix("aten.") for op in waits)
        listed = ", ".join(f"{count} × {name}" for name, count in names.most_common(4))
        return Claim(
            title=f"The host waits for the device {plural(len(waits), 'time')} inside the step",
            no_bytes=NO_BYTES,
            confidence="medium",
            confidence_reason="each of these ops needs its result on the host; what the wait costs "
            "depends on the work that is queued",
            remedy=RULE.remedy + source_of(waits),
            evidence=(listed,),
            ops=tuple(op.index for op in waits),
        )
    rows = small_copies_to_host(evidence)
    if not rows:
        return None
    launches = sum(evidence.kernels[row].count for row in rows)
    return Claim(
        title=f"{plural(launches, 'copy', 'copies')} from device to host in a step",
        no_bytes=NO_BYTES,
        confidence="low",
        confidence_reason="a copy to the host is a wait only where the host needs its result",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R20-device-sync",
    needs=("ops", "kernels"),
    looks_for="ops whose result the host needs in the middle of a step (.item(), bool(), nonzero)",
    clear="Nothing in the step makes the host wait for the device",
    why=(
        "The host can only queue the next kernels when it knows the value: until then the device "
        "runs dry. It also forbids CUDA graphs."
    ),
    remedy=(
        "Keep the decision on the device (torch.where, masks of fixed size), move the check out of "
        "the step, or read it back one step late"
    ),
    fixed_in="no version; transformers 5.24's grouped_mm experts run without any",
    example="a Mixture-of-Experts layer with looped experts: 10 reads back in decode",
    limits=(
        "A risk until a gap follows it on a timeline: sglang-omni#572 removed three and nothing "
        "changed."
    ),
    detect=detect,
)
