"""R06 to R40: defects that only kernels, timelines or two runs can show, with real kernel names."""

from __future__ import annotations

from rooflens.model import Check, GraphRow, known
from tests.defects.case import Case, healthy, planted
from tests.defects.kernel_tables import (
    ALIGN1,
    ALL_REDUCE,
    BF16_STEP,
    FLASH,
    FP8,
    GEMV2T,
    GOOD_NEIGHBOUR,
    MEM_EFFICIENT,
    NORM,
    NVJET,
    QUANT,
    TENSOROP,
    WMMA,
    all_reduce_ops,
    attention,
    clocked,
    kernels,
    mix,
    product,
    row,
    served,
    thin,
    tiles,
    timeline,
)

CASES: tuple[Case, ...] = (
    planted("R06", "seven reads through L2 at 35 %", lambda: attention(0.35, 7.0)),
    planted("R06", "six reads through L2 at 40 %", lambda: attention(0.40, 6.0)),
    healthy("R06", "read once at 87 %", lambda: attention(0.87, 1.1)),
    healthy("R06", "many reads, but at the roof", lambda: attention(0.86, 7.0)),
    planted("R07", "28 blocks on 132 multiprocessors", lambda: attention(0.09, 1.1, 28)),
    planted("R07", "108 blocks at 0.8 %", lambda: attention(0.008, 1.1, 108)),
    healthy("R07", "28 x 8 blocks", lambda: attention(0.80, 1.1, 224)),
    healthy("R07", "264 blocks, slow for another reason", lambda: attention(0.30, 1.1, 264)),
    planted("R15", "1.0 TB/s beside a neighbour at 93 %", lambda: thin(0.30, GOOD_NEIGHBOUR)),
    planted("R15", "gemv2T on one block", lambda: thin(0.004, name=GEMV2T, grid=(1, 1, 1))),
    healthy("R15", "both at the roof", lambda: thin(0.92, GOOD_NEIGHBOUR)),
    healthy(
        "R15",
        "a small weight beside one at the roof",
        lambda: kernels(
            GOOD_NEIGHBOUR, row(NVJET, moved=3_700_000, share=0.4, flops=3_670_016, grid=(8,))
        ),
    ),
    planted("R16", "133 blocks on 132", lambda: tiles(133, 0.45)),
    planted("R16", "140 blocks on 132", lambda: tiles(140, 0.40)),
    healthy("R16", "264 blocks on 132", lambda: tiles(264, 0.55)),
    healthy("R16", "133 blocks, yet at 85 % of peak", lambda: tiles(133, 0.85)),
    planted("R17", "align1", lambda: product(ALIGN1, 0.01)),
    planted("R17", "wmma 16x16 at 15 TFLOP/s", lambda: product(WMMA, 0.015)),
    healthy("R17", "align8 tensorop", lambda: product(TENSOROP, 0.7)),
    healthy("R17", "wmma for a few rows at the DRAM roof", lambda: product(WMMA, 0.02, 0.9)),
    planted("R19", "7.27 of 53.7 ms busy", lambda: timeline(53.7, 7.27, 1185, bound="host")),
    planted("R19", "2121 launches, 70 % busy", lambda: timeline(20.0, 14.0, 2121, 6.0)),
    healthy("R19", "100 % busy", lambda: timeline(20.0, 19.9, 1400, 14.0)),
    healthy("R19", "graphs, 95 % busy", lambda: timeline(10.0, 9.5, 900, graphs=1)),
    planted("R24", "112 launches for 8 %", lambda: mix(BF16_STEP, (QUANT, 112, 5.5))),
    planted(
        "R24",
        "per-token groups, 12 %",
        lambda: mix(BF16_STEP, ("per_token_group_quant_8bit_kernel", 196, 5.0)),
    ),
    healthy("R24", "2 % of the time", lambda: mix(BF16_STEP, (QUANT, 28, 5.0))),
    healthy("R24", "no quantisation", lambda: mix(BF16_STEP, (NORM, 57, 3.0))),
    planted(
        "R25",
        "FP8 8.4 ms, bf16 7.5 ms",
        lambda: mix((FP8, 140, 55.0), (QUANT, 140, 5.0)),
        baseline=lambda: mix((NVJET, 140, 53.6)),
    ),
    planted(
        "R25",
        "FP8 as slow as bf16",
        lambda: mix((FP8, 140, 50.0)),
        baseline=lambda: mix(BF16_STEP),
    ),
    healthy(
        "R25",
        "FP8 in 60 % of the time",
        lambda: mix((FP8, 140, 30.0)),
        baseline=lambda: mix(BF16_STEP),
    ),
    healthy("R25", "bf16 only", lambda: mix(BF16_STEP), baseline=lambda: mix(BF16_STEP)),
    planted("R30", "3 collectives a layer, recorded", lambda: all_reduce_ops(3)),
    planted("R30", "3 a layer, captured", lambda: mix((ALL_REDUCE, 84, 9.0), (FLASH, 28, 20.0))),
    healthy("R30", "2 a layer, recorded", lambda: all_reduce_ops(2)),
    healthy("R30", "2 a layer, captured", lambda: mix((ALL_REDUCE, 56, 9.0), (FLASH, 28, 20.0))),
    planted(
        "R32",
        "splitkv became memory-efficient",
        lambda: mix((MEM_EFFICIENT, 28, 60.0)),
        baseline=lambda: mix((FLASH, 28, 20.0)),
    ),
    planted(
        "R32",
        "nvjet became wmma",
        lambda: mix((WMMA, 28, 60.0)),
        baseline=lambda: mix((NVJET, 28, 30.0)),
    ),
    healthy(
        "R32", "the same", lambda: mix((FLASH, 28, 20.0)), baseline=lambda: mix((FLASH, 28, 20.4))
    ),
    healthy(
        "R32",
        "another tile of nvjet",
        lambda: mix(("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 28, 30.0)),
        baseline=lambda: mix((NVJET, 28, 30.0)),
    ),
    planted(
        "R33",
        "one more copy a layer",
        lambda: mix((FLASH, 28, 20.0), ("direct_copy_kernel_cuda", 28, 4.0)),
        baseline=lambda: mix((FLASH, 28, 20.0)),
    ),
    planted(
        "R33",
        "kernels that no longer run",
        lambda: mix((FLASH, 28, 20.0)),
        baseline=lambda: mix((FLASH, 28, 20.0), ("chunk_gated_delta_rule_fwd_kernel_h", 276, 9.0)),
    ),
    healthy(
        "R33", "the same", lambda: mix((FLASH, 28, 20.0)), baseline=lambda: mix((FLASH, 28, 30.0))
    ),
    healthy(
        "R33",
        "renamed, equal in number",
        lambda: mix((MEM_EFFICIENT, 28, 20.0)),
        baseline=lambda: mix((FLASH, 28, 20.0)),
    ),
    planted("R36", "no kernel in the capture", kernels),
    planted(
        "R36",
        "graph launches without node rows",
        lambda: kernels(
            graphs=(GraphRow(id=1, launches=28, duration_ns=known(1e6, "ns", "timeline")),)
        ),
    ),
    planted(
        "R36",
        "a failed check",
        lambda: kernels(
            row(NVJET, ns=1000),
            checks=(Check(id="units", outcome="failed", message="unknown unit of dram bytes"),),
        ),
    ),
    planted(
        "R36",
        "above the hardware peak",
        lambda: kernels(row(NVJET, ns=1000, m={"dram_percent_of_roof": 180})),
    ),
    healthy("R36", "kernels below their peaks", lambda: attention(0.8, 1.1)),
    healthy(
        "R36",
        "graphs with their nodes",
        lambda: kernels(
            row(NVJET, ns=1000),
            graphs=(GraphRow(id=1, launches=1, duration_ns=known(1e6, "ns", "timeline")),),
        ),
    ),
    planted("R37", "half of the minimum moved", lambda: served(0.5)),
    planted("R37", "a tenth of the minimum moved", lambda: served(0.1)),
    healthy("R37", "all of the minimum moved", lambda: served(1.02)),
    healthy("R37", "nearly all of the minimum moved", lambda: served(0.9)),
    planted(
        "R38",
        "SM clock 1.98 to 1.41 GHz",
        lambda: clocked(1.41e9),
        baseline=lambda: clocked(1.98e9),
    ),
    planted(
        "R38",
        "memory clock lowered",
        lambda: clocked(1.98e9, 1.6e9),
        baseline=lambda: clocked(1.98e9),
    ),
    healthy("R38", "equal clocks", lambda: clocked(1.98e9), baseline=lambda: clocked(1.98e9)),
    healthy("R38", "2 % apart", lambda: clocked(1.98e9), baseline=lambda: clocked(1.94e9)),
    planted(
        "R39",
        "kernels 1 % faster, step 21 % slower",
        lambda: timeline(12.1, 9.0, 1165),
        baseline=lambda: timeline(10.0, 9.1, 1549),
    ),
    planted(
        "R39",
        "84 us of host a layer",
        lambda: timeline(43.0, 38.0, 900),
        baseline=lambda: timeline(40.0, 38.0, 900),
    ),
    healthy(
        "R39",
        "kernels slower as well",
        lambda: timeline(12.1, 11.0, 900),
        baseline=lambda: timeline(10.0, 9.0, 900),
    ),
    healthy(
        "R39",
        "the same step",
        lambda: timeline(10.1, 9.0, 900),
        baseline=lambda: timeline(10.0, 9.0, 900),
    ),
    planted(
        "R40",
        "batch above the captured sizes",
        lambda: timeline(24.0, 9.0, 1373),
        baseline=lambda: timeline(10.0, 9.0, 1373, graphs=28),
    ),
    planted(
        "R40",
        "nodes traced: 500 calls for 1375 kernels before",
        lambda: timeline(24.0, 9.0, 1375),
        baseline=lambda: timeline(10.0, 9.0, 1375, calls=500),
    ),
    planted(
        "R40",
        "one graph a step lost",
        lambda: timeline(14.0, 9.0, 900),
        baseline=lambda: timeline(10.0, 9.0, 900, graphs=1),
    ),
    healthy(
        "R40",
        "graphs in both",
        lambda: timeline(10.0, 9.0, 900, graphs=28),
        baseline=lambda: timeline(10.0, 9.0, 900, graphs=28),
    ),
    healthy(
        "R40",
        "never any graph",
        lambda: timeline(10.0, 9.0, 900),
        baseline=lambda: timeline(10.0, 9.0, 900),
    ),
    # The rules on ops, where only kernel names are left.
    planted("R10", "sgemm", lambda: mix(("ampere_sgemm_32x128_nn", 196, 120.0))),
    healthy("R10", "tensor cores", lambda: mix((TENSOROP, 196, 40.0))),
    planted(
        "R11",
        "MeanOps and rsqrt",
        lambda: mix(
            ("reduce_kernel<512,1,ReduceOp<float,MeanOps<float,float,float,float>>>", 57, 3.0),
            ("vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda>", 57, 2.0),
        ),
    ),
    healthy("R11", "one kernel a norm", lambda: mix((NORM, 57, 3.0))),
    planted(
        "R14",
        "copies for 18 % of the time",
        lambda: mix((FLASH, 28, 20.0), ("direct_copy_kernel_cuda<c10::BFloat16>", 28, 4.6)),
    ),
    healthy("R14", "kernels only", lambda: mix((FLASH, 28, 20.0))),
    planted(
        "R20", "8 bytes to the host", lambda: mix((FLASH, 28, 20.0), ("[CUDA memcpy DtoH]", 4, 1))
    ),
    planted("R22", "memory-efficient attention", lambda: mix((MEM_EFFICIENT, 28, 60.0))),
    healthy("R22", "FlashAttention", lambda: mix((FLASH, 28, 20.0))),
    planted("R23", "AWQ", lambda: mix(("vllm::awq::dequantize_weights", 196, 70.0), BF16_STEP)),
    healthy("R23", "Marlin", lambda: mix(("marlin::Marlin<(256,1,8,8,4,8)>", 196, 20.0))),
    planted("R28", "bgmv", lambda: mix(("_bgmv_shrink", 56, 5.0), BF16_STEP)),
    healthy("R28", "no adapter", lambda: mix(BF16_STEP)),
    planted(
        "R29",
        "radix sort for 12 %",
        lambda: mix(BF16_STEP, ("cub::DeviceSegmentedRadixSort::SortPairsDescending", 1, 950.0)),
    ),
    healthy("R29", "argmax for 0.1 %", lambda: mix(BF16_STEP, ("ArgMaxOps", 1, 8.0))),
)
