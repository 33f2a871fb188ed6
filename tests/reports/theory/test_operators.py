"""Each operator's formula against a count by hand, in bfloat16 unless it says so."""

from __future__ import annotations

import pytest

from rooflens.reports.theory import operators as op
from rooflens.reports.theory.formats import Format, number_format
from rooflens.reports.theory.operators import OperatorTheory


def numbers(operator: OperatorTheory) -> tuple[int, int, int]:
    return operator.flops, operator.bytes_in, operator.bytes_out


def test_gemm_with_bias_and_quantised_weights(bf16: Format) -> None:
    biased = op.gemm(3, 256, 64, activation=bf16, weight=bf16, bias=True)
    assert numbers(biased) == (2 * 3 * 256 * 64, 2 * (3 * 256 + 256 * 64 + 64), 2 * 3 * 64)
    assert biased.weight_bytes == 2 * (256 * 64 + 64)
    int8 = op.gemm(3, 256, 64, activation=bf16, weight=number_format("int8"), bias=True)
    assert int8.bytes_in == 2 * 3 * 256 + 256 * 64 + 4 * 64 + 2 * 64
    assert biased.tensor


def test_one_small_matrix_per_head(bf16: Format) -> None:
    call = op.per_head_gemm(
        5, 4, 16, 32, activation=bf16, weight=bf16, name="k_proj", detail="absorbed"
    )
    assert numbers(call) == (
        2 * 5 * 4 * 16 * 32, 2 * (5 * 4 * 16 + 4 * 16 * 32), 2 * 5 * 4 * 32,
    )  # fmt: skip


def test_embedding_reads_rows_not_the_table(bf16: Format) -> None:
    assert numbers(op.embedding(7, 64, activation=bf16)) == (0, 7 * 8 + 7 * 64 * 2, 7 * 64 * 2)


def test_norms(bf16: Format) -> None:
    rms = op.norm(7, 64, activation=bf16, detail="")
    assert numbers(rms) == (4 * 7 * 64, 7 * 64 * 2 + 64 * 2, 7 * 64 * 2)
    layer = op.norm(7, 64, activation=bf16, detail="", centred=True)
    assert numbers(layer) == (7 * 7 * 64, 7 * 64 * 2 + 2 * 64 * 2, 7 * 64 * 2)


def test_rope_reads_each_position_once_and_writes_keys_into_the_cache(bf16: Format) -> None:
    call = op.rope(6, 4, 2, 16, positions=3, activation=bf16, cache=number_format("fp8"))
    elements = 6 * (4 + 2) * 16
    assert numbers(call) == (
        3 * elements, 2 * elements + 2 * 2 * 3 * 16, 2 * 6 * 4 * 16 + 6 * 2 * 16,
    )  # fmt: skip


def test_kv_write(bf16: Format) -> None:
    call = op.kv_write(6, 2, 16, activation=bf16, cache=bf16)
    assert numbers(call) == (0, 2 * 6 * 2 * 16 * 2, 2 * 6 * 2 * 16 * 2)


@pytest.mark.parametrize(
    ("call", "flops", "reads"),
    [
        (op.gated_activation, 5, 2),
        (op.plain_activation, 1, 1),
    ],
)
def test_activations(bf16: Format, call: object, flops: int, reads: int) -> None:
    assert callable(call)
    n = 7 * 64
    assert numbers(call(7, 64, activation=bf16)) == (flops * n, reads * n * 2, n * 2)


def test_residual_and_sampling(bf16: Format) -> None:
    add = op.residual(7, 64, activation=bf16, detail="")
    assert numbers(add) == (7 * 64, 2 * 7 * 64 * 2, 7 * 64 * 2)
    assert numbers(op.sampling(3, 100, activation=bf16)) == (300, 600, 24)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_ring_sends_twice_the_share_of_the_others(bf16: Format, ranks: int) -> None:
    size = 16 * 64 * 2
    reduce = op.all_reduce(16, 64, ranks, activation=bf16)
    assert reduce.link_bytes == 2 * size * (ranks - 1) // ranks
    assert (reduce.bytes_in, reduce.bytes_out) == (size, size)
    gather = op.all_gather(16, 64, ranks, activation=bf16)
    assert gather.link_bytes == size * (ranks - 1) // ranks
    assert gather.bytes == size
