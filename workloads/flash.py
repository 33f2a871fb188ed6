"""A stand-in for FlashAttention 2 on meta, where its package cannot run.

It has the package's layout and semantics (keys are not repeated, the causal mask is aligned with
the last key) as one call without arithmetic. What is counted from it is modelled, and says so.
"""

from __future__ import annotations

from typing import Any

import torch

NAME = "rooflens_stand_in"


@torch.library.custom_op("rooflens::flash_attention_2", mutates_args=())
def flash_attention_2(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool, window: int
) -> torch.Tensor:
    """(batch, tokens, heads, size) in and out; meta only. `window` 0 is none."""
    raise NotImplementedError("the FlashAttention stand-in computes nothing; use it on meta")


@flash_attention_2.register_fake
def _shape(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool, window: int
) -> torch.Tensor:
    return query.new_empty((*query.shape[:3], value.shape[-1]))


def _forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    causal = query.shape[2] > 1 and getattr(module, "is_causal", True)
    heads_last = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    return flash_attention_2(*heads_last, causal, sliding_window or 0), None


def register_stand_in() -> str:
    """Make transformers know the stand-in; returns its name for `attn_implementation`."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _forward)
    flash_mask = ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"]
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_mask)
    return NAME
