"""Claims A1 to A21 about GEMM and attention intensity (docs/claims.md), each with our number."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.attention import Heads, Span, fused_attention, unfused_attention
from rooflens.reports.theory.crossover import (
    attention_crossover_prompt,
    attention_crossover_queries,
    crossover_tokens,
)
from rooflens.reports.theory.floor import bound, ridge, step_floor_ns
from rooflens.reports.theory.formats import Format
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.operators import OperatorTheory, gemm
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

Product = Callable[[int, int, int], OperatorTheory]
D, F, KV, V = 3584, 18944, 512, 152064
QWEN = Heads(query_heads=28, kv_heads=4, key_width=128, value_width=128)


def attention(
    bf16: Format, query: int, context: int, *, causal: bool = True, heads: Heads = QWEN
) -> OperatorTheory:
    spans = (Span(count=1, query=query, context=context),)
    return fused_attention(spans, heads, activation=bf16, cache=bf16, causal=causal)


def operator(theory: StepTheory, name: str) -> OperatorTheory:
    return next(o for o in theory.operators if o.name == name)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 3584, 512), (256, 3584, 18944), (7, 13, 17)])
def test_a1_gemm_flops_bytes_and_intensity(bf16: Format, m: int, k: int, n: int) -> None:
    plain = gemm(m, k, n, activation=bf16, weight=bf16)
    assert plain.flops == 2 * m * k * n
    assert plain.bytes == 2 * (m * k + k * n + m * n)
    assert plain.intensity == pytest.approx(1 / (1 / m + 1 / k + 1 / n), rel=1e-12)
    assert gemm(m, k, n, activation=bf16, weight=bf16, bias=True).bytes == plain.bytes + 2 * n


def test_a2_one_row_has_intensity_near_one(product: Product) -> None:
    assert product(1, D, D).intensity == pytest.approx(0.99944, abs=1e-5)
    assert product(1, D, KV).intensity == pytest.approx(0.99777, abs=1e-5)
    assert product(1, D, F).intensity == pytest.approx(0.99967, abs=1e-5)
    assert product(1, F, D).intensity == pytest.approx(0.99967, abs=1e-5)
    assert product(1, D, V).intensity == pytest.approx(0.99972, abs=1e-5)


def test_a3_decode_attention_leading_terms(bf16: Format) -> None:
    s = 2048
    call = attention(bf16, 1, s - 1)
    assert call.flops == 4 * 28 * s * 128
    query_and_output = 2 * 28 * 128 * 2
    assert call.bytes - query_and_output == 2 * 4 * s * 128 * 2


def test_a4_the_length_does_not_cancel(bf16: Format) -> None:
    def at(s: int) -> float:
        return attention(bf16, 1, s - 1).intensity

    wanted = {1: 0.875, 64: 6.310, 512: 6.906, 2048: 6.976, 32768: 6.9985}
    assert {s: at(s) for s in wanted} == {s: pytest.approx(v, rel=1e-4) for s, v in wanted.items()}
    assert at(692) < 0.99 * 7 <= at(693)


def test_a5_decode_attention_is_seven_within_a_percent(decode: StepTheory) -> None:
    assert operator(decode, "attention").intensity == pytest.approx(7, rel=0.01)


def test_a6_gqa_against_the_same_model_with_28_kv_heads(
    qwen: Architecture, decode: StepTheory, bf16: Format
) -> None:
    mha = step_theory(msgspec.structs.replace(qwen, kv_heads=28), StepShape())
    assert mha.kv_bytes_per_token == 7 * decode.kv_bytes_per_token
    far = 10**9
    many = Heads(query_heads=28, kv_heads=28, key_width=128, value_width=128)
    ratio = attention(bf16, 1, far).intensity / attention(bf16, 1, far, heads=many).intensity
    assert ratio == pytest.approx(28 / 4, rel=1e-6)


def test_a7_and_a21_ridge_of_the_4090() -> None:
    card = gpu("4090")
    assert ridge(card.roof("bfloat16")) == pytest.approx(163.89, rel=1e-3)
    assert card.sms is not None
    assert card.tensor_hz is not None
    from_clock = card.sms * 512 * card.tensor_hz.value / card.bandwidth_bytes_per_s
    assert from_clock == pytest.approx(163.84, rel=1e-3)
    fp16 = ridge(card.roof("float16", accumulate="float16"))
    assert fp16 == pytest.approx(327.7, rel=1e-3)


@pytest.mark.parametrize(
    ("at", "qo", "kv", "qkv", "mlp", "gate_up", "head"),
    [
        (163.89, 180.39, 258.43, 178.39, 173.31, 172.52, 171.94),
        (165.0, 181.73, 261.20, 179.71, 174.56, 173.76, 173.16),
    ],
)
def test_a8_crossover_tokens(
    bf16: Format, at: float, qo: float, kv: float, qkv: float, mlp: float, gate_up: float,
    head: float,
) -> None:  # fmt: skip
    shapes = {(D, D): qo, (D, KV): kv, (D, 4608): qkv, (D, F): mlp, (D, 2 * F): gate_up}
    shapes[(D, V)] = head
    for (k, n), tokens in shapes.items():
        ours = crossover_tokens(k, n, at, activation=bf16, weight=bf16)
        assert ours == pytest.approx(tokens, abs=0.01), (k, n)


def test_a9_k_and_v_have_the_limit_448(product: Product, bf16: Format) -> None:
    assert product(10**12, D, KV).intensity == pytest.approx(448, rel=1e-6)
    assert crossover_tokens(D, KV, 448.01, activation=bf16, weight=bf16) is None


def test_a10_weights_stored_and_read(qwen: Architecture, decode: StepTheory) -> None:
    assert 2 * qwen.params == 15_231_233_024
    assert 2 * qwen.params / 2**30 == pytest.approx(14.185, abs=5e-4)
    assert decode.weight_bytes_read == 14_141_238_272
    assert decode.weight_bytes_read / 2**30 == pytest.approx(13.170, abs=5e-4)


def test_a11_kv_cache_is_small_only_for_few_tokens(decode: StepTheory) -> None:
    per_token = decode.kv_bytes_per_token
    assert per_token == 57344
    assert 2**30 // per_token == 18724
    assert 2048 * per_token / 2**30 == pytest.approx(0.109, abs=5e-4)
    assert 32 * 2048 * per_token / 2**30 == 3.5
    assert round(decode.weight_bytes_read / per_token) == 246_604


def test_a12_whole_model_decode(decode: StepTheory, decode32: StepTheory) -> None:
    assert decode.intensity == pytest.approx(1.0496, rel=2e-3)
    assert decode32.intensity == pytest.approx(26.74, rel=2e-3)


def test_a13_weights_are_read_once_per_step(product: Product) -> None:
    assert {product(m, D, F).weight_bytes for m in (1, 32, 4096)} == {2 * D * F}


def test_a14_k_proj_at_256_tokens_is_at_the_ridge(product: Product, rtx4090: Roof) -> None:
    k_proj, fused = product(256, D, KV), product(256, D, 4608)
    assert k_proj.intensity == pytest.approx(162.909, abs=0.01)
    assert bound(k_proj.flops, k_proj.bytes, rtx4090) == "at the ridge"
    assert fused.intensity == pytest.approx(227.15, abs=0.01)
    assert bound(fused.flops, fused.bytes, rtx4090) == "compute"


def test_a15_mlp_at_256_tokens(product: Product, rtx4090: Roof) -> None:
    gate = product(256, D, F)
    assert gate.intensity == pytest.approx(235.96, abs=0.01)
    assert bound(gate.flops, gate.bytes, rtx4090) == "compute"


def test_a16_the_snippet_prints_1_224_7_1(product: Product, decode: StepTheory) -> None:
    values = [
        product(1, D, D).intensity,
        product(256, D, D).intensity,
        operator(decode, "attention").intensity,
        decode.intensity,
    ]
    assert [round(v, 1) for v in values] == [1.0, 224.0, 7.0, 1.0]
    assert product(256, D, D).intensity == 224.0


def test_a17_prefill_attention(bf16: Format, prefill: StepTheory) -> None:
    assert attention(bf16, 2048, 0, causal=False).intensity == pytest.approx(1792, rel=1e-9)
    assert operator(prefill, "attention").intensity == pytest.approx(0.4375 * 2049, rel=1e-9)
    s, keys = 5, 4096
    wanted = 28 * s * keys / (4 * keys + 28 * s)
    assert attention(bf16, s, keys - s, causal=False).intensity == pytest.approx(wanted, rel=1e-9)
    assert attention(bf16, s, 10**9, causal=False).intensity == pytest.approx(7 * s, rel=1e-6)


def test_a18_prefill_attention_crossover(rtx4090: Roof) -> None:
    at = ridge(rtx4090)
    assert attention_crossover_prompt(28, 4, at, causal=False) == pytest.approx(187.3, abs=0.1)
    assert attention_crossover_prompt(28, 4, at) == pytest.approx(373.6, abs=0.1)
    assert attention_crossover_queries(28, 4, at) == pytest.approx(23.4, abs=0.1)


def test_a19_unfused_scores_pass_four_times(bf16: Format) -> None:
    s = 2048
    calls = unfused_attention(
        (Span(count=1, query=s, context=0),), QWEN, activation=bf16, cache=bf16
    )
    fused = attention(bf16, s, 0)
    score_traffic = sum(c.bytes for c in calls) - fused.bytes
    assert score_traffic == 4 * 28 * s * s * 2
    matrix_flops = sum(c.flops for c in calls if c.tensor)
    assert matrix_flops / score_traffic == 64
    weakest = min(ridge(gpu(name).roof("bfloat16")) for name in ("RTX-3090", "RTX-5090", "4090"))
    assert weakest > 64


def test_a20_bandwidth_decides_single_stream_decode(decode: StepTheory, qwen: Architecture) -> None:
    h100, a4090 = gpu("h100").roof("bfloat16"), gpu("4090").roof("bfloat16")
    speedup = step_floor_ns(decode, a4090) / step_floor_ns(decode, h100)
    assert speedup == pytest.approx(h100.bandwidth_bytes_per_s / a4090.bandwidth_bytes_per_s)
    mha = step_theory(msgspec.structs.replace(qwen, kv_heads=28), StepShape())
    for theory in (decode, mha):
        assert bound(theory.tensor_flops, theory.compulsory_bytes, h100) == "memory"
