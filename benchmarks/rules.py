"""How long do all rules take on a run of 100,000 kernel rows? Limit: 2 s.

    python benchmarks/rules.py [rows]

Every row has a name of its own (template numbers differ), as in the worst capture. Prints seconds
for all rules, for the five slowest, and the ratio to reading the run's names once, which no rule
engine can avoid.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rooflens.model import (
    SCHEMA_VERSION,
    Capture,
    Join,
    KernelRow,
    Machine,
    Model,
    Roof,
    Run,
    StepTime,
    Timeline,
    Totals,
    Workload,
    absent,
    known,
)
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.engine import answer_of, find, find_differences
from rooflens.reports.findings.evidence import Evidence

LIMIT_S = 2.0
NAMES = (
    "nvjet_tst_{}x16_64x11_2x1_v_bz_TNT",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, {}>>",
    "void at::native::vectorized_elementwise_kernel<{}, at::native::rsqrt_kernel_cuda>",
    "void vllm::rms_norm_kernel<c10::BFloat16, {}>",
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_{}x1_tn_align8",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL_{}",
    "triton_poi_fused_mul_silu_{}",
    "void cub::DeviceSegmentedRadixSortKernel<{}>",
)
FAMILIES = ("gemm", "attn_decode", "norm", "norm", "gemm", "comm", "act", "sort")
"""As the import writes them: names are classified there, once."""
NOT_MEASURED = absent("not measured in this benchmark")


def kernel(index: int) -> KernelRow:
    """A row with counters, a grid and metrics."""
    return KernelRow(
        name=NAMES[index % len(NAMES)].format(index),
        short_name=f"kernel {index}",
        family=FAMILIES[index % len(NAMES)],
        op_class="other",
        count=1 + index % 3,
        grid=(1 + index % 300, 1, 1),
        duration_ns=known(3000 + index % 997, "ns", "counters"),
        dram_bytes=known(1_000_000 + index, "byte", "counters"),
        l2_bytes=known(2_000_000 + index, "byte", "counters"),
        flops=known(5_000_000, "flop", "counters"),
        intensity=NOT_MEASURED,
        metrics={"dram_throughput_percent": known(index % 100, "1", "counters")},
        join=Join(method="none", confidence="low"),
    )


def run(rows: int) -> Run:
    """A captured run of `rows` kernel rows with a timeline."""
    step = StepTime(
        index=0, start_ns=0, wall_ns=8e8, busy_ns=4e8, idle_ns=4e8, launches=rows, kernels=rows
    )
    roof = Roof(
        name="H100 SXM", kind="data sheet", peak_flops_per_s=9.9e14, bandwidth_bytes_per_s=3.35e12,
        dtype="bfloat16", source="benchmark", l2_bytes=50_000_000,
    )  # fmt: skip
    return Run(
        schema_version=SCHEMA_VERSION,
        created_at="2026-01-02T03:04:05Z",
        command=(),
        evidence=("timeline", "counters"),
        machine=Machine(device="imported", gpu="H100 SXM"),
        tools={},
        workload=Workload(name="imported"),
        model=Model(name=""),
        roofs=(roof,),
        totals=Totals(**dict.fromkeys(Totals.__struct_fields__, NOT_MEASURED)),
        step_times_ns=(),
        operators=(),
        ops=(),
        kernels=tuple(kernel(index) for index in range(rows)),
        graphs=(),
        timeline=Timeline(source="nsys", steps=(step,), representative_step=0),
        findings=(),
        checks=(),
        captures=(Capture(file="step.ncu-rep", format="ncu-rep", tool="ncu", rows=rows),),
    )


def seconds(call: object) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - started


def main() -> int:
    """Print the times; 1 when the limit is broken."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    head, base = run(rows), run(rows)
    names = seconds(lambda: sum(len(row.name) for row in head.kernels))
    first = seconds(lambda: find(head))
    again = min(seconds(lambda: find(head)) for _ in range(3))
    differences = seconds(lambda: find_differences(base, head))
    print(f"{rows:,} kernel rows, {len(RULES)} rules")
    print(f"all rules, names never seen   {first:8.3f} s   (limit {LIMIT_S} s)")
    print(f"all rules, names known        {again:8.3f} s   {again / names:,.0f} x reading names")
    print(f"rules with a baseline         {differences:8.3f} s")
    evidence = Evidence.of(head)
    slowest = sorted(
        ((seconds(lambda rule=rule: answer_of(rule, evidence)), rule.id) for rule in RULES),
        reverse=True,
    )
    for spent, name in slowest[:5]:
        print(f"    {name:<30} {spent:8.3f} s")
    return int(first > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
