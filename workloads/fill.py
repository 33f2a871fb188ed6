"""Fill tensors with random, never zero values at the speed of a memory copy.

Untouched zero pages are not read from DRAM at all and a GPU runs zeros faster, so weights must not
be zero. Drawing billions of random numbers takes minutes; one block is drawn and copied on.
"""

from __future__ import annotations

import torch

BLOCK_ELEMENTS = 1_048_573
"""Prime, so that the copies of the block do not line up with the rows of a matrix."""

RUN_BLOCKS = 16
"""Copies are made in runs of so many blocks: each call that threads share has a start-up cost."""


def random_block(dtype: torch.dtype, seed: int, scale: float) -> torch.Tensor:
    """Normally distributed values of deviation `scale` without a zero, shape (BLOCK_ELEMENTS,)."""
    generator = torch.Generator().manual_seed(seed)
    block = torch.randn(BLOCK_ELEMENTS, generator=generator).mul_(scale).to(dtype)
    block[block == 0] = scale
    return block


def fill(tensor: torch.Tensor, block: torch.Tensor, offset: int = 0) -> None:
    """Overwrite a contiguous tensor with copies of the block, on any device.

    The copies start `offset` elements into the block, so that one block gives different tensors.
    """
    flat = tensor.view(-1)
    if not flat.numel():
        return  # an empty cache
    source = block.roll(-offset).to(flat.device) if offset else block.to(flat.device)
    _tile(flat[: RUN_BLOCKS * block.numel()], source)
    _tile(flat[RUN_BLOCKS * block.numel() :], flat[: RUN_BLOCKS * block.numel()])


def _tile(flat: torch.Tensor, source: torch.Tensor) -> None:
    for start in range(0, flat.numel(), source.numel()):
        part = flat[start : start + source.numel()]
        part.copy_(source[: part.numel()])
