"""R34: a decode step computes the whole context again."""

from __future__ import annotations

from math import prod

from rooflens.model import Op
from rooflens.reports.findings.attention import is_fused
from rooflens.reports.findings.dataflow import BATCHED_MATMULS, base_name
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.needed import Work, work
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import VERIFY_TOKENS_MAX
from rooflens.reports.format import count_text, flops_text, ratio_text

NO_THEORY = (
    "there is no theory beside the counts (or no attention was recognised), so how many tokens "
    "had to be computed is unknown"
)


def recomputed(evidence: Evidence, amount: Work) -> tuple[dict[int, int], int]:
    """Bytes by op and FLOPs of the tokens that did not have to be computed.

    Weights are read anyhow; so are the keys and values that the needed tokens attend to.
    """
    spare = 1 - amount.rows_needed / amount.rows
    spare_keys = max(0.0, 1 - amount.keys_needed / amount.keys)
    saved: dict[int, int] = {}
    flops = 0
    for op in evidence.ops:
        if not _works_on_tokens(op, amount):
            continue
        keys = {tensor.id for tensor in op.inputs[1:3]} if is_fused(op) else set()
        inputs = {t.id: t.bytes for t in op.inputs if t.role != "weight"}
        of_keys = sum(size for id, size in inputs.items() if id in keys)
        of_tokens = sum(inputs.values()) - of_keys + op.bytes_out
        saved[op.index] = int(of_tokens * spare + of_keys * spare_keys)
        flops += int(op.flops * spare)
    return saved, flops


def _works_on_tokens(op: Op, amount: Work) -> bool:
    """True when the op's output has an entry for each computed token (or for each key)."""
    if not op.outputs:
        return False
    if is_fused(op) or base_name(op) in BATCHED_MATMULS:
        return True
    leading = op.outputs[0].shape[:-1]
    queries, keys = amount.rows // amount.batch, amount.keys // amount.batch
    per_sequence = bool(leading) and leading[0] == amount.batch
    return prod(leading) == amount.rows or (
        per_sequence and (queries in leading[1:] or keys in leading[1:])
    )


def detect(evidence: Evidence) -> Answer:
    amount = work(evidence)
    if amount is None:
        return CannotLook(NO_THEORY)
    per_sequence = amount.rows_needed / amount.batch
    if not amount.recomputes_all_keys or per_sequence > VERIFY_TOKENS_MAX.value:
        return None
    saved, flops = recomputed(evidence, amount)
    return Claim(
        title=(
            f"No KV cache in use: {count_text(amount.rows)} tokens are computed for "
            f"{count_text(round(amount.rows_needed))} new"
        ),
        saved=saved,
        saved_flops=flops,
        confidence="high",
        confidence_reason="the projections ran over every key that attention reads; no cached "
        "key came into the step",
        evidence=(
            f"projections: {count_text(amount.rows)} rows, "
            f"{count_text(round(amount.rows_needed))} needed "
            f"({ratio_text(amount.rows / amount.rows_needed)})",
            f"{flops_text(flops)} of the step serve tokens that were computed before",
        ),
    )


RULE = Rule(
    id="R34-no-kv-cache",
    needs=("ops",),
    looks_for="a decode step that computes keys and values of the whole context again",
    clear="Cached keys and values are used (or all tokens of the step are new)",
    why=(
        "Without a KV cache each new token pays for the whole sequence: every product has as many "
        "rows as there are tokens, and the cost of a text grows with the square of its length."
    ),
    remedy="Pass use_cache=True and hand the returned cache to the next step (generate() does)",
    fixed_in="no version: use_cache is off in training configs and with gradient checkpointing",
    example="one token after 48, use_cache=False: 49 times the FLOPs of the projections",
    limits="The first step of a text has no cache to use; theory must be of the same step.",
    thresholds=(VERIFY_TOKENS_MAX,),
    detect=detect,
)
