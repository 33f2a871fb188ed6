"""R05: attention reads the whole buffer of a static cache."""

from __future__ import annotations

from rooflens.reports.findings.attention import Fused
from rooflens.reports.findings.dataflow import base_name
from rooflens.reports.findings.evidence import Evidence, source_of
from rooflens.reports.findings.needed import work
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import OVER_READ_MIN
from rooflens.reports.format import bytes_text, count_text, percent_text, ratio_text


def _reads_whole_buffer(evidence: Evidence, call: Fused) -> bool:
    """True when keys are a buffer that was written in place this step and is read under a mask."""
    writer = evidence.flow.producer(call.op, call.key)
    in_place = writer is not None and base_name(writer).endswith("_")
    return call.mask is not None and (in_place or call.key.role == "cache")


def detect(evidence: Evidence) -> Answer:
    calls = [call for call in evidence.fused if _reads_whole_buffer(evidence, call)]
    if not calls:
        return None
    amount = work(evidence)
    if amount is None:
        return CannotLook(
            f"attention reads a whole buffer of {count_text(calls[0].keys)} keys under a mask; "
            "how many of them are filled cannot be seen without theory beside the counts"
        )
    ratio = amount.keys / amount.keys_needed
    if ratio < OVER_READ_MIN.value or amount.rows > amount.rows_needed * 1.001:
        return None
    spare = 1 - 1 / ratio
    saved = {}
    for call in calls:
        mask = call.mask.bytes if call.mask else 0
        saved[call.op.index] = int((call.key.bytes + call.value.bytes + mask) * spare)
    total = sum(saved.values())
    return Claim(
        title=(
            f"Attention reads a buffer of {count_text(calls[0].keys)} keys of which "
            f"{count_text(round(amount.keys_needed / amount.batch))} are filled"
        ),
        saved=saved,
        confidence="high",
        confidence_reason="the keys read are counted, the filled ones are the step's theory",
        remedy=RULE.remedy + source_of([call.op for call in calls]),
        evidence=(
            f"K and V read: {ratio_text(ratio)} of what the filled tokens need",
            f"{bytes_text(total)} of empty cache a step "
            f"({percent_text(total / evidence.step_bytes)} of the requested bytes)",
        ),
    )


RULE = Rule(
    id="R05-static-over-read",
    needs=("ops",),
    looks_for="attention over the whole buffer of a preallocated cache, the empty part masked",
    clear="Attention reads no empty part of a cache",
    why=(
        "A static cache is as long as the longest text allowed. Attention without lengths reads "
        "all of it and masks the empty part away: the bytes of max_cache_len, not of the text."
    ),
    remedy=(
        "Use a kernel that takes KV lengths (FlashAttention with kvcache, paged attention), "
        "allocate the cache in buckets, or slice K and V to the filled length"
    ),
    fixed_in="not fixed: transformers 5.24's StaticCache still hands the whole buffer to sdpa",
    example="49 tokens in a StaticCache of 256: attention reads 5.2 times the keys it needs",
    limits="A GPU kernel may skip masked blocks: counters decide. Needs theory beside counts.",
    thresholds=(OVER_READ_MIN,),
    detect=detect,
)
