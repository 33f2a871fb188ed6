"""What kernel names give away to rules: kinds of kernels, matched on mangled and plain names.

Names are second to operators: a rule uses them only where no op was recorded, or where the kernel's
choice is the defect. The dictionary of names is parsers/kernel_names.toml; here are only the kinds
that rules ask for, and facts that need more than a family.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from rooflens.model import KernelRow
from rooflens.parsers.kernels import UNKNOWN, classify_name

if TYPE_CHECKING:
    from rooflens.reports.findings.evidence import Evidence

_LORA = re.compile(r"(^|_|\W)(bgmv|sgmv)|lora_(shrink|expand)")
_KINDS = {
    "comm": "communication", "memcpy": "memcpy", "sampling": "sampler", "sort": "sampler",
    "rng": "sampler", "quant": "quantise", "dequant": "dequantise", "attn_combine": "combine",
    "attn_prefill": "attention", "attn_decode": "attention", "gemm": "product", "gemv": "product",
    "qgemm": "product", "copy": "copy", "cat": "copy",
}  # fmt: skip
"""Families of the kernel dictionary -> kinds that rules ask for; other families keep their name."""

_FP32_PRODUCT = re.compile(r"sgemm|simt_s|s1688gemm_f(p)?32|gemm_f32f32|gemv_fp32")
_MISALIGNED = re.compile(r"align1(?!\d)|wmma_tensorop|simt_(h|bf16)gemm")
_SAMPLES = re.compile(
    r"sort|top_?k|top_?p|min_?p|sampling::|argmax|multinomial|exponential", re.IGNORECASE
)
_NO_LAYOUT_COPY = re.compile(
    r"float16_copy|WithCast|CatArray|cast_|half_copy|float_copy|batch_memcpy", re.IGNORECASE
)
_EFFICIENT = re.compile(r"fmha_cutlassF|PyTorchMemEffAttention")
_NORM_PIECE = re.compile(r"MeanOps|rsqrt_kernel|pow_tensor_scalar")
_LOW_PRECISION = re.compile(r"[eE]4[mM]3|[eE]5[mM]2|fp8|_i8|int8|s8gemm|imma|qqtst|fp4|[eE]2[mM]1")
_TO_HOST = re.compile(r"memcpy\s*(DtoH|\(?Device.*Host)", re.IGNORECASE)
_TEMPLATE = re.compile(r"<[^<>]*>|\(anonymous namespace\)|\d+")


def kind_of(kernel: KernelRow) -> str:
    """The kind of a kernel by its family (by its name where that is unknown), or `unknown`."""
    family = kernel.family
    if family == UNKNOWN:
        family = classify_name(kernel.name).family
        if family == UNKNOWN and _LORA.search(kernel.name):
            return "lora"
    return _KINDS.get(family, family)


@lru_cache(maxsize=65536)
def plain_name(name: str) -> str:
    """The name without template arguments, numbers and anonymous namespaces, for comparing."""
    before = ""
    while before != name:
        before, name = name, _TEMPLATE.sub("", name)
    return name


def _matching(evidence: Evidence, kind: str, pattern: re.Pattern[str]) -> list[int]:
    kernels = evidence.kernels
    return [row for row in evidence.rows_of(kind) if pattern.search(kernels[row].name)]


def fp32_products(evidence: Evidence) -> list[int]:
    """Products in fp32 without tensor cores (TF32 runs on them)."""
    rows = _matching(evidence, "product", _FP32_PRODUCT)
    return [row for row in rows if "tf32" not in evidence.kernels[row].name]


def misaligned_products(evidence: Evidence) -> list[int]:
    """16-bit products on kernels for unaligned shapes or on the WMMA and SIMT families."""
    rows = _matching(evidence, "product", _MISALIGNED)
    return [row for row in rows if not _FP32_PRODUCT.search(evidence.kernels[row].name)]


def low_precision_products(evidence: Evidence) -> list[int]:
    """Products on 8-bit or 4-bit numbers."""
    return _matching(evidence, "product", _LOW_PRECISION)


def efficient_attention(evidence: Evidence) -> list[int]:
    """torch's memory-efficient attention."""
    return _matching(evidence, "attention", _EFFICIENT)


def small_copies_to_host(evidence: Evidence) -> list[int]:
    """Copies from device to host that stand among the kernels."""
    return _matching(evidence, "memcpy", _TO_HOST)


def norm_fragments(evidence: Evidence) -> list[int]:
    """Mean and rsqrt kernels, when both are there."""
    rows = [
        row for row in evidence.rows_of("norm") if _NORM_PIECE.search(evidence.kernels[row].name)
    ]
    text = " ".join(evidence.kernels[row].name for row in rows)
    return rows if "MeanOps" in text and "rsqrt" in text else []


def rope_fragments(evidence: Evidence) -> list[int]:
    """neg kernels of rotate_half."""
    return [row for row in evidence.rows_of("rope") if "neg_kernel" in evidence.kernels[row].name]


def copy_kernels(evidence: Evidence) -> list[int]:
    """Copies that keep the dtype; casts and concatenations are something else."""
    return [
        row
        for row in evidence.rows_of("copy")
        if not _NO_LAYOUT_COPY.search(evidence.kernels[row].name)
    ]


def dequantisers(evidence: Evidence) -> list[int]:
    """Kernels that expand weights."""
    return evidence.rows_of("dequantise")


def lora_kernels(evidence: Evidence) -> list[int]:
    """Batched adapter products."""
    return evidence.rows_of("lora")


def sampler_kernels(evidence: Evidence) -> list[int]:
    """Sort, top-k, argmax and drawing; random numbers alone fill tensors, scans serve anything."""
    return [
        row for row in evidence.rows_of("sampler") if _SAMPLES.search(evidence.kernels[row].name)
    ]
