"""Operator classes of kernels in a timeline, and the strip of one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.model import Timeline
from rooflens.parsers import nsys_sqlite
from rooflens.parsers.kernels import KernelName
from rooflens.parsers.timeline.labels import class_of
from rooflens.parsers.timeline.strip import MAX_SHAPES
from tests.captures import ExportFile

LAYER = (
    "rms_norm_kernel", "ampere_bf16_s16816gemm_a", "vllm::rotary_embedding_kernel",
    "vllm::reshape_and_cache_flash_kernel", "flash_fwd_splitkv_kernel",
    "ampere_bf16_s16816gemm_b", "rms_norm_kernel", "ampere_bf16_s16816gemm_c",
    "splitKreduce_kernel", "silu_and_mul_kernel", "ampere_bf16_s16816gemm_d",
)  # fmt: skip


def named(family: str, op_class: str = "other") -> KernelName:
    return KernelName(short_name="k", family=family, op_class=op_class)


@pytest.mark.parametrize(
    ("path", "kernel", "op_class", "confidence"),
    [
        (("step", "layer *", "model.layers.*.self_attn.q_proj"), named("gemm"), "q_proj", "high"),
        (("step", "model.layers.*.mlp.down_proj"), named("splitk"), "down_proj", "high"),
        (("step", "model.layers.*.mlp.gate_proj", "op 7 aten.mm"), named("gemm"), "gate_proj",
         "high"),
        (("step", "lm_head"), named("gemm"), "lm_head", "high"),
        (("step", "model.layers.*.input_layernorm"), named("pointwise"), "norm", "high"),
        (("step", "model.layers.*.self_attn"), named("gemm"), "attention", "medium"),
        (("step", "model.layers.*.self_attn"), named("softmax"), "attention", "medium"),
        (("step", "model.layers.*.self_attn"), named("rope", "rope"), "rope", "medium"),
        (("step", "model.layers.*.self_attn"), named("pointwise"), "other", "low"),
        (("step", "model.layers.*.mlp"), named("pointwise"), "activation", "medium"),
        (("step", "layer *"), named("pointwise"), "residual", "medium"),
        (("decode",), named("norm", "norm"), "norm", "medium"),
        ((), named("unknown"), "other", "low"),
        (("model.layers.*.self_attn.o_proj",), named("comm", "communication"), "communication",
         "high"),
    ],
)  # fmt: skip
def test_the_module_decides_where_it_is_a_leaf(
    path: tuple[str, ...], kernel: KernelName, op_class: str, confidence: str
) -> None:
    assert class_of(path, kernel) == (op_class, confidence)


def read(export: ExportFile, folder: Path) -> Timeline:
    found = nsys_sqlite.read(export.write(folder / "a.sqlite")).timeline
    assert found is not None
    return found


def test_products_of_an_engine_are_told_apart_by_their_neighbours(tmp_path: Path) -> None:
    export = ExportFile()
    names = (*LAYER, *LAYER, "rms_norm_kernel", "ampere_bf16_s16816gemm_e", "ArgMaxOps_kernel")
    for i, name in enumerate(names):
        export.launch(100 * i, 100 * i + 10, 100 * i + 60, name)
    rows = {
        row.name: (row.op_class, row.join.method)
        for row in nsys_sqlite.read(export.write(tmp_path / "a.sqlite")).kernels
    }
    assert rows["ampere_bf16_s16816gemm_a"] == ("qkv_proj", "order")
    assert rows["ampere_bf16_s16816gemm_b"] == ("o_proj", "order")
    assert rows["ampere_bf16_s16816gemm_c"] == ("gate_up_proj", "order")
    assert rows["splitKreduce_kernel"] == ("gate_up_proj", "order")
    assert rows["ampere_bf16_s16816gemm_d"] == ("down_proj", "order")
    assert rows["ampere_bf16_s16816gemm_e"] == ("lm_head", "order")


def test_neighbours_of_another_stream_say_nothing(tmp_path: Path) -> None:
    export = ExportFile()
    export.launch(0, 10, 60, "flash_fwd_splitkv_kernel", stream=7)
    export.launch(100, 110, 160, "ampere_bf16_s16816gemm_b", stream=8)
    rows = {r.name: r for r in nsys_sqlite.read(export.write(tmp_path / "a.sqlite")).kernels}
    assert rows["ampere_bf16_s16816gemm_b"].op_class == "other"


def test_a_strip_has_a_row_per_range_depth_and_stream(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 1000, "decode")
    export.range(10, 400, "layer 0")
    export.launch(20, 100, 300, "gemm")
    export.launch(500, 250, 450, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", stream=8)
    shapes = read(export, tmp_path).shapes
    rows = {(shape.row, shape.kind) for shape in shapes}
    assert rows == {
        ("ranges 1", "range"), ("ranges 2", "range"), ("host calls", "launch"),
        ("stream 7", "kernel"), ("stream 8", "communication"),
    }  # fmt: skip
    kernel = next(s for s in shapes if s.row == "stream 7")
    assert (kernel.start_ns, kernel.duration_ns, kernel.label) == (100, 200, "gemm")
    assert all(s.start_ns >= 0 and s.start_ns + s.duration_ns <= 1000 for s in shapes)


def test_a_strip_of_many_kernels_is_merged_and_covers_the_same(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 40_000_000, "decode")
    for i in range(4000):
        export.launch(10_000 * i, 10_000 * i + 1_000, 10_000 * i + 9_000, f"k{i % 3}")
    found = read(export, tmp_path)
    assert len(found.shapes) <= MAX_SHAPES
    kernels = [s for s in found.shapes if s.row == "stream 7"]
    assert min(s.start_ns for s in kernels) == 1_000
    assert max(s.start_ns + s.duration_ns for s in kernels) == 39_999_000
    assert found.steps[0].busy_ns == 4000 * 8_000
