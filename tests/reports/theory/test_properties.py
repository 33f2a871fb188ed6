"""What must hold for every model and every step, tried on generated ones."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.reports.theory.architecture import Architecture, Experts, LayerKind
from rooflens.reports.theory.attention import Heads, Span, fused_attention, pairs, unfused_attention
from rooflens.reports.theory.formats import activation_format
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

BF16 = activation_format("bfloat16")
sizes = st.integers(1, 64)
TOKENS = st.integers(0, 10**9)


@st.composite
def models(draw: st.DrawFn, kv_heads: int | None = None) -> Architecture:
    """A dense decoder with sizes that four ranks divide."""
    groups, kv = draw(st.integers(1, 8)), 4 * draw(st.integers(1, 4))
    kv = kv_heads or kv
    window = draw(st.one_of(st.none(), st.integers(1, 5000)))
    return Architecture(
        name="generated",
        family="llama",
        vocab=4 * draw(sizes),
        hidden=8 * draw(sizes),
        query_heads=kv * groups,
        kv_heads=kv,
        head_dim=8 * draw(st.integers(1, 16)),
        intermediate=4 * draw(sizes),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        kinds=(LayerKind(count=draw(st.integers(1, 80)), window=window),),
    )


@st.composite
def shapes(draw: st.DrawFn) -> StepShape:
    return StepShape(
        workload=draw(st.sampled_from(["decode", "prefill", "verify"])),
        batch=draw(st.integers(1, 512)),
        context=draw(TOKENS),
        query_tokens=draw(st.one_of(st.just(1), st.integers(1, 10**5))),
        logits=draw(st.sampled_from(["last", "all"])),
        kv_dtype=draw(st.sampled_from([None, "fp8", "int8"])),
        weights_dtype=draw(st.sampled_from([None, "fp8", "int8", "int4"])),
    )


@given(models(), shapes())
def test_totals_are_sums_and_nothing_is_negative(model: Architecture, shape: StepShape) -> None:
    theory = step_theory(model, shape)
    ops = theory.operators
    assert theory.flops == sum(o.count * o.flops for o in ops)
    assert theory.tensor_flops == sum(o.count * o.flops for o in ops if o.tensor)
    assert theory.ideal_op_bytes == sum(o.count * (o.bytes_in + o.bytes_out) for o in ops)
    assert all(min(o.flops, o.bytes_in, o.bytes_out, o.count) >= 0 for o in ops)
    assert 0 < theory.compulsory_bytes <= theory.ideal_op_bytes
    assert math.isfinite(theory.intensity)
    assert theory.tensor_flops <= theory.flops


@given(models(), shapes(), st.integers(2, 9))
def test_batch_scales_activations_not_weights(
    model: Architecture, shape: StepShape, factor: int
) -> None:
    one = step_theory(model, shape)
    many = step_theory(model, msgspec.structs.replace(shape, batch=shape.batch * factor))
    assert many.weight_bytes_read == one.weight_bytes_read
    assert many.flops == factor * one.flops
    # Rotary tables are read once for equal positions, like weights.
    fixed = one.weight_bytes_read + model.layers * 2 * 2 * shape.query_tokens * model.head_dim
    assert many.ideal_op_bytes - fixed == factor * (one.ideal_op_bytes - fixed)


@given(models(), shapes())
def test_gqa_with_all_kv_heads_is_mha(model: Architecture, shape: StepShape) -> None:
    gqa = step_theory(model, shape)
    mha = step_theory(msgspec.structs.replace(model, kv_heads=model.query_heads), shape)
    assert attention(mha).flops == attention(gqa).flops
    assert attention(mha).bytes >= attention(gqa).bytes
    if model.kv_heads == model.query_heads:
        assert mha == gqa
    heads = model.query_heads
    if shape.kv_dtype is None and shape.query_tokens == 1 and model.kinds[0].window is None:
        keys = shape.context + 1
        wanted = shape.batch * heads * model.head_dim * (2 + 2 * keys) * 2
        assert attention(mha).bytes == wanted


def attention(theory: StepTheory) -> OperatorTheory:
    return next(o for o in theory.operators if o.name == "attention")


@given(
    st.integers(1, 64), st.integers(1, 4000), TOKENS, st.integers(1, 8), st.integers(1, 8),
    st.one_of(st.none(), st.integers(1, 10**6)),
)  # fmt: skip
def test_fused_and_causal_never_cost_more(
    count: int, query: int, context: int, kv: int, groups: int, window: int | None
) -> None:
    spans = (Span(count=count, query=query, context=context),)
    heads = Heads(query_heads=kv * groups, kv_heads=kv, key_width=64, value_width=64)
    full = fused_attention(spans, heads, activation=BF16, cache=BF16, causal=False)
    causal = fused_attention(spans, heads, activation=BF16, cache=BF16)
    windowed = fused_attention(spans, heads, activation=BF16, cache=BF16, window=window)
    unfused = unfused_attention(spans, heads, activation=BF16, cache=BF16)
    assert windowed.flops <= causal.flops <= full.flops
    assert windowed.bytes <= causal.bytes == full.bytes
    assert full.flops == sum(o.flops for o in unfused if o.tensor)
    assert full.bytes < sum(o.bytes for o in unfused)


@given(st.integers(1, 60), st.integers(0, 60), st.one_of(st.none(), st.integers(1, 70)))
def test_pairs_equal_a_count_one_by_one(query: int, context: int, window: int | None) -> None:
    attended = [
        [k for k in range(context + i + 1) if window is None or k > context + i - window]
        for i in range(query)
    ]
    span = Span(count=1, query=query, context=context)
    assert pairs(span, window=window) == sum(len(keys) for keys in attended)
    from rooflens.reports.theory.attention import keys_read, past_keys_read

    union = {k for keys in attended for k in keys}
    assert keys_read(span, window) == len(union)
    assert past_keys_read(span, window) == len([k for k in union if k < context])


@given(models(), shapes(), st.sampled_from([2, 4]))
def test_shards_sum_to_the_whole(model: Architecture, shape: StepShape, ranks: int) -> None:
    shape = msgspec.structs.replace(shape, weights_dtype=None)
    whole = step_theory(model, shape)
    shard = step_theory(model, msgspec.structs.replace(shape, tp=ranks))
    assert ranks * shard.tensor_flops == whole.tensor_flops
    assert ranks * shard.kv_bytes_per_token == whole.kv_bytes_per_token
    sharded = {o.name for o in whole.operators if o.tensor}

    def weights(theory: StepTheory) -> int:
        return sum(o.count * o.weight_bytes for o in theory.operators if o.name in sharded)

    assert ranks * weights(shard) == weights(whole)
    assert shard.link_bytes > 0
    assert whole.link_bytes == 0


@given(models(), shapes(), st.integers(2, 5))
def test_layer_intensity_does_not_depend_on_the_number_of_layers(
    model: Architecture, shape: StepShape, factor: int
) -> None:
    kind = model.kinds[0]
    deeper = msgspec.structs.replace(
        model, kinds=(msgspec.structs.replace(kind, count=kind.count * factor),)
    )
    few, many = step_theory(model, shape), step_theory(deeper, shape)
    outside = {"embedding", "lm_head"}

    def layers(theory: StepTheory) -> tuple[int, int]:
        inner = [o for o in theory.operators if o.name not in outside and o.detail != "final norm"]
        return sum(o.count * o.flops for o in inner), sum(o.count * o.bytes for o in inner)

    flops, moved = layers(few)
    assert layers(many) == (factor * flops, factor * moved)


@given(shapes())
def test_one_expert_is_a_dense_mlp(shape: StepShape) -> None:
    dense = Architecture(
        name="dense", family="llama", vocab=64, hidden=32, query_heads=4, kv_heads=2, head_dim=8,
        intermediate=48, kinds=(LayerKind(count=2),),
    )  # fmt: skip
    experts = Experts(count=1, active=1, intermediate=48)
    sparse = msgspec.structs.replace(
        dense, experts=experts, kinds=(LayerKind(count=2, sparse=True),)
    )
    a, b = step_theory(dense, shape), step_theory(sparse, shape)

    def mlp(theory: StepTheory) -> list[tuple[int, int, int]]:
        names = {"gate_proj", "up_proj", "activation", "down_proj", "experts"}
        return [(o.flops, o.bytes_in, o.bytes_out) for o in theory.operators if o.name in names]

    assert mlp(a) == mlp(b)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**6)), min_size=1, max_size=20),
    models(),
)
@settings(max_examples=30)
def test_unequal_sequences_sum_up(sequences: list[tuple[int, int]], model: Architecture) -> None:
    queries, contexts = zip(*sequences, strict=True)
    mixed = step_theory(model, StepShape(contexts=contexts, queries=queries))
    alone = [step_theory(model, StepShape(context=c, query_tokens=q)) for q, c in sequences]
    assert attention(mixed).flops == sum(attention(a).flops for a in alone)
    assert attention(mixed).bytes == sum(attention(a).bytes for a in alone)
    same_weights = alone[0].weight_bytes_read
    assert mixed.compulsory_bytes - same_weights == sum(
        a.compulsory_bytes - same_weights for a in alone
    )
