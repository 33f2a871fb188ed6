"""Steps beyond the reference tables: MLA, experts, windows, chunks, ranks, mixed batches."""

from __future__ import annotations

import msgspec
import pytest

from rooflens.architectures import load_config, names
from rooflens.errors import UsageError
from rooflens.reports.theory.architecture import Architecture, LayerKind
from rooflens.reports.theory.layers import expected_distinct_experts
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from rooflens.vocabulary import OPERATOR_CLASSES


@pytest.fixture(scope="module")
def deepseek() -> Architecture:
    return Architecture.from_config(load_config("deepseek-v3"), "deepseek-v3")


@pytest.fixture(scope="module")
def sparse() -> Architecture:
    return Architecture.from_config(load_config("qwen3-30b-a3b"), "qwen3-30b-a3b")


def named(theory: StepTheory, name: str, detail: str = "") -> OperatorTheory:
    return next(o for o in theory.operators if o.name == name and detail in o.detail)


@pytest.mark.parametrize("model", ["qwen2.5-7b", "qwen3-30b-a3b", "deepseek-v3"])
@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("fused", [True, False])
def test_names_are_operator_classes(model: str, tp: int, fused: bool) -> None:
    architecture = Architecture.from_config(load_config(model))
    theory = step_theory(architecture, StepShape(tp=tp, fused=fused, sampling=True))
    assert {o.name for o in theory.operators} <= set(OPERATOR_CLASSES)


def test_absorbed_mla_reads_the_latents(deepseek: Architecture) -> None:
    theory = step_theory(deepseek, StepShape(context=10**7))
    call = named(theory, "attention")
    keys = 10**7 + 1
    assert call.flops == 2 * 128 * (576 + 512) * keys
    assert call.bytes_in == 128 * 576 * 2 + keys * 576 * 2
    assert call.intensity == pytest.approx(241.8, abs=0.05)


def test_mla_not_absorbed_expands_every_latent(deepseek: Architecture) -> None:
    shape = StepShape(workload="prefill", context=0, query_tokens=512)
    theory = step_theory(deepseek, shape)
    expand = named(theory, "k_proj", "kv_b_proj")
    assert expand.matrix == (512, 128 * 256)
    assert expand.flops == 2 * 512 * 512 * 128 * 256
    call = named(theory, "attention")
    assert call.flops == 2 * 128 * (192 + 128) * (512 * 513 // 2)
    assert call.bytes_in == (512 * 128 * 192 + 512 * (128 * 256 + 64)) * 2
    forced = step_theory(deepseek, msgspec.structs.replace(shape, absorbed=True))
    assert forced.weight_bytes_read == theory.weight_bytes_read
    assert forced.compulsory_bytes == theory.compulsory_bytes
    assert forced.flops > theory.flops


def test_latents_are_on_every_rank(deepseek: Architecture) -> None:
    assert step_theory(deepseek, StepShape(tp=8)).kv_bytes_per_token == 70_272


@pytest.mark.parametrize(("tokens", "hit"), [(1, 8.0), (2, 15.5), (10**6, 128.0)])
def test_distinct_experts(sparse: Architecture, tokens: int, hit: float) -> None:
    assert expected_distinct_experts(128, 8, tokens) == pytest.approx(hit)
    theory = step_theory(sparse, StepShape(batch=tokens, context=0))
    gate = named(theory, "experts", "gate_proj")
    assert gate.weight_bytes == round(hit * 2048 * 768 * 2)
    assert gate.flops == 2 * tokens * 8 * 2048 * 768


def test_a_shared_expert_is_an_mlp_for_every_token(deepseek: Architecture) -> None:
    theory = step_theory(deepseek, StepShape(batch=4))
    shared = named(theory, "gate_proj", "shared")
    assert (shared.count, shared.matrix) == (58, (7168, 2048))
    dense = next(o for o in theory.operators if o.name == "gate_proj" and not o.detail)
    assert (dense.count, dense.matrix) == (3, (7168, 18432))


def test_a_window_caps_keys_and_bytes(qwen: Architecture) -> None:
    windowed = msgspec.structs.replace(qwen, kinds=(LayerKind(count=28, window=1024),))
    theory = step_theory(windowed, StepShape(context=8191))
    short = step_theory(qwen, StepShape(context=1023))
    assert named(theory, "attention").flops == named(short, "attention").flops
    assert theory.compulsory_bytes == short.compulsory_bytes
    inside = step_theory(windowed, StepShape(context=512))
    assert inside.compulsory_bytes == step_theory(qwen, StepShape(context=512)).compulsory_bytes


def test_chunks_of_a_prefill_sum_to_the_whole(qwen: Architecture) -> None:
    chunks = [
        step_theory(qwen, StepShape(workload="prefill", context=c, query_tokens=512))
        for c in range(0, 2048, 512)
    ]
    whole = step_theory(qwen, StepShape(workload="prefill", context=0, query_tokens=2048))
    attention = "attention"
    assert sum(named(c, attention).flops for c in chunks) == named(whole, attention).flops
    assert sum(named(c, "gate_proj").flops for c in chunks) == named(whole, "gate_proj").flops
    # Each chunk reads the weights, and the keys of those before it.
    extra = sum(c.compulsory_bytes for c in chunks) - whole.compulsory_bytes
    past = (512 + 1024 + 1536) * 57344
    logits = 3 * 152064 * 2
    assert extra == 3 * 14_141_238_272 + past + logits


def test_ranks_share_the_work_and_talk(qwen: Architecture, decode: StepTheory) -> None:
    rank = step_theory(qwen, StepShape(tp=4))
    reduce = named(rank, "communication", "all-reduce")
    assert reduce.count == 2 * 28
    assert reduce.link_bytes == 2 * 3 * 3584 * 2 // 4
    gather = named(rank, "communication", "all-gather")
    assert gather.link_bytes == 152064 // 4 * 2 * 3
    assert rank.link_bytes == 56 * reduce.link_bytes + gather.link_bytes
    assert named(rank, "q_proj").matrix == (3584, 896)
    assert named(rank, "o_proj").matrix == (896, 3584)
    assert named(rank, "lm_head").matrix == (3584, 38016)
    assert 4 * rank.tensor_flops == decode.tensor_flops


def test_more_ranks_than_kv_heads_replicate_them() -> None:
    model = Architecture.from_config(load_config("qwen2.5-72b"))
    rank = step_theory(model, StepShape(tp=16))
    assert named(rank, "k_proj").matrix == (8192, 128)
    assert rank.kv_bytes_per_token == 80 * 2 * 128 * 2


@pytest.mark.parametrize(
    ("model", "tp", "words"),
    [
        ("qwen2.5-7b", 3, "--tp 3 does not divide the 28 attention heads"),
        ("qwen2.5-7b", 7, "--tp 7 does not divide the 4 key/value heads"),
        ("qwen2.5-7b", 28, "--tp 28 does not divide the vocabulary 152064"),
        ("qwen3-30b-a3b", 32, None),
        ("qwen2.5-14b", 5, "--tp 5 does not divide the 8 key/value heads"),
        ("deepseek-v3", 3, "--tp 3 does not divide the 128 attention heads"),
    ],
)
def test_tp_that_does_not_divide(model: str, tp: int, words: str | None) -> None:
    architecture = Architecture.from_config(load_config(model))
    if words is None:
        assert step_theory(architecture, StepShape(tp=tp)).tensor_flops > 0
        return
    with pytest.raises(UsageError, match=words):
        step_theory(architecture, StepShape(tp=tp))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (StepShape(batch=0), "--batch must be 1 or more"),
        (StepShape(context=-1), "--context must be 0 or more"),
        (StepShape(query_tokens=0), "--query-tokens must be 1 or more"),
        (StepShape(logits="some"), '--logits must be "last" or "all"'),
        (StepShape(contexts=(1, 2), queries=(1,)), "--contexts names 2 sequences, --queries 1"),
        (StepShape(weights_dtype="int5"), '--weights-dtype: unknown number format "int5"'),
        (StepShape(kv_dtype="int5"), '--kv-dtype: unknown number format "int5"'),
    ],
)
def test_impossible_shapes(qwen: Architecture, shape: StepShape, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        step_theory(qwen, shape)


def test_sampling_is_extra(qwen: Architecture, decode: StepTheory) -> None:
    sampled = step_theory(qwen, StepShape(sampling=True))
    assert sampled.operators[:-1] == decode.operators
    last = sampled.operators[-1]
    assert (last.name, last.bytes_in, last.bytes_out) == ("sampling", 152064 * 2, 8)


def test_a_verify_step_keeps_all_logits(qwen: Architecture) -> None:
    shape = StepShape(workload="verify", query_tokens=5)
    assert named(step_theory(qwen, shape), "lm_head").shape == "[5,3584]x[3584,152064]"
    everything = msgspec.structs.replace(shape, logits="all")
    assert step_theory(qwen, shape).operators == step_theory(qwen, everything).operators


def test_unfused_attention_copies_new_keys_and_values(qwen: Architecture) -> None:
    theory = step_theory(qwen, StepShape(batch=3, fused=False, kv_dtype="fp8"))
    copy = named(theory, "kv_write")
    assert (copy.count, copy.flops) == (28, 0)
    assert (copy.bytes_in, copy.bytes_out) == (3 * 2 * 512 * 2, 3 * 2 * 512)
    assert named(theory, "v_proj").bytes_out == 3 * 512 * 2
    parts = [o.detail for o in theory.operators if o.name == "attention"]
    assert parts == ["scores", "softmax", "values"]


def test_a_window_bounds_what_is_written(qwen: Architecture) -> None:
    windowed = msgspec.structs.replace(qwen, kinds=(LayerKind(count=28, window=1024),))
    shape = StepShape(workload="prefill", context=0, query_tokens=4096)
    saved = (
        step_theory(qwen, shape).compulsory_bytes - step_theory(windowed, shape).compulsory_bytes
    )
    assert saved == (4096 - 1024) * 57344


@pytest.mark.parametrize("model", names())
@pytest.mark.parametrize(
    "shape",
    [
        StepShape(),
        StepShape(batch=64, context=8191, kv_dtype="fp8", weights_dtype="int4"),
        StepShape(workload="prefill", context=0, query_tokens=8192),
        StepShape(workload="prefill", context=4096, query_tokens=512, absorbed=True),
        StepShape(workload="verify", query_tokens=5, tp=2),
        StepShape(fused=False),
    ],
    ids=["decode", "quantised", "prefill", "chunk", "verify on two ranks", "unfused"],
)
def test_perfect_fusion_never_moves_more(model: str, shape: StepShape) -> None:
    theory = step_theory(Architecture.from_config(load_config(model), model), shape)
    assert 0 < theory.weight_bytes_read < theory.compulsory_bytes <= theory.ideal_op_bytes
    assert theory.tensor_flops <= theory.flops
