"""The reference steps of Qwen2.5-7B, number by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.floor import ridge, step_floors
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

STEPS = {
    "Prefill B=1 S=2048": StepShape(workload="prefill", context=0, query_tokens=2048),
    "Decode B=1, 2048 keys (past 2047)": StepShape(),
    "Decode B=32, 2048 keys each": StepShape(batch=32),
}
CLASSES = {
    "embed_tokens": "embedding", "input_layernorm": "norm", "rope q,k": "rope",
    "attention core (fused)": "attention", "residual add 1": "residual",
    "post_attention_layernorm": "norm", "silu*up": "activation", "residual add 2": "residual",
    "final norm": "norm",
}  # fmt: skip
"""Operators of the reference table by their class; the others are called as their class."""

# name, calls, shape, FLOP, bytes in, bytes out of one call: decode, batch 1, 2048 keys.
DECODE_ROWS = (
    ("embedding", 1, "[1]->[1,3584]", 0, 7176, 7168),
    ("norm", 28, "[1,3584]", 14336, 14336, 7168),
    ("q_proj", 28, "[1,3584]x[3584,3584]", 25690112, 25704448, 7168),
    ("k_proj", 28, "[1,3584]x[3584,512]", 3670016, 3678208, 1024),
    ("v_proj", 28, "[1,3584]x[3584,512]", 3670016, 3678208, 1024),
    ("rope", 28, "[1,28+4,128]", 12288, 8704, 8192),
    ("attention", 28, "q=1 L=2048 B=1", 29360128, 4201472, 7168),
    ("o_proj", 28, "[1,3584]x[3584,3584]", 25690112, 25697280, 7168),
    ("residual", 28, "[1,3584]", 3584, 14336, 7168),
    ("norm", 28, "[1,3584]", 14336, 14336, 7168),
    ("gate_proj", 28, "[1,3584]x[3584,18944]", 135790592, 135797760, 37888),
    ("up_proj", 28, "[1,3584]x[3584,18944]", 135790592, 135797760, 37888),
    ("activation", 28, "[1,18944]", 94720, 75776, 37888),
    ("down_proj", 28, "[1,18944]x[18944,3584]", 135790592, 135828480, 7168),
    ("residual", 28, "[1,3584]", 3584, 14336, 7168),
    ("norm", 1, "[1,3584]", 14336, 14336, 7168),
    ("lm_head", 1, "[1,3584]x[3584,152064]", 1089994752, 1090001920, 304128),
)


def reference(nsight: Path, name: str) -> Any:
    return json.loads((nsight.parent / "reference" / name).read_text("utf-8"))


def test_decode_rows(decode: StepTheory) -> None:
    rows = [(o.name, o.count, o.shape, o.flops, o.bytes_in, o.bytes_out) for o in decode.operators]
    assert tuple(rows) == DECODE_ROWS


@pytest.mark.parametrize(
    ("step", "flops", "tensor_flops", "ideal", "compulsory", "intensity"),
    [
        ("Prefill B=1 S=2048", 27579116945408, 27570896109568, 37071825920, 14273679360, 1932.2),
        (
            "Decode B=1, 2048 keys (past 2047)",
            14966669312, 14962655232, 14270129160, 14258990088, 1.0496,
        ),
        (
            "Decode B=32, 2048 keys each",
            478933417984, 478804967424, 18265302272, 17909296384, 26.742,
        ),
    ],
)  # fmt: skip
def test_totals(
    qwen: Architecture, step: str, flops: int, tensor_flops: int, ideal: int, compulsory: int,
    intensity: float,
) -> None:  # fmt: skip
    theory = step_theory(qwen, STEPS[step])
    assert theory.flops == flops
    assert theory.tensor_flops == tensor_flops
    assert theory.ideal_op_bytes == ideal
    assert theory.compulsory_bytes == compulsory
    assert theory.intensity == pytest.approx(intensity, rel=1e-4)
    assert theory.weight_bytes_read == 14141238272
    assert theory.kv_bytes_per_token == 57344


def test_all_logits_cost_what_the_reference_says(qwen: Architecture, prefill: StepTheory) -> None:
    shape = StepShape(workload="prefill", context=0, query_tokens=2048, logits="all")
    theory = step_theory(qwen, shape)
    assert theory.flops - prefill.flops == 2_231_219_257_344
    assert theory.ideal_op_bytes - prefill.ideal_op_bytes == 637_222_912
    assert theory.flops == 29_810_336_202_752
    assert theory.ideal_op_bytes == 37_709_048_832


@pytest.mark.parametrize(
    ("context", "flops", "intensity"), [(2047, 1.4962655232e10, 1.0496), (32767, 2.7294e10, 1.70)]
)
def test_the_design_figures(
    qwen: Architecture, context: int, flops: float, intensity: float
) -> None:
    theory = step_theory(qwen, StepShape(context=context))
    assert theory.tensor_flops == pytest.approx(flops, rel=1e-4)
    assert theory.intensity == pytest.approx(intensity, rel=5e-3)


@pytest.mark.conformance
@pytest.mark.parametrize("name", STEPS)
def test_every_operator_of_the_reference_table(qwen: Architecture, nsight: Path, name: str) -> None:
    table = reference(nsight, "theory_tables.json")[name]
    theory = step_theory(qwen, STEPS[name])
    ours = [
        (o.name, o.shape, o.flops, o.bytes_in, o.bytes_out, o.tensor, o.count)
        for o in theory.operators
    ]
    wanted = [
        (
            CLASSES.get(o["op"], o["op"]), o["shape"], o["flops"], o["rd"], o["wr"],
            o["kind"] == "tensor", o["n"],
        )
        for o in table["ops"]
    ]  # fmt: skip
    assert ours == wanted
    totals = table["totals"]
    assert theory.flops == totals["flops"]
    assert theory.tensor_flops == totals["tensor"]
    assert theory.ideal_op_bytes == totals["bytes"]
    assert sum(o.count * o.bytes_in for o in theory.operators) == totals["rd"]
    assert sum(o.count * o.bytes_out for o in theory.operators) == totals["wr"]
    assert theory.compulsory_bytes == table["step_min"]


@pytest.mark.conformance
@pytest.mark.parametrize("name", STEPS)
def test_every_floor_of_the_reference_table(qwen: Architecture, nsight: Path, name: str) -> None:
    theory = step_theory(qwen, STEPS[name])
    for gpu_name, wanted in reference(nsight, "theory_tables.json")[name]["floors"].items():
        floors = step_floors(theory, gpu(gpu_name).roof("bfloat16"))
        milliseconds = {
            "compute_ms": floors.compute_ns / 1e6,
            "ideal_ms": floors.ideal_bytes_ns / 1e6,
            "per_op_ms": floors.sum_of_operators_ns / 1e6,
            "compulsory_ms": floors.compulsory_bytes_ns / 1e6,
        }
        for floor, value in milliseconds.items():
            assert value == pytest.approx(wanted[floor], rel=1e-12), (gpu_name, floor)


@pytest.mark.conformance
def test_gpus_hold_the_reference_numbers(nsight: Path) -> None:
    for wanted in reference(nsight, "gpus.json")["gpus"]:
        ours = gpu(wanted["name"])
        assert ours.name == wanted["name"]
        assert ours.chip == wanted["chip"]
        assert ours.sms == wanted["sms"]
        assert ours.l2_bytes == wanted["l2_mib"] * 2**20
        assert ours.bandwidth_bytes_per_s == wanted["dram_gbs"] * 1e9
        peaks = {dtype: peak.value for dtype, peak in ours.peaks.items()}
        assert peaks == {d: pytest.approx(v * 1e12) for d, v in wanted["dense_tflops"].items()}
        for dtype, value in wanted["ridge_flop_per_byte"].items():
            if dtype in ("fp16", "bf16", "fp32", "tf32", "fp8", "int8", "fp4"):
                assert ridge(ours.roof(dtype)) == pytest.approx(value, abs=0.006)
