"""R28: adapters (LoRA) are applied beside the products instead of being merged."""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.findings.dataflow import LINEARS, base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.kernel_names import lora_kernels
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.findings.thresholds import LORA_RANK_MAX
from rooflens.reports.format import bytes_text, percent_text, plural

_BETWEEN = frozenset({
    "aten.mul", "aten._to_copy", "aten.native_dropout", "aten.mul_", "aten.clone",
})  # fmt: skip
_SUMS = frozenset({"aten.add", "aten.add_"})


def _adapter(evidence: Evidence, down: Op) -> tuple[list[Op], Op] | None:
    """The ops of one adapter and the sum with its base, when `down` is its first product."""
    if base_name(down) not in LINEARS or not down.outputs:
        return None
    rank = down.outputs[0].shape[-1]
    inner = [tensor for tensor in down.inputs if tensor.role != "weight"]
    if rank > LORA_RANK_MAX.value or not inner or rank >= inner[0].shape[-1]:
        return None
    flow = evidence.flow
    middle, ends = flow.reach(down, lambda op: base_name(op) in _BETWEEN)
    ups = [op for op in ends if base_name(op) in LINEARS and op.outputs[0].shape[-1] > rank]
    if len(ups) != 1:
        return None
    scaled, sums = flow.reach(ups[0], lambda op: base_name(op) in _BETWEEN)
    for total in sums:
        bases = [producer for _, producer in flow.producers(total)]
        shared = {tensor.id for tensor in inner}
        same_input = any(
            base_name(base) in LINEARS
            and base is not ups[0]
            and shared & {tensor.id for tensor in base.inputs}
            for base in bases
        )
        if base_name(total) in _SUMS and same_input:
            return [down, *middle, ups[0], *scaled, total], total
    return None


def detect(evidence: Evidence) -> Answer:
    found = [adapter for op in evidence.ops if (adapter := _adapter(evidence, op))]
    if not found:
        return _from_kernels(evidence) if not evidence.ops else None
    ops = [op for chain, _ in found for op in chain]
    saved = {op.index: op.bytes_in + op.bytes_out for op in ops}
    total = sum(saved.values())
    rank = found[0][0][0].outputs[0].shape[-1]
    return Claim(
        title=f"{plural(len(found), 'adapter')} of rank {rank} run beside their projections",
        saved=saved,
        confidence="high",
        confidence_reason="two narrow products and a sum with the base product of the same input",
        remedy=RULE.remedy + source_of(ops[:1]),
        evidence=(
            f"{plural(len(ops), 'op')} ask for {bytes_text(total)} "
            f"({percent_text(total / evidence.step_bytes)} of the step's requested bytes)",
            f"{len(ops) / len(found):.3g} launches for each adapter",
        ),
    )


def _from_kernels(evidence: Evidence) -> Answer:
    rows = lora_kernels(evidence)
    if not rows:
        return None
    spent, everything = evidence.time_of(rows), evidence.kernel_ns
    share = f": {percent_text(spent / everything)} of the kernel time" if everything else ""
    return Claim(
        title=f"Adapter kernels (bgmv, sgmv) run beside the projections{share}",
        kernel_ns={row: (0.0, evidence.time_of([row])) for row in rows if everything},
        no_bytes="the kernels' bytes were not measured",
        confidence="medium",
        confidence_reason="the kernels are known by name; with several adapters in a batch they "
        "are needed",
        evidence=evidence.names_of(rows),
        kernels=tuple(rows),
    )


RULE = Rule(
    id="R28-lora-overhead",
    needs=("ops", "kernels"),
    looks_for="LoRA adapters computed as two narrow products and a sum beside each projection",
    clear="No adapter runs beside its projection",
    why=(
        "Each target module gains two thin products and a sum: few bytes, but three or four "
        "launches that take as long as a small projection."
    ),
    remedy="Merge the adapter into the weight (peft: merge_and_unload()) when there is only one",
    fixed_in="no version; vllm#10062 and punica#27 show 20 to 60 % of the step",
    example="rank 8 on one projection: 3 products and a sum where one product is enough",
    limits="A server with many adapters in one batch cannot merge: use batched kernels (sgmv).",
    thresholds=(LORA_RANK_MAX,),
    detect=detect,
)
