"""Claims B1 to B23 about a forward pass (docs/claims.md), each with our number.

"the document" is the source that makes the claim; its formula is written out where it differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.attention import (
    Heads,
    Span,
    fused_attention,
    pairs,
    tiled_pairs,
    unfused_attention,
)
from rooflens.reports.theory.floor import step_floor_ns
from rooflens.reports.theory.formats import Format
from rooflens.reports.theory.operators import (
    OperatorTheory,
    gated_activation,
    norm,
    plain_activation,
    residual,
)
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

Product = Callable[[int, int, int], OperatorTheory]
D, F, S, DH, H = 3584, 18944, 2048, 128, 28


def unfused(bf16: Format, query: int, kv_heads: int = H) -> tuple[OperatorTheory, ...]:
    heads = Heads(query_heads=H, kv_heads=kv_heads, key_width=DH, value_width=DH)
    spans = (Span(count=1, query=query, context=S - query),)
    return unfused_attention(spans, heads, activation=bf16, cache=bf16)


def named(theory: StepTheory, name: str) -> OperatorTheory:
    return next(o for o in theory.operators if o.name == name)


def test_b1_scores_are_scaled_by_the_head_width(qwen: Architecture) -> None:
    assert math.sqrt(qwen.hidden / qwen.head_dim) == pytest.approx(math.sqrt(28))
    assert math.sqrt(28) == pytest.approx(5.29, abs=5e-3)


def test_b2_attention_ends_with_o_proj(prefill: StepTheory) -> None:
    names = [o.name for o in prefill.operators]
    assert names.index("o_proj") == names.index("attention") + 1
    assert named(prefill, "o_proj").matrix == (D, D)


def test_b3_and_b11_the_mlp_has_three_matrices_and_none_is_square(prefill: StepTheory) -> None:
    mlp = [o for o in prefill.operators if o.name in ("gate_proj", "up_proj", "down_proj")]
    assert [o.matrix for o in mlp] == [(D, F), (D, F), (F, D)]


def test_b4_qkv_projection(product: Product) -> None:
    assert product(S, D, D).intensity == pytest.approx(955.73, abs=0.01)
    assert product(S, D, D).intensity == pytest.approx(D / (2 + D / S), rel=1e-12)
    assert product(S, D, 512).intensity == pytest.approx(367.59, abs=0.01)


def test_b5_the_first_fraction_forgets_the_bytes_of_an_element(bf16: Format) -> None:
    scores = unfused(bf16, S)[0]
    elements = S * D + S * D + H * S * S
    assert scores.flops / elements == 2.0 * scores.intensity


def test_b6_and_b8_scores_and_values(bf16: Format) -> None:
    scores, _, values = unfused(bf16, S)
    assert scores.intensity == pytest.approx(S * DH / (2 * DH + S), rel=1e-12)
    assert scores.intensity == pytest.approx(113.78, abs=0.01)
    assert values.intensity == scores.intensity
    assert unfused(bf16, S, kv_heads=4)[0].intensity == pytest.approx(119.47, abs=0.01)


def test_b7_softmax(bf16: Format) -> None:
    softmax = unfused(bf16, S)[1]
    # The document subtracts the first maximum and sum: 5S - 2 operations per row instead of 5S.
    per_row = (5 * S - 2) / (2 * (S + S))
    assert per_row == pytest.approx(1.25 - 1 / (2 * S), rel=1e-12)
    assert softmax.intensity == pytest.approx(1.25, rel=1e-12)


def test_b9_and_b10_both_mlp_products(product: Product) -> None:
    up, down = product(S, D, F), product(S, F, D)
    assert up.intensity == pytest.approx(F / (1 + F / D + F / S), rel=1e-12)
    assert up.intensity == pytest.approx(1219.4, abs=0.05)
    assert down.intensity == pytest.approx(up.intensity, rel=1e-12)
    document = F / (5 + F / S)
    assert document == pytest.approx(1329.4, abs=0.05)
    four_times = product(S, D, 4 * D).intensity
    assert four_times == pytest.approx(4 * D / (5 + 4 * D / S), rel=1e-12)


def test_b12_and_b14_decode_scores_and_values(bf16: Format) -> None:
    scores, _, values = unfused(bf16, 1)
    assert scores.intensity == pytest.approx(DH / (1 + DH + DH / S), rel=1e-12)
    assert scores.intensity == pytest.approx(0.99177, abs=1e-5)
    assert values.intensity == scores.intensity
    document = scores.flops / (2 * (D + S * D + H * S * S))
    assert document == pytest.approx(0.0588, abs=1e-4)
    assert scores.intensity / document == pytest.approx(16.9, abs=0.05)


def test_b13_decode_softmax(bf16: Format) -> None:
    softmax = unfused(bf16, 1)[1]
    assert softmax.flops == 5 * H * S  # the document has S times that, and S times the bytes
    assert softmax.intensity == pytest.approx(1.25, rel=1e-12)


def test_b15_decode_projections_are_products_of_batch_rows(
    decode32: StepTheory, product: Product
) -> None:
    down = named(decode32, "down_proj")
    assert down.intensity == pytest.approx(product(32, F, D).intensity, rel=1e-12)


def test_b16_decode_attention_is_twice_the_documents(decode: StepTheory) -> None:
    ours = named(decode, "attention").intensity
    document = H / (2 * (4 + H / S))
    assert ours == pytest.approx(6.976, abs=5e-4)
    assert ours / document == pytest.approx(2.0, rel=1e-12)


def test_b17_the_long_context_limit_is_the_head_ratio(qwen: Architecture) -> None:
    far = step_theory(qwen, StepShape(context=10**9))
    assert named(far, "attention").intensity == pytest.approx(28 / 4, rel=1e-6)


def test_b18_the_cache_is_a_small_share_of_a_short_decode(decode: StepTheory) -> None:
    cache = 2048 * decode.kv_bytes_per_token
    assert cache / decode.compulsory_bytes == pytest.approx(0.0082, abs=5e-5)
    assert round(decode.weight_bytes_read / decode.kv_bytes_per_token) == 246_604


def test_b19_batching_raises_throughput_not_speed(
    decode: StepTheory, decode32: StepTheory, rtx4090: Roof
) -> None:
    one, many = step_floor_ns(decode, rtx4090), step_floor_ns(decode32, rtx4090)
    assert many > one
    assert 32 / many > 1 / one
    at_1, at_32 = named(decode, "attention"), named(decode32, "attention")
    assert at_1.intensity == pytest.approx(at_32.intensity, rel=1e-12)


@pytest.mark.parametrize("drafted", [1, 4, 7])
def test_b20_speculation_adds_queries(qwen: Architecture, drafted: int) -> None:
    q = drafted + 1
    shape = StepShape(workload="verify", batch=2, context=10**9, query_tokens=q, logits="all")
    theory = step_theory(qwen, shape)
    assert named(theory, "attention").intensity == pytest.approx(7 * q, rel=1e-6)
    assert named(theory, "q_proj").shape == f"[{2 * q},3584]x[3584,3584]"


def test_b21_fusion_keeps_the_flops_and_drops_the_scores(bf16: Format) -> None:
    heads = Heads(query_heads=H, kv_heads=4, key_width=DH, value_width=DH)
    spans = (Span(count=1, query=S, context=0),)
    full = fused_attention(spans, heads, activation=bf16, cache=bf16, causal=False)
    causal = fused_attention(spans, heads, activation=bf16, cache=bf16)
    parts = unfused(bf16, S, kv_heads=4)
    assert sum(p.flops for p in parts if p.tensor) == full.flops
    assert unfused(bf16, S)[0].intensity == pytest.approx(113.8, abs=0.05)
    assert full.intensity == pytest.approx(1792, rel=1e-9)
    assert causal.intensity == pytest.approx(896.4, abs=0.05)


def test_b22_causal_pairs() -> None:
    span = Span(count=1, query=S, context=0)
    assert pairs(span) == S * (S + 1) // 2
    assert pairs(span, causal=False) == S * S
    assert tiled_pairs(span, 128) / S**2 == pytest.approx(0.531, abs=5e-4)
    assert tiled_pairs(span, 1) == pairs(span)


def test_b23_elementwise_operators(bf16: Format) -> None:
    assert plain_activation(S, F, activation=bf16).intensity == 0.25
    assert gated_activation(S, F, activation=bf16).intensity == pytest.approx(5 / 6, rel=1e-12)
    assert norm(S, D, activation=bf16, detail="").intensity == pytest.approx(1.0, abs=1e-3)
    add = residual(S, D, activation=bf16, detail="")
    assert add.intensity == pytest.approx(1 / 6, rel=1e-12)


def test_gqa_with_as_many_kv_heads_as_queries_is_mha(qwen: Architecture, bf16: Format) -> None:
    mha = step_theory(msgspec.structs.replace(qwen, kv_heads=28), StepShape())
    ours = named(mha, "attention").intensity
    assert ours == pytest.approx(S / (S + 1), rel=1e-12)
