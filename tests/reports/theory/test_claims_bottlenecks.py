"""Claims C1 to C12 about finding bottlenecks (docs/claims.md), each with our number."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.crossover import crossover_tokens
from rooflens.reports.theory.floor import bound, floor_ns, operator_floor_ns, step_floors
from rooflens.reports.theory.formats import Format
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

Product = Callable[[int, int, int], OperatorTheory]
GIB = 2**30


def unfused_prefill(qwen: Architecture, tokens: int) -> StepTheory:
    shape = StepShape(workload="prefill", context=0, query_tokens=tokens, fused=False)
    return step_theory(qwen, shape)


def part(theory: StepTheory, detail: str) -> OperatorTheory:
    return next(o for o in theory.operators if o.detail == detail)


def test_c1_gemm_flops(product: Product) -> None:
    assert product(3, 5, 7).flops == 2 * 3 * 5 * 7


def test_c2_a_forward_has_253_matrix_products(qwen: Architecture) -> None:
    theory = unfused_prefill(qwen, 128)
    linear = sum(o.count for o in theory.operators if o.matrix is not None)
    batched = sum(o.count for o in theory.operators if o.tensor and o.matrix is None)
    assert (linear, batched, linear + batched) == (197, 56, 253)
    assert linear + batched * qwen.query_heads == 1765


def test_c3_a_128_product_is_too_small_to_explain_microseconds(
    product: Product, rtx4090: Roof
) -> None:
    small = product(128, 128, 128)
    assert floor_ns(small.flops, 0, rtx4090) == pytest.approx(25.4, abs=0.05)
    assert floor_ns(0, small.bytes, rtx4090) == pytest.approx(97.5, abs=0.05)


def test_c4_attention_from_1024_to_4096(qwen: Architecture) -> None:
    def flops(tokens: int, names: set[str]) -> int:
        theory = unfused_prefill(qwen, tokens)
        return sum(o.flops for o in theory.operators if o.tensor and o.name in names)

    core = {"attention"}
    assert flops(4096, core) == 16 * flops(1024, core)
    block = core | {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert flops(4096, block) / flops(1024, block) == pytest.approx(6.40, abs=5e-3)


def test_c5_and_c6_softmax_and_values(qwen: Architecture) -> None:
    length = 4096
    theory = unfused_prefill(qwen, length)
    softmax, values = part(theory, "softmax"), part(theory, "values")
    assert softmax.flops == 5 * 28 * length**2
    probabilities = 28 * length**2 * 2
    assert values.bytes_in - probabilities == 4 * length * 128 * 2
    assert probabilities > values.bytes_in - probabilities


def test_c7_scores_at_32k_do_not_fit(qwen: Architecture) -> None:
    scores = part(unfused_prefill(qwen, 32768), "scores").bytes_out
    assert scores == pytest.approx(60.1e9, rel=1e-3)
    assert scores > 24 * GIB


def test_c8_a_busy_gpu_can_be_memory_bound(decode: StepTheory, rtx4090: Roof) -> None:
    # Kernels back to back keep the device busy for the whole step, at 0.6 % of its peak.
    floors = step_floors(decode, rtx4090)
    assert bound(decode.tensor_flops, decode.compulsory_bytes, rtx4090) == "memory"
    assert floors.compute_ns / floors.step_ns == pytest.approx(0.0064, abs=1e-4)


def test_c9_counters_are_compared_with_bytes_per_operator(decode: StepTheory) -> None:
    # What dram__bytes_read.sum should show per kernel, and how little lies outside the products.
    products = sum(o.count * o.bytes_in for o in decode.operators if o.tensor)
    assert products / sum(o.count * o.bytes_in for o in decode.operators) > 0.999


def test_c10_the_bound_follows_from_intensity_alone(prefill: StepTheory, rtx4090: Roof) -> None:
    bounds = {o.name: bound(o.flops, o.bytes, rtx4090) for o in prefill.operators}
    assert bounds["gate_proj"] == bounds["attention"] == "compute"
    assert bounds["activation"] == bounds["residual"] == bounds["norm"] == "memory"


def test_c11_intensity_is_a_ratio_of_two_quantities(decode: StepTheory) -> None:
    for operator in decode.operators:
        assert operator.intensity * operator.bytes == pytest.approx(operator.flops)


def test_c12_the_example_contradicts_itself(
    prefill: StepTheory, product: Product, bf16: Format, rtx4090: Roof
) -> None:
    # Both percentages as shares of one roofline imply its ridge: two kernels, two ridges.
    from_gemm, from_attention = 12.3 * 78.1 / 45.2, 3.8 * 91.3 / 22.1
    assert from_gemm == pytest.approx(21.25, abs=5e-3)
    assert from_attention == pytest.approx(15.70, abs=5e-3)
    per_layer = [o for o in prefill.operators if o.matrix is not None and o.name != "lm_head"]
    smallest = min(per_layer, key=lambda o: o.intensity)
    assert smallest.name in ("k_proj", "v_proj")
    assert smallest.intensity == pytest.approx(367.6, abs=0.1)
    assert product(2048, 3584, 18944).intensity / 12.3 == pytest.approx(99, abs=0.2)
    rows = crossover_tokens(3584, 18944, 12.3, activation=bf16, weight=bf16)
    assert rows == pytest.approx(12.35, abs=5e-3)
    gate = next(o for o in prefill.operators if o.name == "gate_proj")
    assert operator_floor_ns(gate, rtx4090) / 1e6 == pytest.approx(1.683, abs=1e-3)
