"""Classes from names and dataflow, on small hand-made steps."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.model import Op, Tensor
from rooflens.reports.classify import classify
from tests.builders import op, tensor


def weight(id: int, shape: tuple[int, ...], name: str = "w") -> Tensor:
    return tensor(id, shape, role="weight", name=name)


def linear(index: int, module: str, read: int, wrote: int, name: str = "") -> Op:
    return op(
        index, "aten.mm", module=module, flops=2,
        inputs=(tensor(read, (4, 8)), weight(100 + index, (8, 8), name or f"{module}.weight")),
        outputs=(tensor(wrote, (4, 8)),),
    )  # fmt: skip


def classes(*ops: Op) -> list[tuple[str, str | None]]:
    return [(op.op_class, op.part) for op in classify(ops)]


@pytest.mark.parametrize(
    ("path", "op_class"),
    [
        ("model.layers.0.self_attn.q_proj", "q_proj"),
        ("model.layers.0.self_attn.q_proj.lora_A.default", "q_proj"),
        ("layers.3.attention.wk", "k_proj"),
        ("transformer.h.2.attn.c_attn", "qkv_proj"),
        ("transformer.h.2.attn.c_proj", "o_proj"),
        ("transformer.h.2.mlp.c_fc", "up_proj"),
        ("transformer.h.2.mlp.c_proj", "down_proj"),
        ("gpt_neox.layers.0.attention.dense", "o_proj"),
        ("encoder.layer.1.intermediate.dense", "up_proj"),
        ("encoder.layer.1.attention.output.dense", "o_proj"),
        ("encoder.layer.1.output.dense", "down_proj"),
        ("layers.0.feed_forward.w1", "gate_proj"),
        ("layers.0.feed_forward.w3", "up_proj"),
        ("layers.0.mlp.gate_up_proj", "gate_up_proj"),
        ("model.layers.0.mlp.experts.7.down_proj", "experts"),
        ("model.layers.0.mlp.shared_expert.down_proj", "down_proj"),
        ("lm_head", "lm_head"),
        ("output", "lm_head"),
    ],
)
def test_projections_by_module_path(path: str, op_class: str) -> None:
    assert classes(linear(0, path, 1, 2))[0][0] == op_class


def test_a_weight_used_without_its_module_still_names_the_projection() -> None:
    used = linear(0, "model.layers.0.self_attn", 1, 2, "model.layers.0.self_attn.v_proj.weight")
    assert classes(used) == [("v_proj", None)]


@pytest.mark.parametrize(("width", "op_class"), [(4, "router"), (64, "gate_proj")])
def test_a_narrow_gate_routes_and_a_wide_one_is_an_mlp(width: int, op_class: str) -> None:
    gate = op(
        0, "aten.mm", module="layers.0.mlp.gate", module_class="Linear", flops=2,
        inputs=(tensor(1, (4, 16)), weight(2, (16, width), "layers.0.mlp.gate.weight")),
        outputs=(tensor(3, (4, width)),),
    )  # fmt: skip
    assert classes(gate)[0][0] == op_class


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("c10d.allreduce_", ("communication", None)),
        ("_c10d_functional.all_gather_into_tensor", ("communication", None)),
        ("vllm.rms_norm", ("norm", "fused")),
        ("vllm.fused_add_rms_norm", ("norm", "fused")),
        ("vllm.silu_and_mul", ("activation", "fused")),
        ("vllm.rotary_embedding", ("rope", "fused")),
        ("vllm.reshape_and_cache_flash", ("kv_write", "append")),
        ("flash_attn._flash_attn_forward", ("attention", "fused")),
        ("vllm.paged_attention_v2", ("attention", "fused")),
        ("vllm.topk_softmax", ("router", None)),
        ("aten.native_layer_norm", ("norm", "fused")),
    ],
)
def test_custom_operators_by_name(name: str, wanted: tuple[str, str | None]) -> None:
    call = op(0, name, inputs=(tensor(1, (4, 8)),), outputs=(tensor(2, (4, 8)),))
    assert classes(call) == [wanted]


def test_casts_and_copies_outside_every_class_are_their_own_class() -> None:
    cast = op(
        0, "aten._to_copy", inputs=(tensor(1, (4, 8)),), outputs=(tensor(2, (4, 8), "float32"),)
    )
    copy = op(1, "aten.clone", inputs=(tensor(3, (4, 8)),), outputs=(tensor(4, (4, 8)),))
    assert classes(cast, copy) == [("cast", None), ("layout_copy", None)]


def test_what_nothing_explains_is_visible_as_other() -> None:
    odd = op(0, "aten.fft_fft", inputs=(tensor(1, (4, 8)),), outputs=(tensor(2, (4, 8)),))
    assert classes(odd) == [("other", None)]


def test_earlier_classes_are_not_looked_at() -> None:
    step = (linear(0, "model.layers.5.mlp.up_proj", 1, 2), linear(1, "lm_head", 2, 3))
    once = classify(step)
    assert classify(once) == once
    assert once[0].layer == 5
    assert once[1].layer is None


def test_the_layer_comes_from_the_weight_where_there_is_no_module() -> None:
    assert classify((linear(0, "", 1, 2, "blocks.7.wq"),))[0].layer == 7


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("model.layers.12.mlp.experts.3.w1", 12),
        ("stack.4.attn.q", 4),
        ("2.attn.q", 2),
        ("mlp.experts.3.w1", None),
        ("mlp.0", None),
        ("head", None),
    ],
)
def test_layer_of_a_module_path(path: str, layer: int | None) -> None:
    assert classify((op(0, "aten.add", module=path),))[0].layer == layer


def attention() -> tuple[Op, ...]:
    """scores -> scale -> exp -> sum -> divide -> values, between unnamed projections."""
    fields: dict[str, Any] = {"module": ""}
    q, k, v = (
        op(
            i, "aten.mm", flops=2, inputs=(tensor(1, (4, 8)), weight(20 + i, (8, 8), f"a{i}")),
            outputs=(tensor(2 + i, (4, 8)),), **fields,
        )
        for i in range(3)
    )  # fmt: skip
    return (
        q, k, v,
        op(3, "aten.bmm", flops=2, inputs=(tensor(2, (1, 4, 8)), tensor(3, (1, 8, 4))),
           outputs=(tensor(5, (1, 4, 4)),)),
        op(4, "aten.mul", inputs=(tensor(5, (1, 4, 4)),), outputs=(tensor(6, (1, 4, 4)),)),
        op(5, "aten.exp", inputs=(tensor(6, (1, 4, 4)),), outputs=(tensor(7, (1, 4, 4)),)),
        op(6, "aten.sum", inputs=(tensor(7, (1, 4, 4)),), outputs=(tensor(8, (1, 4, 1)),)),
        op(7, "aten.div", inputs=(tensor(7, (1, 4, 4)), tensor(8, (1, 4, 1))),
           outputs=(tensor(9, (1, 4, 4)),)),
        op(8, "aten.bmm", flops=2, inputs=(tensor(9, (1, 4, 4)), tensor(4, (1, 4, 8))),
           outputs=(tensor(10, (1, 4, 8)),)),
        op(9, "aten.clone", inputs=(tensor(10, (4, 1, 8)),), outputs=(tensor(11, (4, 8)),)),
        op(10, "aten.mm", flops=2, inputs=(tensor(11, (4, 8)), weight(30, (8, 8), "b")),
           outputs=(tensor(12, (4, 8)),)),
    )  # fmt: skip


def test_attention_without_names_is_found_by_its_dataflow() -> None:
    assert classes(*attention()) == [
        ("q_proj", None), ("k_proj", None), ("v_proj", None),
        ("attention", "scores"), ("attention", "scores"), ("attention", "softmax"),
        ("attention", "softmax"), ("attention", "softmax"), ("attention", "values"),
        ("attention", "layout"), ("o_proj", None),
    ]  # fmt: skip


def test_a_softmax_between_weight_products_is_no_attention() -> None:
    steps = (
        linear(0, "", 1, 2, "a"),
        op(1, "aten._softmax", inputs=(tensor(2, (4, 8)),), outputs=(tensor(3, (4, 8)),)),
        linear(2, "", 3, 4, "b"),
    )
    assert "attention" not in {op_class for op_class, _ in classes(*steps)}


def test_writes_to_a_cache() -> None:
    cache, new = tensor(1, (1, 2, 64, 8), role="cache"), tensor(2, (1, 2, 1, 8))
    grown = tensor(3, (1, 2, 65, 8), role="cache")
    assert classes(
        op(0, "aten.cat", inputs=(cache, new), outputs=(grown,)),
        op(1, "aten.index_copy_", inputs=(new,), outputs=(cache,)),
    ) == [("kv_write", "copy"), ("kv_write", "append")]
