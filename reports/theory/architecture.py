"""The shapes of a model that theory needs, and its exact parameter count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflens.quantity import Record


class LatentAttention(Record, frozen=True, kw_only=True):
    """Multi-head latent attention (MLA) of DeepSeek-V3: keys and values live in one latent."""

    query_rank: int | None
    """Width of the query's low-rank step; None when queries come from one full matrix."""
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int

    @property
    def cache_width(self) -> int:
        """Elements cached per token and layer: the latent and the shared rotary key."""
        return self.kv_rank + self.rope_dim


class Experts(Record, frozen=True, kw_only=True):
    """A mixture-of-experts MLP: `active` of `count` routed experts per token, plus shared ones."""

    count: int
    active: int
    intermediate: int
    shared_intermediate: int = 0
    """Width of the MLP that every token passes (all shared experts together)."""
    shared_gate: bool = False
    """The shared MLP is scaled by a gate, a [hidden, 1] matrix (Qwen2-MoE)."""
    correction_bias: bool = False
    """One learned bias per expert in the router (DeepSeek-V3)."""


class LayerKind(Record, frozen=True, kw_only=True):
    """`count` layers that are alike."""

    count: int
    window: int | None = None
    """Sliding window in keys, the token's own included; None attends everything."""
    sparse: bool = False
    """The MLP is a mixture of experts."""


class Architecture(Record, frozen=True, kw_only=True):
    """A decoder-only transformer. All sizes are in elements."""

    name: str
    family: str
    dtype: str = "bfloat16"
    """The dtype the publisher stores unquantised weights in."""
    weights_dtype: str | None = None
    """Format of the layers' projections, when the configuration says that they are quantised."""
    quantised_by: str = ""
    """The quantisation method of a configuration whose format theory does not know."""
    vocab: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    """Width of the dense MLP."""
    gated: bool = True
    """SwiGLU (gate, up, down); otherwise a plain MLP (up, down)."""
    tied: bool = False
    """lm_head is the embedding table."""
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    kinds: tuple[LayerKind, ...]
    latent: LatentAttention | None = None
    experts: Experts | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any], name: str = "") -> Architecture:
        """Read a Hugging Face configuration.

        Raises InputError that names every missing or impossible field, or the unknown family.
        """
        from rooflens.reports.theory.families import read_config

        return read_config(config, name)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(kind.count for kind in self.kinds)

    @property
    def embedding_params(self) -> int:
        """Elements of the embedding table."""
        return self.vocab * self.hidden

    @property
    def attention_params(self) -> int:
        """Elements of one layer's attention: projections, biases and inner norms."""
        if self.latent is not None:
            return _latent_params(self.hidden, self.query_heads, self.latent)
        d, q_width, kv_width = self.hidden, self.q_width, self.kv_width
        count = d * q_width + 2 * d * kv_width + q_width * d
        if self.qkv_bias:
            count += q_width + 2 * kv_width
        if self.o_bias:
            count += d
        return count + (2 * self.head_dim if self.qk_norm else 0)

    @property
    def q_width(self) -> int:
        """Elements of all queries of a token."""
        return self.query_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of all keys (or all values) of a token."""
        return self.kv_heads * self.head_dim

    @property
    def params(self) -> int:
        """All parameters, each storage once: what the publisher's checkpoint holds."""
        head = 0 if self.tied else self.embedding_params
        layers = sum(kind.count * self._layer_params(kind) for kind in self.kinds)
        return self.embedding_params + head + layers + self.hidden

    @property
    def active_params(self) -> int:
        """Parameters that one token uses: `params` without the experts it is not routed to."""
        if self.experts is None:
            return self.params
        idle = self.experts.count - self.experts.active
        expert = self._mlp_params(self.experts.intermediate)
        return self.params - sum(k.count for k in self.kinds if k.sparse) * idle * expert

    def _layer_params(self, kind: LayerKind) -> int:
        norms = 2 * self.hidden
        experts = self.experts
        if not kind.sparse or experts is None:
            return self.attention_params + norms + self._mlp_params(self.intermediate)
        mlp = experts.count * self._mlp_params(experts.intermediate)
        mlp += self.hidden * experts.count
        mlp += experts.count if experts.correction_bias else 0
        if experts.shared_intermediate:
            mlp += self._mlp_params(experts.shared_intermediate)
        mlp += self.hidden if experts.shared_gate else 0
        return self.attention_params + norms + mlp

    def _mlp_params(self, width: int) -> int:
        matrices = 3 if self.gated else 2
        bias = ((matrices - 1) * width + self.hidden) if self.mlp_bias else 0
        return matrices * self.hidden * width + bias


def _latent_params(hidden: int, heads: int, latent: LatentAttention) -> int:
    query_width = heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank is None:
        query = hidden * query_width
    else:
        query = hidden * latent.query_rank + latent.query_rank + latent.query_rank * query_width
    kv = hidden * latent.cache_width + latent.kv_rank
    kv += latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    return query + kv + heads * latent.value_dim * hidden
