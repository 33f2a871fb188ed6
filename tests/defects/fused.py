"""A healthy decode: hand-written, fused, with a preallocated cache that is written in place.

Norm (with the residual add), rotary embedding and activation are custom operators, qkv and gate_up
are merged, attention is one grouped call over the filled part of the cache.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from rooflens.model import Op
from tests.defects.steps import recorded


@torch.library.custom_op("healthy::add_rms_norm", mutates_args=())
def add_rms_norm(
    hidden: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Residual add and norm in one call."""
    total = hidden + residual
    wide = total.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale).to(hidden.dtype) * weight, total


@add_rms_norm.register_fake
def _(
    hidden: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(hidden), torch.empty_like(hidden)


@torch.library.custom_op("healthy::rms_norm", mutates_args=())
def rms_norm(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The first norm, without a residual."""
    wide = hidden.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale).to(hidden.dtype) * weight


@rms_norm.register_fake
def _(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(hidden)


@torch.library.custom_op("healthy::rotary_embedding", mutates_args=())
def rotary_embedding(
    query: torch.Tensor, key: torch.Tensor, table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both rotations in one call; `table` holds cos and sin of the position."""

    def turn(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * table[0] + torch.cat((-second, first), -1) * table[1]

    return turn(query), turn(key)


@rotary_embedding.register_fake
def _(
    query: torch.Tensor, key: torch.Tensor, table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key)


@torch.library.custom_op("healthy::silu_and_mul", mutates_args=())
def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Activation and product in one call."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


@silu_and_mul.register_fake
def _(gate_up: torch.Tensor) -> torch.Tensor:
    return gate_up.new_empty((*gate_up.shape[:-1], gate_up.shape[-1] // 2))


class FusedLayer(nn.Module):
    """One decoder layer in five products and five fused calls."""

    def __init__(self, hidden: int, ffn: int, heads: int, kv_heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        self.input_layernorm = nn.Parameter(torch.ones(hidden))
        self.qkv_proj = nn.Linear(hidden, (heads + 2 * kv_heads) * size)
        self.o_proj = nn.Linear(heads * size, hidden, bias=False)
        self.post_attention_layernorm = nn.Parameter(torch.ones(hidden))
        self.gate_up_proj = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down_proj = nn.Linear(ffn, hidden, bias=False)

    def forward(
        self,
        hidden: torch.Tensor,
        residual: torch.Tensor | None,
        table: torch.Tensor,
        cache: torch.Tensor,
        position: int,
        write: str,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch = hidden.shape[0]
        if residual is None:
            normed, residual = rms_norm(hidden, self.input_layernorm), hidden
        else:
            normed, residual = add_rms_norm(hidden, residual, self.input_layernorm)
        q, k, v = self.qkv_proj(normed).split(
            [self.heads * self.size, self.kv_heads * self.size, self.kv_heads * self.size], -1
        )
        q = q.view(batch, self.heads, 1, self.size)
        k, v = (x.view(batch, self.kv_heads, 1, self.size) for x in (k, v))
        q, k = rotary_embedding(q, k, table)
        for side, new in enumerate((k, v)):
            if write == "slice":
                cache[side][:, :, position : position + 1] = new
            else:
                index = torch.full((1,), position, device=new.device)
                cache[side].index_copy_(2, index, new)
        keys, values = cache[0][:, :, : position + 1], cache[1][:, :, : position + 1]
        out = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        hidden = self.o_proj(out.transpose(1, 2).reshape(batch, 1, -1))
        normed, residual = add_rms_norm(hidden, residual, self.post_attention_layernorm)
        return self.down_proj(silu_and_mul(self.gate_up_proj(normed))), residual


class FusedModel(nn.Module):
    """Embedding, layers, last norm and head."""

    def __init__(
        self, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, size: int, words: int
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(words, hidden)
        self.layers = nn.ModuleList(
            FusedLayer(hidden, ffn, heads, kv_heads, size) for _ in range(layers)
        )
        self.norm = nn.Parameter(torch.ones(hidden))
        self.lm_head = nn.Linear(hidden, words, bias=False)

    def forward(
        self,
        tokens: torch.Tensor,
        table: torch.Tensor,
        cache: list[torch.Tensor],
        position: int,
        write: str,
    ) -> torch.Tensor:
        hidden, residual = self.embed_tokens(tokens), None
        for layer, held in zip(self.layers, cache, strict=True):
            hidden, residual = layer(hidden, residual, table, held, position, write)
        last, _ = add_rms_norm(hidden, residual, self.norm)
        logits: torch.Tensor = self.lm_head(last)
        return logits


def fused_decode(
    *,
    layers: int,
    hidden: int,
    ffn: int,
    heads: int,
    kv_heads: int,
    size: int,
    words: int,
    position: int,
    room: int,
    device: str = "cpu",
    batch: int = 1,
    write: Literal["slice", "index_copy"] = "slice",
) -> tuple[Op, ...]:
    """Ops of one decode step on `position` cached tokens, in a cache with room for `room`."""
    with torch.device(device):
        model = FusedModel(layers, hidden, ffn, heads, kv_heads, size, words).to(torch.bfloat16)
        cache = [
            torch.zeros(2, batch, kv_heads, room, size, dtype=torch.bfloat16) for _ in range(layers)
        ]
        table = torch.ones(2, size, dtype=torch.bfloat16)
        tokens = torch.zeros((batch, 1), dtype=torch.long)
    return recorded(lambda: model(tokens, table, cache, position, write), model.eval(), cache)
