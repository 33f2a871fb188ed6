"""Filling tensors with copies of one random block."""

from __future__ import annotations

import torch

from rooflens.workloads.fill import BLOCK_ELEMENTS, fill, random_block


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
    matrix = torch.empty(1024, 2048, dtype=torch.bfloat16)
    fill(matrix, random_block(torch.bfloat16, 1, 1.0))
    assert len({tuple(row.tolist()) for row in matrix[:, :8]}) == 1024


def test_an_offset_gives_another_tensor_from_the_same_block() -> None:
    block = random_block(torch.float32, 0, 1.0)
    plain, shifted = torch.empty(8), torch.empty(8)
    fill(plain, block)
    fill(shifted, block, offset=3)
    assert torch.equal(shifted, block[3:11])
    assert torch.equal(plain, block[:8])
