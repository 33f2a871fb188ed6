"""A model as a list of operators: what one layer, and the step around the layers, call."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from msgspec.structs import replace

from rooflens.quantity import Record
from rooflens.reports.theory import operators as op
from rooflens.reports.theory.architecture import Architecture, Experts, LatentAttention, LayerKind
from rooflens.reports.theory.attention import (
    Heads,
    Span,
    fused_attention,
    keys_read,
    unfused_attention,
)
from rooflens.reports.theory.formats import Format
from rooflens.reports.theory.operators import OperatorTheory


class Plan(Record, frozen=True, kw_only=True):
    """A step's shape in the terms that operators need."""

    spans: tuple[Span, ...]
    tokens: int
    """New tokens of all sequences."""
    activation: Format
    weight: Format
    """Of the layers' projections; everything else is stored like activations."""
    cache: Format
    logits_rows: int
    ranks: int = 1
    fused: bool = True
    absorbed: bool = True
    causal: bool = True

    @property
    def positions(self) -> int:
        """Distinct rotary positions, counting equal spans once."""
        return sum({(s.query, s.context): s.query for s in self.spans}.values())


def step_operators(model: Architecture, plan: Plan) -> Iterator[tuple[OperatorTheory, int]]:
    """Every operator of a step in order, with the number of alike layers that call it."""
    tokens, activation = plan.tokens, plan.activation
    yield op.embedding(tokens, model.hidden, activation=activation), 1
    for kind in model.kinds:
        for operator in layer_operators(model, kind, plan):
            yield operator, kind.count
    yield op.norm(tokens, model.hidden, activation=activation, detail="final norm"), 1
    head = op.gemm(
        plan.logits_rows,
        model.hidden,
        model.vocab // plan.ranks,
        activation=activation,
        weight=activation_weight(activation),
        name="lm_head",
    )
    yield head, 1
    if plan.ranks > 1:
        gather = op.all_gather(plan.logits_rows, model.vocab, plan.ranks, activation=activation)
        yield gather, 1


def layer_operators(model: Architecture, kind: LayerKind, plan: Plan) -> Iterator[OperatorTheory]:
    """The operators of one layer in order."""
    tokens, hidden, activation = plan.tokens, model.hidden, plan.activation
    yield op.norm(tokens, hidden, activation=activation, detail="input_layernorm")
    if model.latent is None:
        yield from _attention_block(model, kind, plan)
    else:
        yield from _latent_block(model, model.latent, kind, plan)
    yield op.residual(tokens, hidden, activation=activation, detail="after attention")
    yield op.norm(tokens, hidden, activation=activation, detail="post_attention_layernorm")
    if kind.sparse and model.experts is not None:
        yield from _experts_block(model, model.experts, plan)
    else:
        yield from _mlp_block(model, model.intermediate, plan)
    if plan.ranks > 1:
        yield op.all_reduce(tokens, hidden, plan.ranks, activation=activation)
    yield op.residual(tokens, hidden, activation=activation, detail="after mlp")


def kv_heads_of_rank(model: Architecture, ranks: int) -> int:
    """KV heads that one rank holds; fewer heads than ranks are replicated."""
    return max(1, model.kv_heads // ranks)


def cache_bytes_per_token(model: Architecture, cache: Format, ranks: int = 1) -> int:
    """Bytes that one token occupies in the cache, all layers, on one rank."""
    if model.latent is not None:
        # One latent for all heads: every rank needs the whole of it.
        return model.layers * cache.vectors_bytes(1, model.latent.cache_width)
    heads = kv_heads_of_rank(model, ranks)
    return model.layers * cache.vectors_bytes(2 * heads, model.head_dim)


def activation_weight(activation: Format) -> Format:
    """Weights that stay unquantised: embedding, lm_head, norms, router, biases."""
    return Format(name=activation.name, bits=activation.bits)


def _attention_block(
    model: Architecture, kind: LayerKind, plan: Plan
) -> Iterator[OperatorTheory]:  # fmt: skip
    tokens, activation, width = plan.tokens, plan.activation, model.head_dim
    q_heads = model.query_heads // plan.ranks
    kv_heads = kv_heads_of_rank(model, plan.ranks)
    # Fused, v_proj and rope write into the cache; else a copy of its own does.
    written = plan.cache if plan.fused else activation_weight(activation)
    for name, heads in (("q_proj", q_heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
        projection = _projection(
            plan, tokens, model.hidden, heads * width, name, bias=model.qkv_bias
        )
        if name == "v_proj":  # its output is the cache entry
            projection = replace(projection, bytes_out=written.vectors_bytes(tokens * heads, width))
        yield projection
    if model.qk_norm:
        for detail, heads in (("q_norm", q_heads), ("k_norm", kv_heads)):
            yield op.norm(
                tokens * heads,
                width,
                activation=activation,
                detail=detail,
                shape=f"[{tokens},{heads},{width}]",
            )
    yield op.rope(
        tokens, q_heads, kv_heads, width, plan.positions, activation=activation, cache=written
    )
    if not plan.fused:
        yield op.kv_write(tokens, kv_heads, width, activation=activation, cache=plan.cache)
    heads_of_call = Heads(
        query_heads=q_heads, kv_heads=kv_heads, key_width=width, value_width=width
    )
    yield from _attention_calls(plan, heads_of_call, kind, cached=True)
    yield _projection(plan, tokens, q_heads * width, model.hidden, "o_proj", bias=model.o_bias)
    if plan.ranks > 1:
        yield op.all_reduce(tokens, model.hidden, plan.ranks, activation=activation)


def _latent_block(
    model: Architecture, latent: LatentAttention, kind: LayerKind, plan: Plan
) -> Iterator[OperatorTheory]:
    """MLA. Absorbed: queries meet the latents directly; else keys and values are decompressed."""
    tokens, activation, hidden = plan.tokens, plan.activation, model.hidden
    heads = model.query_heads // plan.ranks
    query_width = heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank is None:
        yield _projection(plan, tokens, hidden, query_width, "q_proj")
    else:
        rank = latent.query_rank
        yield _projection(plan, tokens, hidden, rank, "q_proj", detail="q_a_proj")
        yield op.norm(tokens, rank, activation=activation, detail="q_a_layernorm")
        yield _projection(plan, tokens, rank, query_width, "q_proj", detail="q_b_proj")
    yield _projection(
        plan, tokens, hidden, latent.cache_width, "k_proj", detail="kv_a_proj_with_mqa"
    )
    latent_norm = op.norm(tokens, latent.kv_rank, activation=activation, detail="kv_a_layernorm")
    # Norm and rope write the latent and the rotary key into the cache.
    yield replace(latent_norm, bytes_out=plan.cache.vectors_bytes(tokens, latent.kv_rank))
    yield op.rope(
        tokens, heads, 1, latent.rope_dim, plan.positions, activation=activation, cache=plan.cache
    )
    if plan.absorbed:
        yield from _absorbed_attention(latent, heads, kind, plan)
    else:
        yield from _decompressed_attention(latent, heads, kind, plan)
    yield _projection(plan, tokens, heads * latent.value_dim, hidden, "o_proj")
    if plan.ranks > 1:
        yield op.all_reduce(tokens, hidden, plan.ranks, activation=activation)


def _absorbed_attention(
    latent: LatentAttention, heads: int, kind: LayerKind, plan: Plan
) -> Iterator[OperatorTheory]:
    """kv_b_proj moves from the keys to the queries and outputs: its cost no longer grows with L."""
    yield op.per_head_gemm(
        plan.tokens, heads, latent.nope_dim, latent.kv_rank,
        activation=plan.activation, weight=plan.weight, name="k_proj", detail="kv_b_proj into q",
    )  # fmt: skip
    shared = Heads(
        query_heads=heads,
        kv_heads=1,
        key_width=latent.cache_width,
        value_width=latent.kv_rank,
        shared_latent=True,
    )
    yield from _attention_calls(plan, shared, kind, cached=True)
    yield op.per_head_gemm(
        plan.tokens, heads, latent.kv_rank, latent.value_dim,
        activation=plan.activation, weight=plan.weight, name="v_proj", detail="kv_b_proj out of o",
    )  # fmt: skip


def _decompressed_attention(
    latent: LatentAttention, heads: int, kind: LayerKind, plan: Plan
) -> Iterator[OperatorTheory]:
    """Every attended latent is expanded to all heads' keys and values first."""
    rows = sum(s.count * keys_read(s, kind.window) for s in plan.spans)
    width = heads * (latent.nope_dim + latent.value_dim)
    expand = _projection(plan, rows, latent.kv_rank, width, "k_proj", detail="kv_b_proj")
    stored = plan.cache.vectors_bytes(rows, latent.kv_rank)
    yield replace(expand, bytes_in=stored + expand.weight_bytes)
    own = Heads(
        query_heads=heads,
        kv_heads=heads,
        key_width=latent.nope_dim + latent.rope_dim,
        value_width=latent.value_dim,
        shared_key_width=latent.rope_dim,
    )
    yield from _attention_calls(plan, own, kind, cached=False)


def _attention_calls(
    plan: Plan, heads: Heads, kind: LayerKind, cached: bool
) -> Iterator[OperatorTheory]:
    if plan.fused:
        yield fused_attention(
            plan.spans, heads, activation=plan.activation, cache=plan.cache, causal=plan.causal,
            window=kind.window, cached=cached,
        )  # fmt: skip
    else:
        storage = plan.cache if cached else activation_weight(plan.activation)
        yield from unfused_attention(
            plan.spans, heads, activation=plan.activation, cache=storage
        )  # fmt: skip


def _mlp_block(
    model: Architecture, width: int, plan: Plan, detail: str = ""
) -> Iterator[OperatorTheory]:  # fmt: skip
    tokens, own = plan.tokens, width // plan.ranks
    bias = model.mlp_bias
    for name in ("gate_proj", "up_proj") if model.gated else ("up_proj",):
        yield _projection(plan, tokens, model.hidden, own, name, bias=bias, detail=detail)
    if model.gated:
        yield op.gated_activation(tokens, own, activation=plan.activation)
    else:
        yield op.plain_activation(tokens, own, activation=plan.activation)
    yield _projection(plan, tokens, own, model.hidden, "down_proj", bias=bias, detail=detail)


def _experts_block(
    model: Architecture, experts: Experts, plan: Plan
) -> Iterator[OperatorTheory]:  # fmt: skip
    """Router, the routed experts as grouped products, and the shared MLP if there is one."""
    tokens, hidden, activation = plan.tokens, model.hidden, plan.activation
    router = op.gemm(
        tokens, hidden, experts.count, activation=activation, weight=activation_weight(activation),
        bias=experts.correction_bias, name="router",
    )  # fmt: skip
    yield replace(router, matrix=None)
    yield from _routed_operators(hidden, experts, plan, model.gated)
    if experts.shared_intermediate:
        yield from _mlp_block(model, experts.shared_intermediate, plan, "shared")
    if experts.shared_gate:
        gate = op.gemm(
            tokens, hidden, 1, activation=activation, weight=activation_weight(activation),
            name="router", detail="shared_expert_gate",
        )  # fmt: skip
        yield replace(gate, matrix=None)


def expected_distinct_experts(count: int, active: int, tokens: float) -> float:
    """Experts that at least one of `tokens` tokens is routed to, on average.

    With even, independent routing a token misses a given expert with probability 1 - active/count,
    so count * (1 - (1 - active/count)^tokens) are hit; one token hits exactly `active`.
    """
    return count * (1.0 - float((1.0 - active / count) ** tokens))


def _routed_operators(
    hidden: int, experts: Experts, plan: Plan, gated: bool
) -> Iterator[OperatorTheory]:
    """Grouped products over the experts that are hit.

    Each token passes `active` experts, so the products have tokens*active rows; each hit expert's
    weights are read once. Inputs are read once per token, outputs are combined in the epilogue of
    the down product: with one expert this is the dense MLP.
    """
    tokens, activation = plan.tokens, plan.activation
    rows, width = tokens * experts.active, experts.intermediate // plan.ranks
    hit = Fraction(expected_distinct_experts(experts.count, experts.active, tokens))
    steps = [("gate_proj", hidden, width), ("up_proj", hidden, width)]
    for detail, k, n in steps if gated else steps[1:]:
        yield _expert_product(plan, rows, tokens, k, n, rows, hit, experts, detail)
    if gated:
        yield op.gated_activation(rows, width, activation=activation, name="experts")
    else:
        yield op.plain_activation(rows, width, activation=activation)
    yield _expert_product(plan, rows, rows, width, hidden, tokens, hit, experts, "down_proj")


def _expert_product(
    plan: Plan, rows: int, rows_in: int, k: int, n: int, rows_out: int, hit: Fraction,
    experts: Experts, detail: str,
) -> OperatorTheory:  # fmt: skip
    weight_bytes = round(hit * plan.weight.matrix_bytes(k, n))
    return OperatorTheory(
        name="experts",
        detail=detail,
        shape=f"[{rows},{k}]x[{k},{n}] in {float(hit):.4g} of {experts.count}",
        flops=2 * rows * k * n,
        bytes_in=plan.activation.plain_bytes(rows_in * k) + weight_bytes,
        bytes_out=plan.activation.plain_bytes(rows_out * n),
        tensor=True,
        weight_bytes=weight_bytes,
    )


def _projection(
    plan: Plan, m: int, k: int, n: int, name: str, *, detail: str = "", bias: bool = False
) -> OperatorTheory:
    return op.gemm(
        m, k, n, activation=plan.activation, weight=plan.weight, bias=bias, name=name,
        detail=detail,
    )  # fmt: skip
