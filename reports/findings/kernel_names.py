"""What kernel names give away to rules: kinds of kernels, matched on mangled and plain names.

Names are second to operators: a rule uses them only where no op was recorded, or where the kernel's
choice is the defect. The dictionary of names is parsers/kernel_names.toml; here are only the kinds
that rules ask for, and facts that need more than a family.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rooflens.model import KernelRow
from rooflens.parsers.kernels import UNKNOWN, classify_name

_LORA = re.compile(r"(^|_|\W)(bgmv|sgmv)|lora_(shrink|expand)")
_KINDS = {
    "comm": "communication", "memcpy": "memcpy", "sampling": "sampler", "sort": "sampler",
    "rng": "sampler", "quant": "quantise", "dequant": "dequantise", "attn_combine": "combine",
    "attn_prefill": "attention", "attn_decode": "attention", "gemm": "product", "gemv": "product",
    "qgemm": "product", "copy": "copy", "cat": "copy",
}  # fmt: skip
"""Families of the kernel dictionary -> kinds that rules ask for; other families keep their name."""

_FALLBACK = re.compile(r"wmma_tensorop|simt_(h|bf16)gemm", re.IGNORECASE)
_SAMPLES = re.compile(
    r"sort|top_?k|top_?p|min_?p|sampling::|argmax|multinomial|exponential", re.IGNORECASE
)
_NO_LAYOUT_COPY = re.compile(
    r"float16_copy|WithCast|CatArray|cast_|half_copy|float_copy|batch_memcpy", re.IGNORECASE
)
_EFFICIENT = re.compile(r"fmha_cutlassF|PyTorchMemEffAttention", re.IGNORECASE)
_NORM_PIECE = re.compile(r"MeanOps|rsqrt_kernel|pow_tensor_scalar")
_LOW_PRECISION = re.compile(
    r"e4m3|e5m2|fp8|_i8|int8|s8gemm|imma|qqtst|nvfp4|e2m1|fp4", re.IGNORECASE
)
_TO_HOST = re.compile(r"memcpy\s*(DtoH|\(?Device.*Host)", re.IGNORECASE)
_TEMPLATE = re.compile(r"<[^<>]*>|\(anonymous namespace\)|\d+")


@lru_cache(maxsize=65536)
def kind_of(name: str) -> str:
    """The kind of a kernel by its full name, or `unknown`."""
    family = classify_name(name).family
    if family == UNKNOWN and _LORA.search(name):
        return "lora"
    return _KINDS.get(family, family)


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


def _flagged(kernels: Sequence[KernelRow], flag: str) -> list[int]:
    return [
        row for row in rows_of(kernels, "product") if flag in classify_name(kernels[row].name).flag
    ]


def fp32_products(kernels: Sequence[KernelRow]) -> list[int]:
    """Products in fp32 without tensor cores."""
    return _flagged(kernels, "fp32")


def misaligned_products(kernels: Sequence[KernelRow]) -> list[int]:
    """16-bit products on kernels for unaligned shapes or on the WMMA and SIMT families."""
    rows = [row for row in rows_of(kernels, "product") if _FALLBACK.search(kernels[row].name)]
    return sorted({*rows, *_flagged(kernels, "misaligned")} - {*fp32_products(kernels)})


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
    rows = [row for row in rows_of(kernels, "norm") if _NORM_PIECE.search(kernels[row].name)]
    text = " ".join(kernels[row].name for row in rows)
    return rows if "MeanOps" in text and "rsqrt" in text else []


def rope_fragments(kernels: Sequence[KernelRow]) -> list[int]:
    """neg kernels of rotate_half."""
    return [row for row in rows_of(kernels, "rope") if "neg_kernel" in kernels[row].name]


def copy_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Copies that keep the dtype; casts and concatenations are something else."""
    return [
        row for row in rows_of(kernels, "copy") if not _NO_LAYOUT_COPY.search(kernels[row].name)
    ]


def dequantisers(kernels: Sequence[KernelRow]) -> list[int]:
    """Kernels that expand weights."""
    return rows_of(kernels, "dequantise")


def lora_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Batched adapter products."""
    return rows_of(kernels, "lora")


def sampler_kernels(kernels: Sequence[KernelRow]) -> list[int]:
    """Sort, top-k, argmax and drawing; random numbers alone fill tensors, scans serve anything."""
    return [row for row in rows_of(kernels, "sampler") if _SAMPLES.search(kernels[row].name)]
