"""Counting Qwen2.5-7B on meta: all 28 layers, against reference numbers and hand counts."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rooflens.harness.counting import count_step
from rooflens.model import Op
from rooflens.reports.join.groups import group_of
from rooflens.workloads.registry import workload

LAYERS, HIDDEN, HEADS, KV, SIZE, KEYS = 28, 3584, 28, 4, 128, 2048

STEPS = {
    "Decode B=1, 2048 keys (past 2047)": ("decode", {"batch": 1}),
    "Decode B=32, 2048 keys each": ("decode", {"batch": 32}),
    "Prefill B=1 S=2048": ("prefill", {"prompt": 2048}),
}

POSITION_IDS_BYTES = {"decode": 24, "prefill": 3 * 8 * 2048}
"""One arange and one add of int64 positions, which the reference does not list."""


@functools.cache
def ops_of(name: str, **options: Any) -> tuple[Op, ...]:
    return count_step(workload(name).spec(device="meta", **options))


def eager(name: str, **options: Any) -> tuple[Op, ...]:
    return ops_of(name, attention="eager", **options)


def requested(ops: tuple[Op, ...]) -> int:
    return sum(op.bytes_in + op.bytes_out for op in ops)


def flops(ops: tuple[Op, ...]) -> int:
    return sum(op.flops for op in ops)


def groups(ops: tuple[Op, ...]) -> dict[str, list[int]]:
    """Count, bytes in, bytes out and FLOPs per group of the reference tables."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for op in ops:
        row = group_of(op)
        assert row is not None, f"{op.op_class}/{op.part} is in no group"
        for place, value in enumerate((1, op.bytes_in, op.bytes_out, op.flops)):
            sums[row.group][place] += value
    return dict(sums)


def test_decode_asks_for_the_bytes_of_the_reference() -> None:
    ops = eager("decode")
    assert requested(ops) == 16_211_262_656
    assert flops(ops) == 14_962_655_232
    assert {op.op_class for op in ops if op.op_class in ("other", "cast", "layout_copy")} == set()


def test_decode_of_32_sequences() -> None:
    assert requested(eager("decode", batch=32)) == 80_378_754_136


def test_prefill_of_2048_tokens() -> None:
    ops = eager("prefill", prompt=2048)
    assert requested(ops) == pytest.approx(166_788.9e6, rel=1e-6)
    assert flops(ops) == 28_412_298_657_792


def test_sdpa_decode() -> None:
    ops = ops_of("decode", attention="sdpa")
    assert requested(ops) == pytest.approx(14_515.53e6, rel=1e-6)
    assert flops(ops) == 14_962_655_232
    fused = [op for op in ops if op.part == "fused"]
    assert len(fused) == LAYERS
    assert fused[0].bytes_in == 2 * (HEADS * SIZE + 2 * KEYS * KV * SIZE)
    assert not [op for op in ops if op.part == "expand"]


@pytest.mark.parametrize(
    ("group", "count", "bytes_in", "bytes_out"),
    [
        # By hand: per layer and element, from the shapes of the step.
        ("repeat_kv", 56, 2 * LAYERS * KEYS * KV * SIZE * 2, 2 * LAYERS * KEYS * HEADS * SIZE * 2),
        ("KV cache cat", 56, 2 * LAYERS * KEYS * KV * SIZE * 2, 2 * LAYERS * KEYS * KV * SIZE * 2),
        ("o_proj", 28, LAYERS * 2 * (HIDDEN * HIDDEN + HIDDEN), LAYERS * 2 * HIDDEN),
        ("residual adds", 56, 56 * 4 * HIDDEN, 56 * 2 * HIDDEN),
        ("embedding", 1, 8 + 2 * HIDDEN, 2 * HIDDEN),
        ("softmax (fp32)", 84, LAYERS * HEADS * KEYS * 10, LAYERS * HEADS * KEYS * 10),
    ],
)
def test_groups_of_a_decode_by_hand(group: str, count: int, bytes_in: int, bytes_out: int) -> None:
    assert groups(eager("decode"))[group][:3] == [count, bytes_in, bytes_out]


@pytest.mark.conformance
@pytest.mark.parametrize("title", STEPS)
def test_every_group_of_the_reference_tables(nsight: Path, title: str) -> None:
    table = json.loads((nsight.parent / "reference" / "theory_tables.json").read_text("utf-8"))
    name, options = STEPS[title]
    ours, wanted = groups(eager(name, **options)), table[title]["hf_eager"]["groups"]
    different = {group for group in wanted if ours[group] != wanted[group]}
    # The reference leaves out position ids, whose only reader makes the rotary tables.
    assert different == {"rotary tables"}
    assert ours.keys() == wanted.keys()
    extra = sum(ours["rotary tables"][1:3]) - sum(wanted["rotary tables"][1:3])
    assert extra == POSITION_IDS_BYTES[name]


def test_chunked_prefill_shows_its_repeat_kv_copies() -> None:
    ops = ops_of("prefill", prompt=512, context=1536, attention="sdpa")
    copies = [op for op in ops if op.part == "expand"]
    assert len(copies) == 56
    assert copies[0].outputs[0].shape == (1, KV, HEADS // KV, KEYS, SIZE)
    assert len([op for op in ops if op.part == "fused"]) == LAYERS
    assert {op.inputs[0].role for op in copies} == {"cache"}


def test_flash_attention_on_meta_is_one_modelled_call_with_causal_pairs() -> None:
    ops = ops_of("prefill", prompt=512, context=1536, attention="flash_attention_2")
    fused = [op for op in ops if op.part == "fused"]
    assert len(fused) == LAYERS
    assert fused[0].attributes["modelled"] is True
    assert fused[0].flops == 4 * HEADS * SIZE * (512 * 1536 + 512 * 513 // 2)
    assert not [op for op in ops if op.part == "expand" or op.op_class == "mask"]


def test_a_prompt_of_32k_tokens_needs_no_memory() -> None:
    ops = eager("prefill", prompt=32768)
    scores = next(op for op in ops if op.op_class == "attention" and op.flops)
    assert scores.outputs[0].bytes == 2 * HEADS * 32768 * 32768


def test_logits_of_all_positions() -> None:
    last = ops_of("prefill", prompt=2048, attention="sdpa")
    everything = ops_of("prefill", prompt=2048, attention="sdpa", logits="all")
    assert flops(everything) - flops(last) == 2_231_219_257_344
    assert requested(everything) - requested(last) == 637_222_912


def test_verify_scores_several_tokens() -> None:
    ops = ops_of("verify", query_tokens=4, attention="sdpa")
    head = next(op for op in ops if op.op_class == "lm_head")
    assert head.outputs[0].shape == (4, 152064)


def test_layers_can_be_chosen() -> None:
    ops = count_step(workload("decode").spec(device="meta", layers=2))
    assert {op.layer for op in ops} == {None, 0, 1}


def tiny_config(tmp_path: Path) -> str:
    config = {
        "model_type": "qwen2", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 333,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 4096,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    return str(tmp_path / "config.json")


def test_another_model_agrees_with_torch_and_a_hand_count(tmp_path: Path) -> None:
    from rooflens.workloads.models import load_model

    spec = workload("decode").spec(
        model=tiny_config(tmp_path), batch=5, context=76, attention="eager", device="meta"
    )
    loaded = load_model(spec)
    step = workload("decode").build(spec, loaded)
    with FlopCounterMode(display=False) as counter:
        step.run()
    ops = count_step(spec)
    assert flops(ops) == counter.get_total_flops()
    layer = 2 * 96 * (96 + 2 * 48 + 96) + 6 * 96 * 200 + 4 * 6 * 16 * 77
    assert flops(ops) == 5 * (3 * layer + 2 * 96 * 333)
    assert sum(op.bytes_in for op in ops if op.op_class == "down_proj") == 3 * 2 * (
        200 * 96 + 5 * 200
    )
    expand = [op for op in ops if op.part == "expand"]
    assert sum(op.bytes_out for op in expand) == 6 * 5 * 77 * 6 * 16 * 2


def test_inv_freq_stays_float32() -> None:
    tables = [op for op in eager("decode") if op.part == "tables"]
    product = next(op for op in tables if any(t.name.endswith("inv_freq") for t in op.inputs))
    assert {tensor.dtype for tensor in product.inputs} == {"float32"}
    assert sum(op.name == "aten._to_copy" for op in tables) == 3


def test_every_weight_is_read_once_and_named() -> None:
    ops = eager("decode")
    names = [t.name for op in ops for t in op.inputs if t.role == "weight"]
    assert len(names) == len(set(names)) == 12 * LAYERS + 4
    weights = sum(t.bytes for op in ops for t in op.inputs if t.role == "weight")
    assert weights == 14_141_238_272 + 2 * HIDDEN + 4 * 64
    assert torch.get_default_dtype() == torch.float32
