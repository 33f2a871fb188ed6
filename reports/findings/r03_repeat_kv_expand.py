"""R03: keys and values are copied once per query head."""

from __future__ import annotations

from rooflens.model import Op, Tensor
from rooflens.reports.findings.attention import reads_as_keys
from rooflens.reports.findings.dataflow import base_name, total_bytes
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, count_text, percent_text, plural

_COPIES = frozenset({
    "aten.clone", "aten.copy_", "aten._to_copy", "aten.contiguous", "aten.repeat",
    "aten.repeat_interleave", "aten.index_select", "aten.cat", "aten.stack",
})  # fmt: skip


def _expansion(op: Op) -> tuple[Tensor, Tensor] | None:
    """The source and the copy when `op` writes each source element several times."""
    if base_name(op) not in _COPIES or not op.inputs or not op.outputs:
        return None
    copy = op.outputs[0]
    candidates = [tensor for tensor in op.inputs if tensor.id != copy.id]
    if len({tensor.id for tensor in candidates}) != 1:
        return None
    source = candidates[0]
    if len(copy.shape) < 3 or source.bytes == 0:
        return None
    factor = copy.bytes / source.bytes
    return (source, copy) if factor >= 2 and factor.is_integer() else None


def detect(evidence: Evidence) -> Answer:
    copies: list[Op] = []
    consumers: dict[int, int] = {}
    factors: set[int] = set()
    for op in evidence.ops:
        expansion = _expansion(op)
        if expansion is None:
            continue
        source, copy = expansion
        readers = [reader for reader in evidence.flow.readers(op) if reads_as_keys(reader, copy.id)]
        if not readers:
            continue
        copies.append(op)
        factors.add(copy.bytes // source.bytes)
        for reader in readers:
            spared = copy.bytes - source.bytes
            consumers[reader.index] = consumers.get(reader.index, 0) + spared
    if not copies:
        return None
    total = total_bytes(copies)
    factor = "/".join(str(value) for value in sorted(factors))
    first = copies[0]
    return Claim(
        title=(
            f"Keys and values are copied {factor}-fold for the query heads: "
            f"{plural(len(copies), 'copy', 'copies')} a step"
        ),
        saved={op.index: op.bytes_in + op.bytes_out for op in copies},
        consumers=consumers,
        confidence="high",
        confidence_reason="a copy of an expanded K or V is in the recorded ops, and attention "
        "reads the copy",
        remedy=RULE.remedy + source_of(copies),
        evidence=(
            f"{count_text(len(copies))} × {first.name}: {bytes_text(first.bytes_in)} read, "
            f"{bytes_text(first.bytes_out)} written each",
            f"they ask for {bytes_text(total)}, {percent_text(total / evidence.step_bytes)} of the "
            "step's requested bytes",
            f"the attention that reads them asks for {bytes_text(sum(consumers.values()))} more "
            "than it would from the unexpanded K and V",
        ),
    )


RULE = Rule(
    id="R03-repeat-kv-expand",
    needs=("ops",),
    looks_for="K and V copied to all query heads (repeat_kv) before attention reads them",
    clear="No attention reads copies of K and V made per query head",
    why=(
        "Expanding K and V to the query heads costs nothing as a view, but the reshape that "
        "follows makes it a copy: every key and value is written once per query head, and "
        "attention then reads all of it. With seven query heads per KV head that is fifteen "
        "times the traffic of reading K and V once."
    ),
    remedy=(
        'Use attn_implementation="sdpa" without a padding mask (it passes enable_gqa), or a '
        "kernel that takes fewer KV heads than query heads; for one query, fold the group into "
        "the query tokens"
    ),
    fixed_in=(
        "transformers 5.24 with sdpa for decode; there it still expands for eager, for a padded "
        "or chunked prefill, and for StaticCache under torch.compile"
    ),
    example=(
        "Qwen2.5-7B, decode of 1 token on 2048 keys, eager: 56 copies ask for 939.5 MB, and the "
        "products that read them for 704.6 MB more"
    ),
    limits="Where attention is compute bound (long prefill) the copy is a small part of the step.",
    detect=detect,
)
