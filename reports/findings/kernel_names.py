"""What kernel names give away to rules: kinds of kernels, matched on mangled and plain names.

Names are second to operators: a rule uses them only where no op was recorded, or where the kernel's
choice is the defect. The patterns follow names seen in public traces; a vendor's word alone
("flashinfer", "cutlass", "triton") is never enough.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rooflens.model import KernelRow

_KINDS: dict[str, str] = {
    "communication": r"nccl|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter_kernel|"
    r"one_shot|two_shot",
    "memcpy": r"memcpy|^memset|\[CUDA mem",
    "sampler": r"sampling::|TopKTopP|TopPSampl|TopKMask|RadixSort|radixSort|gatherTopK|ArgMaxOps|"
    r"fill_reverse_indices|distribution_elementwise|multinomial|bitonicSort",
    "moe": r"fused_moe|moe_gemm|moe_align|topkGating|moe::|moeTopK|MoeRouting",
    "lora": r"(^|_|\W)(bgmv|sgmv)|lora_(shrink|expand)",
    "quantise": r"per_token(_group)?_quant|scaled_fp8_quant|quantize_q8|dynamic_scaled_int8|"
    r"kQuantizeBlockwise|scaled_int8_quant|cvt_fp\w+_to_fp4|pack_fp32_into_ue8m0",
    "dequantise": r"dequantize_weights|kDequantizeBlockwise|dequant(ize)?_(weight|kernel|block)|"
    r"dequantize_block",
    "combine": r"splitkv_combine|FwdCombine|MergeStates|combine_results|reduce_segments|"
    r"paged_attention_v2_reduce",
    "attention": r"flash_fwd|FlashAttnFwd|FlashAttentionForward|fmha|BatchDecode|BatchPrefill|"
    r"BatchMLAPaged|SinglePrefill|SingleDecode|paged_attention|sdpa|"
    r"masked_multihead_attention|kernel_mha|unified_attention|_fwd_grouped_kernel|"
    r"_fwd_kernel_stage1|flash_attn|paged_mqa",
    "linear attention": r"gated_delta_rule|solve_tril|causal_conv1d|mamba|selective_scan",
    "product": r"gemm|gemv|nvjet|cublas|cutlass\w*_(tensorop|simt|wmma)|Marlin|mul_mat|"
    r"(^|_|\W)bmm_|matmul|LLGemm|GemmUniversal|wgrad|dgrad",
    "norm piece": r"MeanOps|rsqrt_kernel",
    "rope piece": r"neg_kernel",
    "copy": r"direct_copy_kernel|CatArrayBatchedCopy|copy_kernel|ucopy_|batch_memcpy",
}  # fmt: skip
_COMPILED = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _KINDS.items()}

_FP32_PRODUCT = re.compile(
    r"sgemm|cutlass_\d+_simt_s|s1688gemm_fp32|gemmSN|simt_sgemm|s1688gemm_f32", re.IGNORECASE
)
_MISALIGNED = re.compile(r"align1(\D|$)|wmma_tensorop|simt_(h|bf16)gemm", re.IGNORECASE)
_EFFICIENT = re.compile(r"fmha_cutlassF|PyTorchMemEffAttention", re.IGNORECASE)
_LOW_PRECISION = re.compile(
    r"e4m3|e5m2|fp8|_i8|int8|s8gemm|imma|qqtst|nvfp4|e2m1|fp4", re.IGNORECASE
)
_TO_HOST = re.compile(r"memcpy\s*(DtoH|\(?Device.*Host)", re.IGNORECASE)
_TEMPLATE = re.compile(r"<[^<>]*>|\(anonymous namespace\)|\d+")


@lru_cache(maxsize=65536)
def kind_of(name: str) -> str:
    """The kind of a kernel by its full name, or `unknown`. The order of the kinds decides."""
    for kind, pattern in _COMPILED.items():
        if pattern.search(name):
            return kind
    return "unknown"


@lru_cache(maxsize=65536)
def plain_name(name: str) -> str:
    """The name without template arguments, numbers and anonymous namespaces, for comparing."""
    before = ""
    while before != name:
        before, name = name, _TEMPLATE.sub("", name)
    return name


def rows_of(kernels: Sequence[KernelRow], *kinds: str) -> list[int]:
    """Indices of the kernel rows of these kinds."""
    return [row for row, kernel in enumerate(kernels) if kind_of(kernel.name) in kinds]


def _matching(kernels: Sequence[KernelRow], pattern: re.Pattern[str]) -> list[int]:
    return [row for row, kernel in enumerate(kernels) if pattern.search(kernel.name)]


def fp32_products(kernels: Sequence[KernelRow]) -> list[int]:
    """Products in fp32 without tensor cores."""
    return [
        row for row in _matching(kernels, _FP32_PRODUCT) if kind_of(kernels[row].name) == "product"
    ]


def misaligned_products(kernels: Sequence[KernelRow]) -> list[int]:
    """16-bit products on kernels for unaligned shapes or on the WMMA family."""
    return [
        row for row in _matching(kernels, _MISALIGNED) if kind_of(kernels[row].name) == "product"
    ]


def low_precision_products(kernels: Sequence[KernelRow]) -> list[int]:
    """Products on 8-bit or 4-bit numbers."""
    return [
        row for row in _matching(kernels, _LOW_PRECISION) if kind_of(kernels[row].name) == "product"
    ]


def efficient_attention(kernels: Sequence[KernelRow]) -> list[int]:
    """torch's memory-efficient attention."""
    return _matching(kernels, _EFFICIENT)


def small_copies_to_host(kernels: Sequence[KernelRow]) -> list[int]:
    """Copies from device to host that stand among the kernels."""
    return _matching(kernels, _TO_HOST)


def norm_fragments(kernels: Sequence[KernelRow]) -> list[int]:
    """Mean and rsqrt kernels, when both are there."""
    rows = rows_of(kernels, "norm piece")
    text = " ".join(kernels[row].name for row in rows)
    return rows if "MeanOps" in text and "rsqrt" in text else []


def rope_fragments(kernels: Sequence[KernelRow]) -> list[int]:
    """neg kernels of rotate_half."""
    return rows_of(kernels, "rope piece")


def copy_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Copies and concatenations."""
    return rows_of(kernels, "copy")


def dequantisers(kernels: Sequence[KernelRow]) -> list[int]:
    """Kernels that expand weights."""
    return rows_of(kernels, "dequantise")


def lora_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Batched adapter products."""
    return rows_of(kernels, "lora")


def sampler_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Sort, top-k, argmax and drawing."""
    return rows_of(kernels, "sampler")
