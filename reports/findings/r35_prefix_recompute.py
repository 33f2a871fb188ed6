"""R35: a prefill computes tokens again whose keys and values are known."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.needed import work
from rooflens.reports.findings.r34_no_kv_cache import NO_THEORY, recomputed
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import VERIFY_TOKENS_MAX
from rooflens.reports.format import count_text, flops_text, ratio_text


def detect(evidence: Evidence) -> Answer:
    amount = work(evidence)
    if amount is None:
        return CannotLook(NO_THEORY)
    per_sequence = amount.rows_needed / amount.batch
    if not amount.recomputes_all_keys or per_sequence <= VERIFY_TOKENS_MAX.value:
        return None
    saved, flops = recomputed(evidence, amount)
    return Claim(
        title=(
            f"The whole prompt is computed: {count_text(amount.rows)} tokens, of which "
            f"{count_text(round(amount.rows_needed))} are new"
        ),
        saved=saved,
        saved_flops=flops,
        confidence="high",
        confidence_reason="the projections ran over every key that attention reads, though the "
        "step's theory has cached tokens",
        evidence=(
            f"projections: {ratio_text(amount.rows / amount.rows_needed)} of the needed FLOPs",
            f"{flops_text(flops)} of the step serve the known prefix",
        ),
    )


RULE = Rule(
    id="R35-prefix-recompute",
    needs=("ops",),
    looks_for="a prefill over the full prompt although its prefix is cached",
    clear="No known prefix is computed again",
    why=(
        "A system prompt or an earlier turn has its keys and values already. Computing it again "
        "costs FLOPs in proportion to the prefix."
    ),
    remedy="Enable prefix caching (vLLM: --enable-prefix-caching) or hand the earlier cache on",
    fixed_in="vLLM V1 caches prefixes by default",
    example="48 tokens computed where 32 were cached: 2.95 times the FLOPs",
    limits="The first request with a prefix must compute it. Theory must be of the same step.",
    thresholds=(VERIFY_TOKENS_MAX,),
    detect=detect,
)
