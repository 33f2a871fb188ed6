"""R15: a thin product (few rows) does not reach the DRAM roof."""

from __future__ import annotations

from rooflens.model import KernelRow
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.kernel_names import fp32_products
from rooflens.reports.findings.kernel_numbers import bandwidth_share, blocks, flop_share
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from rooflens.reports.findings.thresholds import (
    MEMORY_BOUND_FLOP_SHARE_MAX,
    THIN_BANDWIDTH_GOOD,
    THIN_BANDWIDTH_LOW,
    THIN_BYTES_MIN,
    THIN_INTENSITY_MAX,
)
from rooflens.reports.format import bytes_text, percent_text, plural


def is_thin(kernel: KernelRow, evidence: Evidence) -> bool:
    """Few rows: by name for gemv, else by FLOPs per byte; unknown products are not thin."""
    if "gemv" in kernel.name.lower():
        return True
    if kernel.flops.value is None or not kernel.dram_bytes.value:
        return False
    if (flop_share(kernel, evidence.roof) or 0) > MEMORY_BOUND_FLOP_SHARE_MAX.value:
        return False
    return kernel.flops.value / kernel.dram_bytes.value <= THIN_INTENSITY_MAX.value


def detect(evidence: Evidence) -> Answer:
    # A naive fp32 kernel re-reads its tiles: few FLOPs per byte do not make it thin (R10 has it).
    rows = sorted({*evidence.rows_of("product")} - {*fp32_products(evidence)})
    shares = {
        row: share
        for row in rows
        if is_thin(evidence.kernels[row], evidence)
        and (share := bandwidth_share(evidence.kernels[row], evidence.roof)) is not None
    }
    if not shares:
        return CannotLook("no product with few rows has measured bytes and a duration")
    large = {
        row: share
        for row, share in shares.items()
        if (evidence.kernels[row].dram_bytes.value or 0) >= THIN_BYTES_MIN.value
        or blocks(evidence.kernels[row]) == 1
    }
    slow = {row: share for row, share in large.items() if share < THIN_BANDWIDTH_LOW.value}
    if not slow:
        return None
    good = sum(share >= THIN_BANDWIDTH_GOOD.value for share in shares.values())
    lost: dict[int, tuple[float, float]] = {}
    lines = []
    for row, share in sorted(slow.items(), key=lambda item: -evidence.time_of([item[0]])):
        kernel = evidence.kernels[row]
        time = evidence.time_of([row])
        lost[row] = (
            time * (1 - share / THIN_BANDWIDTH_LOW.value),
            time * (1 - share / THIN_BANDWIDTH_GOOD.value),
        )
        single = " on a single block" if blocks(kernel) == 1 else ""
        lines.append(
            f"{kernel.short_name}{single}: {bytes_text(kernel.dram_bytes.value or 0)} at "
            f"{percent_text(share)} of the DRAM roof"
        )
    return Claim(
        title=(
            f"{plural(len(slow), 'thin product')} below "
            f"{percent_text(THIN_BANDWIDTH_LOW.value)} of the DRAM roof"
        ),
        kernel_ns=lost,
        no_bytes="the weights must be read; they are read too slowly",
        confidence="high" if good else "medium",
        confidence_reason=(
            f"{plural(good, 'other thin product')} of the same capture reach "
            f"{percent_text(THIN_BANDWIDTH_GOOD.value)}"
            if good
            else "no product of this capture shows that the roof can be reached here"
        ),
        evidence=tuple(lines[:5]),
    )


RULE = Rule(
    id="R15-thin-gemm-low-bw",
    needs=("kernels",),
    looks_for="products with few rows that stay below the DRAM roof",
    clear="Products with few rows reach the DRAM roof",
    why=(
        "A projection of a few tokens only streams its weight. A kernel made for many rows, or one "
        "with too few blocks, does not keep the memory busy: in decode that is the step's time."
    ),
    remedy=(
        "Use a GEMV or skinny kernel, split K, or merge the projections (R18); a gemv2T kernel on "
        "one block is pytorch#114911: pad or reshape the batched product"
    ),
    fixed_in="per library; kekzl/imp#1955: 365 to 314 µs with a kernel for few rows",
    example="3584×18944 read at 1.0 TB/s beside a neighbour at 4.1 TB/s",
    limits="A small weight or one that stays in L2 has no DRAM rate; low clocks lower all of them.",
    thresholds=(THIN_BANDWIDTH_LOW, THIN_BANDWIDTH_GOOD, THIN_BYTES_MIN, THIN_INTENSITY_MAX),
    detect=detect,
)
