"""Crossover tokens: the published table for every GPU, and the cases without one."""

from __future__ import annotations

import pytest

from rooflens.architectures import load_config
from rooflens.reports.theory.architecture import Architecture, Experts
from rooflens.reports.theory.crossover import (
    attention_crossover_prompt,
    attention_crossover_queries,
    crossover_tokens,
    expert_crossover_tokens,
    step_crossovers,
)
from rooflens.reports.theory.floor import printed_ridge
from rooflens.reports.theory.formats import Format, activation_format, number_format
from rooflens.reports.theory.gpus import gpu, gpu_names
from rooflens.reports.theory.operators import gemm
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

# GPU: ridge, then M* of q/o, k/v, qkv fused, gate/up/down, gate_up fused, lm_head (Qwen2.5-7B)
TABLE = {
    "V100-SXM2": (138.89, 150.6, 201.3, 149.2, 145.6, 145.0, 144.6),
    "T4": (203.12, 229.1, 371.6, 225.9, 217.8, 216.6, 215.6),
    "A10": (208.33, 235.7, 389.4, 232.3, 223.8, 222.5, 221.5),
    "A100-40GB-PCIe": (200.64, 225.9, 363.4, 222.8, 214.9, 213.7, 212.8),
    "A100-40GB-SXM": (200.64, 225.9, 363.4, 222.8, 214.9, 213.7, 212.8),
    "A100-80GB-PCIe": (161.24, 177.2, 251.9, 175.3, 170.4, 169.6, 169.0),
    "A100-80GB-SXM": (153.02, 167.3, 232.4, 165.6, 161.2, 160.5, 160.0),
    "A30": (176.85, 196.2, 292.2, 193.9, 187.9, 186.9, 186.3),
    "L4": (403.33, 520.5, 4045.0, 504.2, 465.6, 460.0, 455.8),
    "L40S": (419.04, 546.9, 6482.4, 529.0, 486.7, 480.5, 476.0),
    "RTX-3090": (75.85, 79.2, 91.3, 78.8, 77.8, 77.6, 77.5),
    "RTX-4090": (163.89, 180.4, 258.4, 178.4, 173.3, 172.5, 171.9),
    "RTX-5090": (116.91, 125.1, 158.2, 124.1, 121.6, 121.2, 120.9),
    "RTX-6000-Ada": (379.38, 481.3, 2476.9, 467.3, 434.0, 429.1, 425.5),
    "H100-PCIe": (370.77, 467.5, 2150.8, 454.3, 422.8, 418.1, 414.7),
    "H100-SXM": (295.17, 353.4, 865.3, 345.8, 327.2, 324.4, 322.3),
    "H100-NVL": (212.16, 240.7, 403.0, 237.1, 228.2, 226.9, 225.8),
    "H200-SXM": (206.12, 232.9, 381.8, 229.6, 221.3, 220.0, 219.0),
    "GH200-96GB": (246.09, 285.3, 546.0, 280.3, 268.0, 266.1, 264.7),
    "B200-HGX": (292.21, 349.1, 840.3, 341.7, 323.6, 320.8, 318.8),
    "GB200": (312.50, 378.5, 1033.2, 369.8, 348.7, 345.5, 343.1),
    "RTX-PRO-6000-Blackwell-WS": (281.14, 333.5, 754.8, 326.7, 310.1, 307.5, 305.7),
    "MI300X": (245.52, 284.5, 543.2, 279.6, 267.3, 265.4, 264.0),
}


def test_the_table_covers_every_gpu() -> None:
    assert sorted(TABLE) == sorted(gpu_names())


@pytest.mark.parametrize("name", TABLE)
def test_crossover_of_every_projection(decode: StepTheory, name: str) -> None:
    dtype = "float16" if name in ("V100-SXM2", "T4") else "bfloat16"  # these two have no bfloat16
    plain = activation_format(dtype)
    at = printed_ridge(gpu(name).roof(dtype))
    tokens = step_crossovers(decode, at, activation=plain, weight=plain)
    wanted_ridge, q, kv, qkv, mlp, gate_up, head = TABLE[name]
    assert at == pytest.approx(wanted_ridge, abs=1e-9)
    expected = {
        "q_proj": q, "o_proj": q, "k_proj": kv, "v_proj": kv, "qkv_proj": qkv,
        "gate_proj": mlp, "up_proj": mlp, "down_proj": mlp, "gate_up_proj": gate_up,
        "lm_head": head,
    }  # fmt: skip
    assert tokens == {n: pytest.approx(v, abs=0.051) for n, v in expected.items()}


def test_the_product_is_at_the_ridge_at_its_crossover(bf16: Format) -> None:
    tokens = crossover_tokens(3584, 18944, 163.0, activation=bf16, weight=bf16)
    assert tokens is not None
    below = gemm(int(tokens), 3584, 18944, activation=bf16, weight=bf16).intensity
    above = gemm(int(tokens) + 1, 3584, 18944, activation=bf16, weight=bf16).intensity
    assert below < 163.0 < above


def test_smaller_weights_cross_earlier(bf16: Format) -> None:
    plain = crossover_tokens(3584, 18944, 163.9, activation=bf16, weight=bf16)
    int4 = crossover_tokens(3584, 18944, 163.9, activation=bf16, weight=number_format("int4"))
    assert plain is not None
    assert int4 == pytest.approx(plain * (0.5 + 2 / 128) / 2, rel=1e-12)


def test_a_ridge_above_the_limit_is_never_reached(bf16: Format) -> None:
    assert crossover_tokens(3584, 512, 448.0, activation=bf16, weight=bf16) is None
    assert crossover_tokens(3584, 512, 447.9, activation=bf16, weight=bf16) is not None


def test_attention_crossovers() -> None:
    at = 165.2e12 / 1008e9
    assert attention_crossover_prompt(28, 4, at, causal=False) == pytest.approx(187.3, abs=0.1)
    assert attention_crossover_prompt(28, 4, at) == pytest.approx(373.6, abs=0.1)
    assert attention_crossover_queries(28, 4, at) == pytest.approx(23.41, abs=0.01)
    assert attention_crossover_queries(28, 4, at, keys=163) is None
    s = attention_crossover_queries(28, 4, at, keys=2048)
    assert s is not None
    assert 28 * s * 2048 / (4 * 2048 + 28 * s) == pytest.approx(at)


def test_routed_experts_cross_far_later_than_a_dense_product(bf16: Format) -> None:
    experts = Experts(count=128, active=8, intermediate=768)
    tokens = expert_crossover_tokens(experts, 2048, 768, 206.12, activation=bf16, weight=bf16)
    assert tokens is not None
    theory = step_theory(
        Architecture.from_config(load_config("qwen3-30b-a3b")),
        StepShape(batch=round(tokens), context=0),
    )
    up = next(o for o in theory.operators if o.detail == "up_proj")
    assert up.intensity == pytest.approx(206.12, rel=1e-3)
    one = Experts(count=1, active=1, intermediate=768)
    dense = expert_crossover_tokens(one, 2048, 768, 206.12, activation=bf16, weight=bf16)
    assert dense == pytest.approx(
        crossover_tokens(2048, 768, 206.12, activation=bf16, weight=bf16), rel=1e-5
    )
    assert dense is not None
    assert tokens > 10 * dense
    assert expert_crossover_tokens(one, 2048, 768, 600, activation=bf16, weight=bf16) is None
