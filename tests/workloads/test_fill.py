"""Filling tensors with copies of one random block."""

from __future__ import annotations

import torch

from rooflens.workloads.fill import BLOCK_ELEMENTS, fill, random_block, random_tensor


def test_fill_covers_a_tensor_larger_than_the_block() -> None:
    block = random_block(torch.float32, 3, 0.5)
    tensor = torch.zeros(2, BLOCK_ELEMENTS + 5)
    fill(tensor, block)
    flat = tensor.view(-1)
    assert not (flat == 0).any()
    assert torch.equal(flat[:BLOCK_ELEMENTS], block)
    assert torch.equal(flat[2 * BLOCK_ELEMENTS :], block[:10])


def test_the_block_has_the_deviation_asked_for_and_no_zero() -> None:
    block = random_block(torch.bfloat16, 0, 0.02)
    assert abs(block.float().std().item() - 0.02) < 1e-3
    assert not (block == 0).any()


def test_rows_of_a_matrix_differ() -> None:
    matrix = random_tensor((1024, 2048), torch.bfloat16, "cpu", seed=1, scale=1.0)
    assert len({tuple(row.tolist()) for row in matrix[:, :8]}) == 1024


def test_meta_tensors_have_only_a_shape() -> None:
    assert random_tensor((4, 5), torch.float16, "meta", seed=1, scale=1.0).is_meta
