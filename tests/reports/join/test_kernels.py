"""Joining launches to ops: by op id, range, order and name, each with its confidence."""

from __future__ import annotations

import pytest

from rooflens.model import Op
from rooflens.reports.join.kernel_rows import general_path, kernel_rows
from rooflens.reports.join.kernels import join_launches, layer_of, op_indices
from tests import builders
from tests.builders import launch

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"
FLASH = "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(int)"
COMBINE = "void pytorch_flash::flash_fwd_splitkv_combine_kernel<128>(int)"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(int)"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"


def step_ops() -> list[Op]:
    """norm, q_proj, attention, o_proj of one layer, then lm_head."""
    made = [
        ("aten.rms_norm", "norm", "model.layers.0.input_layernorm", 0, 0),
        ("aten.mm", "q_proj", "model.layers.0.self_attn.q_proj", 0, 100),
        ("aten.scaled_dot_product_attention", "attention", "model.layers.0.self_attn", 0, 50),
        ("aten.mm", "o_proj", "model.layers.0.self_attn.o_proj", 0, 100),
        ("aten.mm", "lm_head", "lm_head", None, 900),
    ]
    return [
        builders.op(i, name, op_class=op_class, module=module, layer=layer, flops=flops)
        for i, (name, op_class, module, layer, flops) in enumerate(made)
    ]


@pytest.mark.parametrize(
    ("ranges", "indices"),
    [
        (("step", "layer 3", "model.layers.3.mlp", "op 217 aten.addmm"), (217,)),
        (("op:17",), (17,)),
        (("op 1 outer", "op 2 inner"), (2,)),
        (("op 5-7 fused",), (5, 6, 7)),
        (("op 7-5 wrong",), ()),
        (("op 0-100000 everything",), ()),
        (("operator 3", "op", "op x"), ()),
        ((), ()),
    ],
)
def test_op_ids_in_ranges(ranges: tuple[str, ...], indices: tuple[int, ...]) -> None:
    assert op_indices(ranges) == indices


@pytest.mark.parametrize(
    ("ranges", "layer"),
    [(("step", "layer 12", "x"), 12), (("model.layers.3.mlp.up_proj",), 3), (("lm_head",), None),
     (("transformer.h.7.attn",), 7), ((), None)],
)  # fmt: skip
def test_layers_in_ranges(ranges: tuple[str, ...], layer: int | None) -> None:
    assert layer_of(ranges) == layer


def test_op_id_is_the_strongest_join() -> None:
    ops = step_ops()
    (joined,) = join_launches([launch(0, POINTWISE, nvtx=("step", "op 1 aten.mm"))], ops)
    assert joined.join.method == "op id"
    assert (joined.join.confidence, joined.join.ops) == ("high", (1,))
    assert (joined.op_class, joined.layer) == ("q_proj", 0)


def test_an_op_id_of_another_recording_is_no_join() -> None:
    (joined,) = join_launches([launch(0, NORM, nvtx=("op 99 aten.mm",))], step_ops())
    assert joined.join.method == "name class"


def test_module_path() -> None:
    nvtx = ("step", "layer 0", "model.layers.0.self_attn.o_proj")
    (joined,) = join_launches([launch(0, GEMM, nvtx=nvtx)], step_ops())
    assert (joined.join.method, joined.op_class) == ("nvtx path", "o_proj")
    assert joined.join.ops == (3,)


def test_order_joins_split_kernels_to_one_op_and_fused_ones_to_their_neighbours() -> None:
    ops = step_ops()
    names = [NORM, GEMM, SPLIT, FLASH, COMBINE, GEMM, GEMM]
    joined = join_launches([launch(i, name) for i, name in enumerate(names)], ops)
    assert [j.op_class for j in joined] == [
        "norm", "q_proj", "q_proj", "attention", "attention", "o_proj", "lm_head",
    ]  # fmt: skip
    assert {j.join.method for j in joined} == {"order"}
    assert [j.join.ops for j in joined] == [(0,), (1,), (1,), (2,), (2,), (3,), (4,)]
    assert all(j.join.confidence == "medium" for j in joined)


def test_order_over_several_equal_steps() -> None:
    names = [NORM, GEMM, FLASH, GEMM, GEMM] * 3
    joined = join_launches([launch(i, name) for i, name in enumerate(names)], step_ops())
    assert [j.op_class for j in joined[5:10]] == [
        "norm",
        "q_proj",
        "attention",
        "o_proj",
        "lm_head",
    ]


@pytest.mark.parametrize("names", [[NORM, GEMM, FLASH, GEMM], [NORM, GEMM, GEMM, FLASH, GEMM]])
def test_order_is_refused_when_the_anchors_differ(names: list[str]) -> None:
    joined = join_launches([launch(i, name) for i, name in enumerate(names)], step_ops())
    assert "order" not in {j.join.method for j in joined}
    assert joined[0].op_class == "norm"
    assert joined[1].op_class == "other"


def test_a_gap_in_another_order_is_joined_by_kind_and_not_by_place() -> None:
    rope = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(int)"
    ops = [
        builders.op(0, "aten.rms_norm", op_class="norm"),
        builders.op(1, "aten.mul", op_class="rope"),
        builders.op(2, "aten.mm", op_class="q_proj", flops=9),
    ]
    joined = join_launches([launch(0, rope), launch(1, NORM), launch(2, GEMM)], ops)
    assert [j.op_class for j in joined] == ["rope", "norm", "q_proj"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_recorded_step_joins_launch_by_launch(attention: str) -> None:
    """One launch per op of two real layers: every class is found again by order alone."""
    from rooflens.harness.counting import count_step
    from rooflens.reports.join.sequence import ATTENTION, op_anchor
    from rooflens.workloads.registry import workload

    spec = workload("decode").spec(
        model="qwen2.5-7b", weights=None, batch=1, context=127, prompt=None, query_tokens=None,
        logits="last", attention=attention, dtype=None, device="meta", layers=2, seed=0,
    )  # fmt: skip
    ops = count_step(spec)
    names = [{"": POINTWISE, ATTENTION: FLASH}.get(op_anchor(op), GEMM) for op in ops]
    joined = join_launches([launch(i, name) for i, name in enumerate(names)], ops)
    assert [j.op_class for j in joined] == [op.op_class for op in ops]
    assert {j.join.method for j in joined} == {"order"}


def test_without_ops_the_name_says_what_it_can() -> None:
    joined = join_launches([launch(0, NORM), launch(1, GEMM), launch(2, "my_kernel")])
    assert [(j.op_class, j.join.method) for j in joined] == [
        ("norm", "name class"), ("other", "none"), ("other", "none"),
    ]  # fmt: skip


def test_rows_group_equal_launches_and_keep_the_exact_sum() -> None:
    launches = [
        launch(i, GEMM, grid=(8, 1, 1), dram_bytes=moved, flops=100,
               nvtx=(f"layer {i}", f"model.layers.{i}.mlp.up_proj", f"op {i} aten.mm"))
        for i, moved in enumerate((10, 11, 12))
    ]  # fmt: skip
    launches.append(launch(3, GEMM, grid=(9, 1, 1), dram_bytes=1, flops=1))
    row, other = kernel_rows(launches, join_launches(launches))
    assert row.count == 3
    assert row.dram_bytes.value == 11
    assert row.count * (row.dram_bytes.value or 0) == 33
    assert row.nvtx == ("layer *", "model.layers.*.mlp.up_proj")
    assert row.intensity.value == pytest.approx(100 / 11)
    assert other.count == 1


def test_one_lost_launch_leaves_the_row_without_a_mean() -> None:
    launches = [launch(0, NORM, dram_bytes=10), launch(1, NORM)]
    (row,) = kernel_rows(launches, join_launches(launches))
    assert row.dram_bytes.value is None
    assert row.dram_bytes.absent == "1 of 2 launches have no value: not measured in this test"


def test_general_path_keeps_other_numbers() -> None:
    assert general_path(("step 3", "layer 12", "op 4 x", "h.3.attn")) == (
        "step 3",
        "layer *",
        "h.*.attn",
    )
