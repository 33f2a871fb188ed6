"""A step counted on meta is the step that runs: 28 layers, op for op, on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.harness.counting import count_step
from rooflens.harness.recorder import record
from rooflens.model import Op
from rooflens.reports.classify import classify
from rooflens.workloads.models import load_model
from rooflens.workloads.registry import workload

NARROW = {
    "model_type": "qwen2", "hidden_size": 112, "intermediate_size": 192, "num_hidden_layers": 28,
    "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 500, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "max_position_embeddings": 4096, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def narrow(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(NARROW), "utf-8")
    return str(tmp_path / "config.json")


def comparable(op: Op) -> tuple[Any, ...]:
    """Everything about an op but its storage ids, time and attention backend."""
    tensors = [
        (t.shape, t.dtype, t.bytes, t.role, t.name, t.contiguous, t.expanded)
        for t in (*op.inputs, *op.outputs)
    ]
    return (
        op.name, op.module, op.op_class, op.part, op.layer, op.bytes_in, op.bytes_out, op.flops,
        op.elementwise_flops, op.source_line, tensors,
    )  # fmt: skip


def on_cpu(name: str, **options: Any) -> tuple[Op, ...]:
    spec = workload(name).spec(device="cpu", **options)
    loaded = load_model(spec)
    step = workload(name).build(spec, loaded)
    return classify(record(step.run, loaded.model, cache=step.cache, timed=True))


@pytest.mark.parametrize(
    ("name", "attention", "options"),
    [
        ("decode", "eager", {"context": 40, "batch": 1}),
        ("decode", "sdpa", {"context": 40, "batch": 3}),
        ("prefill", "eager", {"prompt": 24, "batch": 2}),
        ("prefill", "sdpa", {"prompt": 8, "context": 24}),
    ],
)
def test_28_layers_agree_op_for_op(
    narrow: str, name: str, attention: str, options: dict[str, Any]
) -> None:
    ran = on_cpu(name, model=narrow, attention=attention, **options)
    counted = count_step(workload(name).spec(model=narrow, attention=attention, **options))
    assert [comparable(op) for op in ran] == [comparable(op) for op in counted]
    assert {op.layer for op in ran} == {None, *range(28)}
    assert all(op.time_ns for op in ran)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_28_layers_of_the_7b_agree_op_for_op(attention: str) -> None:
    ran = on_cpu("decode", attention=attention)
    counted = count_step(workload("decode").spec(attention=attention))
    assert [comparable(op) for op in ran] == [comparable(op) for op in counted]
