"""R04: appending to the KV cache copies the whole cache."""

from __future__ import annotations

from rooflens.model import Op, Tensor
from rooflens.reports.findings.attention import reads_as_keys
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.rule import Answer, Claim, Rule
from rooflens.reports.format import bytes_text, count_text, percent_text, plural

_REWRITES = frozenset({
    "aten.cat", "aten.where", "aten.index_put", "aten.scatter", "aten.index_copy",
    "aten.slice_scatter", "aten.select_scatter", "aten.masked_scatter",
})  # fmt: skip
"""Ops that return a new cache; their in-place forms (`index_copy_`) write only the new tokens."""


def _old_cache(evidence: Evidence, op: Op) -> Tensor | None:
    """The largest input that existed before the step and is copied into the output."""
    if base_name(op) not in _REWRITES or not op.outputs:
        return None
    output = op.outputs[0]
    old = [
        tensor
        for tensor in op.inputs
        if tensor.bytes
        and tensor.id != output.id
        and len(tensor.shape) == len(output.shape) >= 3
        and tensor.bytes <= output.bytes
        and evidence.flow.came_in(op, tensor)
    ]
    return max(old, key=lambda tensor: tensor.bytes, default=None)


def _attention_reads(evidence: Evidence, op: Op) -> bool:
    """True when attention reads the output as K or V, directly or through copies."""
    copies = {"aten.clone", "aten._to_copy", "aten.copy_", "aten.contiguous"}
    walked, ends = evidence.flow.reach(op, lambda reader: base_name(reader) in copies)
    ids = {tensor.id for step in (op, *walked) for tensor in step.outputs}
    return any(reads_as_keys(end, tensor) for end in ends for tensor in ids)


def detect(evidence: Evidence) -> Answer:
    saved: dict[int, int] = {}
    appends: list[Op] = []
    for op in evidence.ops:
        old = _old_cache(evidence, op)
        if old is None:
            continue
        if op.op_class != "kv_write" and not _attention_reads(evidence, op):
            continue
        appends.append(op)
        saved[op.index] = 2 * old.bytes
    if not appends:
        return None
    total = sum(saved.values())
    new = sum(op.bytes_out for op in appends) - total / 2
    first = appends[0]
    return Claim(
        title=(
            "Every step copies the whole KV cache: "
            f"{plural(len(appends), f'{first.name} call')} of up to "
            f"{bytes_text(max(op.bytes_out for op in appends))}"
        ),
        saved=saved,
        confidence="high",
        confidence_reason="the cached K and V come into the step and leave it in a new tensor",
        remedy=RULE.remedy + source_of(appends),
        evidence=(
            f"{count_text(len(appends))} × {first.name} read the old cache and write it again: "
            f"{bytes_text(total)}, {percent_text(total / evidence.step_bytes)} of the step's "
            "requested bytes",
            f"the new tokens alone need {bytes_text(new)}",
        ),
    )


RULE = Rule(
    id="R04-kv-append-copies-cache",
    needs=("ops",),
    looks_for="a KV cache that is rewritten in full to append the new tokens",
    clear="The new tokens are written without copying the cached ones",
    why=(
        "Concatenating the new K and V to the cache allocates a new cache and copies all cached "
        "tokens, for K and V of each layer: the bytes grow with the context, while the new tokens "
        "need a few kB."
    ),
    remedy=(
        "Preallocate the cache and write the new tokens in place (transformers: StaticCache, "
        'cache_implementation="static"), or use a paged cache with reshape_and_cache'
    ),
    fixed_in="not fixed: transformers 5.24's DynamicCache still appends with torch.cat",
    example=("Qwen2.5-7B, decode of 1 token on 2047 cached: 56 cats copy 234.8 MB to add 57 kB"),
    limits=(
        "Public reports measured cat faster than a strided in-place write at short contexts, and "
        "StaticCache makes attention read the whole buffer (R05): compare the step's time. The "
        "first write of a prefill into an empty cache copies no cached token and is not counted."
    ),
    detect=detect,
)
