"""Public torch profiler traces: counts and sums of the manifest, serving phases, and theory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from rooflens.model import PhaseTime
from rooflens.parsers import torch_trace
from rooflens.reading import Reading
from rooflens.reports.join.phases import class_demand, phase_demand, phase_shapes
from rooflens.reports.join.timeline import kernel_time_by_family
from rooflens.reports.theory.architecture import Architecture

pytestmark = pytest.mark.conformance

VLLM = "vllm-tp4-1000in10out-H100-cu12.4.json.gz"
MANIFEST = {
    "cuptiprofiler-A100-old.json.gz": (0, 0.0),
    "gemm-fp16-A100-cu12.8.json": (5, 78_588.0),
    "nokernels-A100-old.json": (0, 0.0),
    "vllm-capture-decode-MI300X-rocm7.json.gz": (7, 19.633),
    VLLM: (13508, 233_134.0),
}
"""Kernels and their total time in us, as MANIFEST.tsv gives them."""
LLAMA_70B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192,
    "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5,
}  # fmt: skip
"""80 layers by the trace's 80 attention kernels per step; widths by its grids (7 blocks of 1024 of
the activation = 28672 / 4)."""


@pytest.fixture(scope="module")
def vllm() -> Reading:
    folder = Path(__file__).resolve().parents[3] / "shared" / "nsight" / "torch-trace"
    return torch_trace.read(folder / VLLM)


def phases(reading: Reading) -> dict[str, PhaseTime]:
    assert reading.timeline is not None
    return {phase.name: phase for phase in reading.timeline.phases}


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_kernel_count_and_sum(nsight: Path, name: str) -> None:
    rows = torch_trace.read(nsight / "torch-trace" / name).kernels
    count = sum(row.count for row in rows)
    time = sum(row.count * float(row.duration_ns.value or 0) for row in rows) / 1000
    assert count == MANIFEST[name][0]
    assert time == pytest.approx(MANIFEST[name][1], abs=0.6)


def test_the_five_gemms_take_what_the_golden_says(nsight: Path) -> None:
    (row,) = torch_trace.read(nsight / "torch-trace" / "gemm-fp16-A100-cu12.8.json").kernels
    assert row.grid == (100, 50, 1)
    assert float(row.duration_ns.value or 0) == pytest.approx(15.72e6, rel=1e-3)
    flops = 2 * 12800**3
    assert flops / float(row.duration_ns.value or 1) / 1000 == pytest.approx(267, abs=0.5)


def test_prefill_and_decode_steps_are_found(vllm: Reading) -> None:
    assert vllm.timeline is not None
    assert [step.phase for step in vllm.timeline.steps] == ["prefill"] + ["decode"] * 9
    assert vllm.timeline.phase_method == "launch pattern (medium)"
    found = phases(vllm)
    assert (found["prefill"].tokens, found["decode"].tokens) == (1049, 1)
    assert found["prefill"].kernels + 9 * found["decode"].kernels == 13508
    assert (found["prefill"].graph_launches, found["decode"].graph_launches) == (0, 81)


def test_no_step_is_busy_for_more_than_it_lasts(vllm: Reading) -> None:
    assert vllm.timeline is not None
    for step in vllm.timeline.steps:
        assert 0 < step.communication_ns < step.busy_ns <= step.wall_ns


def test_graph_replays_are_tied_to_their_launch(vllm: Reading) -> None:
    assert vllm.timeline is not None
    assert "729 CUDA graph launches replay 8667 device activities." in vllm.timeline.facts


def test_collectives_are_apart_by_phase(vllm: Reading) -> None:
    names = {row.name.partition("(")[0] for row in vllm.kernels if row.op_class == "communication"}
    assert {name.partition("<")[0].removeprefix("void ") for name in names} == {
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ncclDevKernel_AllGather_RING_LL",
        "vllm::cross_device_reduce_1stage",
    }  # fmt: skip
    found = phases(vllm)
    # 161 ring all-reduces and an all-gather in the prefill; 161 one-stage ones a decode step.
    assert found["prefill"].communication_ns == pytest.approx(16.53e6, rel=1e-3)
    assert found["decode"].communication_ns * 9 == pytest.approx(7428.2e3 + 222e3, rel=1e-2)
    assert "communication" not in class_names(vllm, "gemm")


def class_names(reading: Reading, family: str) -> set[str]:
    return {row.op_class for row in reading.kernels if row.family == family}


def test_projections_are_told_apart_by_their_place_in_the_layer(vllm: Reading) -> None:
    assert class_names(vllm, "gemm") == {
        "qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head",
    }  # fmt: skip
    launches = {"qkv_proj": 0, "o_proj": 0, "gate_up_proj": 0, "down_proj": 0, "lm_head": 0}
    for row in vllm.kernels:
        if row.family == "gemm":
            launches[row.op_class] += row.count
            assert row.join.method == "order"
    assert launches == dict.fromkeys(launches, 800) | {"lm_head": 10}


def test_theory_of_the_shapes_stands_beside_each_phase(vllm: Reading) -> None:
    assert vllm.timeline is not None
    shapes = phase_shapes(vllm.timeline, tp=4)
    model = Architecture.from_config(LLAMA_70B)
    found = {d.phase.name: d for d in phase_demand(vllm.timeline, model, shapes)}
    # 70.55e9 parameters without the embedding rows, two bytes each, a quarter per rank; and KV.
    weights = (70_553_706_496 - 128256 * 8192) * 2 / 4
    decode = found["decode"]
    assert decode.theory.compulsory_bytes == pytest.approx(weights, rel=3e-3)
    assert 1.5e12 < decode.bytes_per_s < 3.35e12  # below the H100's HBM3
    assert 3e14 < found["prefill"].flops_per_s < 9.9e14  # below its dense bf16 peak
    assert decode.compute_ns == decode.phase.kernel_ns - decode.phase.communication_ns


def test_class_times_of_a_phase_meet_their_minimum(vllm: Reading) -> None:
    assert vllm.timeline is not None
    model = Architecture.from_config(LLAMA_70B)
    shapes = phase_shapes(vllm.timeline, tp=4)
    decode = {d.phase.name: d for d in phase_demand(vllm.timeline, model, shapes)}["decode"]
    classes = {c.op_class: c for c in class_demand(decode)}
    gate_up = classes["gate_up_proj"]
    weights = 80 * 2 * 8192 * 28672 // 4 * 2
    assert weights < gate_up.minimum_bytes < 1.01 * weights
    rate = gate_up.minimum_bytes / gate_up.time_ns
    assert 2000 < rate < 3350  # GB/s
    assert sum(c.time_ns for c in classes.values()) == pytest.approx(decode.phase.kernel_ns)


def test_a_slower_family_can_be_named(nsight: Path, vllm: Reading, tmp_path: Path) -> None:
    with gzip.open(nsight / "torch-trace" / VLLM) as file:
        content = json.load(file)
    keep = ("kernel", "cuda_runtime", "cuda_driver")
    content["traceEvents"] = [e for e in content["traceEvents"] if e.get("cat") in keep]
    slowed = 0
    for event in content["traceEvents"]:
        if event.get("cat") == "kernel" and "red_fused__to_copy_add_mean" in event["name"]:
            event["dur"] *= 1.2
            slowed += 1
    path = tmp_path / "slow.json"
    path.write_bytes(msgspec.json.encode(content))
    base = kernel_time_by_family(vllm.kernels)
    head = kernel_time_by_family(torch_trace.read(path).kernels)
    ratios = {family: head[family] / base[family] for family in base}
    assert slowed == 1610
    assert ratios.pop("norm") == pytest.approx(1.2, abs=1e-3)
    assert all(ratio == pytest.approx(1.0) for ratio in ratios.values())


def test_replay_durations_of_the_range_profiler_are_no_times(nsight: Path) -> None:
    reading = torch_trace.read(nsight / "torch-trace" / "cuptiprofiler-A100-old.json.gz")
    assert reading.kernels == ()
    assert reading.timeline is not None
    assert any("77 ranges of the CUPTI range profiler" in f for f in reading.timeline.facts)


def test_amd_traces_are_read_with_nothing_invented(nsight: Path) -> None:
    reading = torch_trace.read(nsight / "torch-trace" / "vllm-capture-decode-MI300X-rocm7.json.gz")
    assert reading.machine.gpu == "" and reading.machine.compute_capability == ""
    checks = {c.id: c for c in reading.checks}
    assert "not their replay" in checks["timeline-graphs"].message
    assert reading.timeline is not None and reading.timeline.steps == ()
