"""FLOPs: torch's own count where torch has one, hand counts elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from rooflens.harness.recorder import record
from rooflens.harness.recorder.flops import attention_pairs
from rooflens.model import Op


def flops_of(ops: tuple[Op, ...]) -> int:
    return sum(op.flops for op in ops)


@pytest.mark.parametrize("batch", [1, 3])
def test_products_agree_with_torch(batch: int) -> None:
    x = torch.zeros(batch, 5, 12)
    linear = nn.Linear(12, 7)
    conv = nn.Conv1d(12, 4, 3)

    def call() -> None:
        linear(x)
        x @ x.transpose(1, 2)
        torch.baddbmm(torch.zeros(batch, 5, 5), x, x.transpose(1, 2))
        torch.mm(x[0], x[0].t(), out=torch.zeros(5, 5))
        conv(x.transpose(1, 2))

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    ops = record(call)
    assert flops_of(ops) == counter.get_total_flops() > 0
    assert next(op for op in ops if op.name == "aten.addmm").flops == 2 * batch * 5 * 12 * 7


def test_matrix_vector_products_are_counted() -> None:
    matrix, vector = torch.zeros(5, 12), torch.zeros(12)
    ops = record(lambda: (matrix @ vector, torch.dot(vector, vector)))
    assert [op.flops for op in ops] == [2 * 5 * 12, 2 * 12]


def test_integer_products_are_counted() -> None:
    x, weight = torch.zeros(20, 16, dtype=torch.int8), torch.zeros(16, 8, dtype=torch.int8)
    assert flops_of(record(lambda: torch._int_mm(x, weight))) == 2 * 20 * 16 * 8


@pytest.mark.parametrize(
    ("queries", "keys", "options", "pairs"),
    [
        (4, 6, {"causal": False}, 24),
        (4, 4, {"causal": True}, 10),
        (4, 6, {"causal": True}, 1 + 2 + 3 + 4),
        (6, 4, {"causal": True}, 1 + 2 + 3 + 4 + 4 + 4),
        (4, 6, {"causal": True, "bottom_right": True}, 3 + 4 + 5 + 6),
        (1, 6, {"causal": True, "bottom_right": True}, 6),
        (4, 6, {"causal": True, "bottom_right": True, "window": 3}, 12),
        (4, 6, {"causal": False, "window": 3}, 12),
    ],
)
def test_attention_pairs(queries: int, keys: int, options: dict[str, bool], pairs: int) -> None:
    assert attention_pairs(queries, keys, **options) == pairs


def test_causal_prefill_of_the_reference_model() -> None:
    # 4 x 28 heads x 128 x 2048 x 2049 / 2, as the theory counts it
    assert 4 * 28 * 128 * attention_pairs(2048, 2048, True) == 30_079_451_136


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("causal", [True, False])
def test_fused_attention_counts_its_pairs(device: str, causal: bool) -> None:
    query = torch.zeros(2, 4, 10, 8, device=device)
    key = torch.zeros(2, 4, 10, 8, device=device)
    (op,) = record(lambda: F.scaled_dot_product_attention(query, key, key, is_causal=causal))
    assert op.flops == 4 * 2 * 4 * 8 * (55 if causal else 100)
    assert op.attributes["is_causal"] is causal


def test_grouped_heads_compute_with_every_query_head() -> None:
    query, key = torch.zeros(1, 8, 1, 16), torch.zeros(1, 2, 30, 16)
    (op,) = record(lambda: F.scaled_dot_product_attention(query, key, key, enable_gqa=True))
    assert op.flops == 4 * 8 * 16 * 30
    assert op.attributes["enable_gqa"] is True
    assert op.bytes_in == 4 * (8 * 16 + 2 * 30 * 16)


def test_a_mask_makes_the_call_compute_every_pair() -> None:
    query = torch.zeros(1, 2, 6, 8)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    (op,) = record(lambda: F.scaled_dot_product_attention(query, query, query, attn_mask=mask))[-1:]
    assert op.name == "aten.scaled_dot_product_attention"
    assert op.flops == 4 * 2 * 8 * 36


@torch.library.custom_op("rooflenstest::int4_linear", mutates_args=())
def _int4_linear(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    return x.new_zeros((*x.shape[:-1], packed.shape[0]))


@torch.library.custom_op("rooflenstest::fused_rms_norm", mutates_args=("out",))
def _fused_rms_norm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> None:
    out.copy_(x)


def test_custom_products_are_counted_by_shape_and_say_so() -> None:
    x, packed = torch.zeros(3, 16), torch.zeros(5, 8, dtype=torch.uint8)
    (op,) = record(lambda: torch.ops.rooflenstest.int4_linear(x, packed))
    assert op.name == "rooflenstest.int4_linear"
    assert op.flops == 2 * 3 * 16 * 5
    assert op.attributes["modelled"] is True
    assert op.bytes_in == 3 * 16 * 4 + 5 * 8


@torch.library.custom_op("rooflenstest::scaled_mm_out", mutates_args=("out",))
def _scaled_mm_out(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    out.zero_()


@torch.library.custom_op("rooflenstest::my_attention", mutates_args=())
def _my_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return torch.empty_like(q)


def test_custom_products_into_a_given_output() -> None:
    out, a, b = torch.zeros(3, 5), torch.zeros(3, 16), torch.zeros(16, 5)
    (op,) = record(lambda: torch.ops.rooflenstest.scaled_mm_out(out, a, b))
    assert op.flops == 2 * 3 * 16 * 5


def test_custom_attention_is_modelled_from_its_shapes_or_says_that_it_is_not() -> None:
    q, k = torch.zeros(1, 4, 3, 16), torch.zeros(1, 2, 9, 16)
    packed = torch.zeros(7, 4, 16)
    attend = torch.ops.rooflenstest.my_attention
    dense, causal, unknown = record(
        lambda: (
            attend(q, k, k, False),
            attend(q, k, k, True),
            attend(packed, packed, packed, True),
        )
    )
    assert dense.flops == 4 * 4 * 16 * 27
    assert causal.flops == 4 * 4 * 16 * (7 + 8 + 9)
    assert dense.attributes["modelled"] is True
    assert unknown.flops == 0
    assert unknown.attributes["flops_unknown"] is True


def test_custom_fused_norm_is_one_op_that_only_writes_its_output() -> None:
    out, x, weight = torch.zeros(3, 16), torch.ones(3, 16), torch.ones(16)
    (op,) = record(lambda: torch.ops.rooflenstest.fused_rms_norm(out, x, weight))
    assert (op.bytes_in, op.bytes_out) == (3 * 16 * 4 + 16 * 4, 3 * 16 * 4)
    assert (op.flops, op.elementwise_flops) == (0, 4 * 3 * 16)


def test_elementwise_arithmetic_by_hand() -> None:
    x = torch.zeros(3, 16)
    ops = record(lambda: (F.silu(x), x + x, x.mean(-1), F.softmax(x, -1), x.to(torch.bfloat16)))
    assert [op.elementwise_flops for op in ops] == [4 * 48, 48, 48, 5 * 48, 0]


def test_integer_arithmetic_is_no_flop() -> None:
    x = torch.arange(8)
    assert record(lambda: x + 1)[0].elementwise_flops == 0
