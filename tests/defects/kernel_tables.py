"""Tables of real kernel names, timelines and machines for the cases of kernel_cases.py."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflens.model import (
    Capture,
    GraphRow,
    KernelRow,
    Machine,
    Op,
    Roof,
    Run,
    StepTime,
    Timeline,
    known,
)
from rooflens.reports.theory.gpus import gpu
from tests import builders

H100 = gpu("h100-sxm")
ROOF: Roof = msgspec.structs.replace(H100.roof("bfloat16"), prediction=False)
BANDWIDTH = ROOF.bandwidth_bytes_per_s

FLASH = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, false>"
NVJET = "nvjet_tst_128x16_64x11_2x1_v_bz_TNT"
GEMV2T = "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4>"
TENSOROP = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8"
ALIGN1 = "cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1"
WMMA = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8"
FP8 = "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128_warpgroupsize1x1x1"
QUANT = "void vllm::scaled_fp8_quant_kernel<c10::BFloat16, __nv_fp8_e4m3>"
ALL_REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>"
MEM_EFFICIENT = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)"


def row(name: str, count: int = 28, share: float | None = None, **fields: Any) -> KernelRow:
    """A kernel row; `share` of the H100's DRAM roof sets the duration from the bytes."""
    moved = fields.pop("moved", None)
    if share is not None and moved is not None:
        fields["ns"] = moved / (BANDWIDTH * share) * 1e9
    if moved is not None:
        fields["dram_bytes"] = known(moved, "byte", "counters")
    if (ns := fields.pop("ns", None)) is not None:
        fields["duration_ns"] = known(ns, "ns", "counters")
    if (l2 := fields.pop("l2", None)) is not None:
        fields["l2_bytes"] = known(l2, "byte", "counters")
    if (flops := fields.pop("flops", None)) is not None:
        fields["flops"] = known(flops, "flop", "counters")
    metrics = {key: known(value, "1", "counters") for key, value in fields.pop("m", {}).items()}
    return builders.kernel(name, count=count, metrics=metrics, **fields)


def kernels(*rows: KernelRow, **fields: Any) -> Run:
    """A captured run on an H100."""
    fields.setdefault("machine", Machine(device="imported", gpu="H100 SXM"))
    fields.setdefault("captures", (CAPTURE,))
    return builders.run(kernels=rows, roofs=(ROOF,), **fields)


CAPTURE = Capture(file="step.ncu-rep", format="ncu-rep", tool="ncu", rows=28)


def attention(share: float, l2: float, blocks: int = 264) -> Run:
    """Decode attention that moves 67 MB a launch."""
    return kernels(
        row(FLASH, moved=67_100_000, share=share, l2=67_100_000 * l2, grid=(1, blocks, 1))
    )


def thin(share: float, *more: KernelRow, name: str = NVJET, grid: tuple[int, ...] = (148,)) -> Run:
    """A projection of one row: 135.8 MB of weights."""
    slow = row(name, moved=135_800_000, share=share, flops=135_790_592, grid=grid)
    return kernels(slow, *more)


GOOD_NEIGHBOUR = row(NVJET, moved=135_800_000, share=0.93, flops=135_790_592, grid=(148,))


def tiles(blocks: int, compute: float) -> Run:
    """A prefill product on `blocks` blocks."""
    return kernels(
        row(
            TENSOROP, ns=100_000, moved=20_000_000, grid=(blocks, 1, 1),
            m={"tensor_percent_of_roof": compute * 100, "dram_percent_of_roof": 6},
        )
    )  # fmt: skip


def product(name: str, compute: float, memory: float = 0.05) -> Run:
    return kernels(
        row(
            name, ns=200_000, grid=(64, 1, 1),
            m={"tensor_percent_of_roof": compute * 100, "dram_percent_of_roof": memory * 100},
        )
    )  # fmt: skip


def timeline(
    wall_ms: float, busy_ms: float, count: int, kernel_us: float = 5.0, bound: str = "",
    graphs: int = 0, calls: int | None = None, **fields: Any,
) -> Run:  # fmt: skip
    """A run with a timeline of one step."""
    step = StepTime(
        index=0, start_ns=0, wall_ns=wall_ms * 1e6, busy_ns=busy_ms * 1e6,
        idle_ns=(wall_ms - busy_ms) * 1e6, launches=calls or count, kernels=count,
    )  # fmt: skip
    return kernels(
        row(NORM, count=count, ns=kernel_us * 1000),
        timeline=Timeline(source="nsys", steps=(step,), representative_step=0, bound=bound),
        graphs=(GraphRow(id=1, launches=graphs, duration_ns=known(1e6, "ns", "timeline")),)
        if graphs
        else (),
        **fields,
    )


def mix(*parts: tuple[str, int, float]) -> Run:
    """Kernels as (name, launches, microseconds a launch)."""
    return kernels(*(row(name, count=count, ns=us * 1000) for name, count, us in parts))


def all_reduce_ops(per_layer: int) -> Run:
    """Recorded collectives of two layers."""
    ops: list[Op] = []
    for layer in range(2):
        for _ in range(per_layer):
            ops.append(
                builders.op(
                    len(ops), "c10d.allreduce_", layer=layer, op_class="communication",
                    inputs=(builders.tensor(layer, (1, 64)),),
                    outputs=(builders.tensor(layer, (1, 64)),),
                )
            )  # fmt: skip
    return builders.run(ops=tuple(ops))


def served(share: float) -> Run:
    """An operator whose moved bytes are `share` of its minimum."""
    return kernels(
        row(FLASH, moved=100, ns=100),
        operators=(
            builders.operator(
                "attention",
                minimum_bytes=known(134_447_104, "byte", "theory"),
                moved_bytes=known(134_447_104 * share, "byte", "counters"),
            ),
        ),
    )


def clocked(hertz: float, memory: float = 2.6e9) -> Run:
    machine = Machine(device="imported", gpu="H100 SXM", sm_clock_hz=hertz, memory_clock_hz=memory)
    return kernels(row(NVJET, ns=1000), machine=machine)


BF16_STEP = (NVJET, 140, 50.0)
