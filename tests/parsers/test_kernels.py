"""Kernel names from public traces and issues: one test per real name, and the order of the rules.

tests/data/kernel_names.tsv holds the names by the row of the catalogue they were collected in;
names that a source had cut short (`...`) are tested as they stand there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.parsers.kernels import (
    MATRIX_FAMILIES,
    _rules,
    classify_name,
    mangled_identifiers,
    short_name,
)
from rooflens.vocabulary import OPERATOR_CLASSES

TABLE = Path(__file__).parent.parent / "data" / "kernel_names.tsv"


def _names() -> list[tuple[int, str, str]]:
    lines = TABLE.read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t", 2) for line in lines]
    return [(int(row), name, kind) for row, kind, name in rows]


NAMES = _names()

CLASSES = {
    "norm": "norm", "rope": "rope", "act": "activation", "kv_write": "kv_write",
    "gather": "embedding", "comm": "communication", "sampling": "sampling", "rng": "sampling",
    "sort": "sampling", "attn_prefill": "attention", "attn_decode": "attention",
    "attn_combine": "attention", "attn_prep": "attention", "cat": "layout_copy", "mask": "mask",
    "gemm": "other", "gemv": "other", "splitk": "other", "qgemm": "other", "pointwise": "other",
    "unknown": "other", "memcpy": "other", "softmax": "other",
}  # fmt: skip
"""The most that a name alone says about the operator class."""


@pytest.mark.parametrize(
    ("number", "name", "kind"), NAMES, ids=[f"{n}-{x[:40]}" for n, x, _ in NAMES]
)
def test_real_names(number: int, name: str, kind: str) -> None:
    found = classify_name(name)
    assert found.family == kind
    if kind in CLASSES:
        assert found.op_class == CLASSES[kind]


def test_every_row_of_the_catalogue_is_here() -> None:
    assert sorted({number for number, _, _ in NAMES}) == list(range(1, 144))


def test_classes_are_words_of_the_vocabulary() -> None:
    assert {rule.op_class for rule in _rules()} <= set(OPERATOR_CLASSES)
    assert MATRIX_FAMILIES - {rule.kind for rule in _rules()} == {"unknown", "attn_unfused"}


@pytest.mark.parametrize(
    ("name", "flag"),
    [("ampere_sgemm_32x128_nn", "fp32"), ("fmha_cutlassF_f32_aligned", "fp32"),
     ("cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1", "misaligned"),
     ("nvjet_tst_64x16_64x16_2x1_v_bz_splitK_TNT", "split-K"), ("rms_norm_kernel", "")],
)  # fmt: skip
def test_flags_that_a_name_gives_away(name: str, flag: str) -> None:
    assert classify_name(name).flag == flag


@pytest.mark.parametrize(
    "word", ["flashinfer", "cutlass::util::f", "vllm::thing", "triton_red_fused_7", "linear_attention",  # noqa: E501
             "triton_", "Kernel2", "kernel", "my_own_kernel", ""],
)  # fmt: skip
def test_vendor_words_and_anonymous_names_stay_unknown(word: str) -> None:
    assert classify_name(word).family == "unknown"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long)",
         "at::native::vectorized_gather_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 5>(float*)", "softmax_warp_forward"),  # noqa: E501
        ("void <unnamed>::softmax_warp_forward<float, (int)5>(T2 *)", "softmax_warp_forward"),
        ("copy_blocked[v1,cw51cXTL](Array<long long, 1, C, mutable, aligned>)", "copy_blocked"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16>(T1::Params)",
         "cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16>"),
        ("enable_if<!T7, void>::type kernel<int, cublasGemvParamsEx<int>>(T13)",
         "kernel<cublasGemvParamsEx>"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)",
         "at::native::vectorized_elementwise_kernel<FillFunctor>"),
        ("_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128EEEEvv", "flash::flash_fwd_kernel"),  # noqa: E501
        ("[CUDA memcpy DtoH]", "[CUDA memcpy DtoH]"),
        ("plain", "plain"),
        ("operator()(int)", "operator()"),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_mangled_and_demangled_names_agree() -> None:
    mangled = "_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_PKS3_S6_fiii"
    assert mangled_identifiers(mangled)[:2] == ["vllm", "rms_norm_kernel"]
    assert (
        classify_name(mangled).family
        == classify_name("vllm::rms_norm_kernel<c10::BFloat16>").family
    )


@pytest.mark.parametrize(
    ("name", "family"),
    [("topkGatingSoftmax<__nv_bfloat16,8>", "moe_route"), ("flashinfer::norm::RMSNormKernel<8u>", "norm"),  # noqa: E501
     ("flash_fwd_splitkv_combine_kernel", "attn_combine"), ("silu_mul_quant_kernel", "act"),
     ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "comm"), ("nvjet_hsh_128x8_64x12_v_bz_TNT", "gemm")],  # noqa: E501
)  # fmt: skip
def test_order_of_the_rules(name: str, family: str) -> None:
    """MoE before softmax, norms before vendor words, combine before split, collectives first."""
    assert classify_name(name).family == family


@pytest.mark.parametrize(
    "name", ["<" * 5000, "(" * 5000, "_Z" + "9" * 3000, "a<b(c" * 500, "\0\n<x>"]
)
def test_hostile_names_end_in_a_name(name: str) -> None:
    assert classify_name(name).family == "unknown"
    assert isinstance(short_name(name), str)
