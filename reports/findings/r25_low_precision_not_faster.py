"""R25: an 8-bit or 4-bit product is no faster than its 16-bit counterpart."""

from __future__ import annotations

from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import low_precision_products
from rooflens.reports.findings.kernel_numbers import bandwidth_share, flop_share
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import (
    DECODE_BANDWIDTH_LOW,
    MEMORY_BOUND_FLOP_SHARE_MAX,
    THIN_BYTES_MIN,
)
from rooflens.reports.format import percent_text, plural, time_text

NO_BYTES = "the narrow weights are read as they should; the time does not follow"


def detect(evidence: Evidence) -> Answer:
    narrow = low_precision_products(evidence)
    if not narrow:
        if evidence.rows_of("product"):
            return None
        return CannotLook("no matrix product is in the capture")
    if evidence.baseline is not None:
        return _against(evidence, evidence.baseline, narrow)
    return _alone(evidence, narrow)


def _against(evidence: Evidence, base: Evidence, narrow: list[int]) -> Answer:
    """Time of all products with narrow weights against a 16-bit baseline."""
    if low_precision_products(base):
        return CannotLook("the baseline runs narrow products as well: nothing to compare with")
    now = evidence.time_of(evidence.rows_of("product", "quantise"))
    before = base.time_of(base.rows_of("product", "quantise"))
    if not now or not before:
        return CannotLook("the products have no durations in both runs")
    if now < before:
        return None
    return Claim(
        title=f"Narrow products take {time_text(now)}; in 16 bits they took {time_text(before)}",
        kernel_ns={
            row: (0.0, evidence.time_of([row]) * (1 - before / (2 * now))) for row in narrow
        },
        no_bytes=NO_BYTES,
        confidence="high",
        confidence_reason="both runs were timed, quantising included",
        evidence=evidence.names_of(narrow),
    )


def _alone(evidence: Evidence, narrow: list[int]) -> Answer:
    """A narrow product that is far from both roofs cannot win from its narrow weights."""
    judged = 0
    slow = {}
    for row in narrow:
        kernel = evidence.kernels[row]
        memory = bandwidth_share(kernel, evidence.roof)
        if memory is None or (kernel.dram_bytes.value or 0) < THIN_BYTES_MIN.value:
            continue
        judged += 1
        compute = flop_share(kernel, evidence.roof) or 0
        if memory < DECODE_BANDWIDTH_LOW.value and compute < MEMORY_BOUND_FLOP_SHARE_MAX.value:
            slow[row] = memory
    if not judged:
        return CannotLook("the narrow products have no measured bytes with a duration")
    if not slow:
        return None
    return Claim(
        title=f"{plural(len(slow), 'narrow product')} stay far from both roofs",
        kernel_ns={
            row: (0.0, evidence.time_of([row]) * (1 - share / DECODE_BANDWIDTH_LOW.value))
            for row, share in slow.items()
        },
        no_bytes=NO_BYTES,
        confidence="low",
        confidence_reason="there is no 16-bit run to compare with (give one as baseline)",
        evidence=tuple(
            f"{evidence.kernels[row].short_name}: {percent_text(share)} of the DRAM roof"
            for row, share in list(slow.items())[:4]
        ),
    )


RULE = Rule(
    id="R25-low-precision-not-faster",
    needs=("kernels", "baseline"),
    looks_for="8-bit or 4-bit products that are no faster than 16-bit ones",
    clear="Narrow products, if any, make use of their narrow weights",
    why=(
        "Half the bytes should be half the time of a memory-bound product. A kernel that was made "
        "for large batches, or for another GPU, gives that away."
    ),
    remedy="Choose another backend for the quantised product (CUTLASS, DeepGEMM, Marlin)",
    fixed_in="per library; vllm#48035 (FP8 28 % slower), sglang#11045 (8.4 against 7.5 ms)",
    example="an FP8 step of 8.4 ms beside a bf16 step of 7.5 ms",
    thresholds=(DECODE_BANDWIDTH_LOW, THIN_BYTES_MIN),
    detect=detect,
)
