"""Small builders for model objects, so that a test says only what it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rooflens.model import (
    SCHEMA_VERSION,
    Join,
    KernelRow,
    Launch,
    Machine,
    Model,
    Op,
    OperatorRow,
    Run,
    Tensor,
    Totals,
    Unit,
    Workload,
    absent,
    known,
)

NOT_MEASURED = absent("not measured in this test")


def tensor(id: int, shape: tuple[int, ...], dtype: str = "bfloat16", **fields: Any) -> Tensor:
    """A tensor whose bytes follow from its shape unless given."""
    size = {"bfloat16": 2, "float16": 2, "float32": 4, "int64": 8, "bool": 1, "int8": 1}[dtype]
    count = 1
    for length in shape:
        count *= length
    fields.setdefault("bytes", count * size)
    return Tensor(id=id, shape=shape, dtype=dtype, **fields)


def op(index: int, name: str, **fields: Any) -> Op:
    """An op; bytes in and out are the sums over its tensors unless given."""
    fields.setdefault("module", "")
    fields.setdefault("bytes_in", sum({t.id: t.bytes for t in fields.get("inputs", ())}.values()))
    fields.setdefault("bytes_out", sum(t.bytes for t in fields.get("outputs", ())))
    return Op(index=index, name=name, **fields)


def kernel(name: str, **fields: Any) -> KernelRow:
    """A kernel row with nothing measured unless given."""
    fields.setdefault("short_name", name)
    fields.setdefault("family", "unknown")
    fields.setdefault("op_class", "other")
    fields.setdefault("count", 1)
    fields.setdefault("join", Join(method="none", confidence="low"))
    for quantity in ("duration_ns", "dram_bytes", "l2_bytes", "flops", "intensity"):
        fields.setdefault(quantity, NOT_MEASURED)
    return KernelRow(name=name, **fields)


def launch(index: int, name: str, **fields: Any) -> Launch:
    """A launch with nothing measured unless given, as a plain number or a quantity."""
    units: dict[str, Unit] = {
        "duration_ns": "ns", "dram_bytes": "byte", "l2_bytes": "byte", "flops": "flop",
    }  # fmt: skip
    for quantity, unit in units.items():
        value = fields.setdefault(quantity, NOT_MEASURED)
        if isinstance(value, int | float):
            fields[quantity] = known(value, unit, "counters")
    return Launch(index=index, name=name, **fields)


def operator(op_class: str, **fields: Any) -> OperatorRow:
    """An operator row with nothing measured unless given."""
    fields.setdefault("count", 1)
    fields.setdefault("bound", "none")
    for quantity in (
        "minimum_bytes", "requested_bytes", "moved_bytes", "minimum_flops", "requested_flops",
        "executed_flops", "elementwise_flops", "time_ns", "floor_ns", "intensity_measured",
        "intensity_minimum",
    ):  # fmt: skip
        fields.setdefault(quantity, NOT_MEASURED)
    return OperatorRow(op_class=op_class, **fields)


def totals(**fields: Any) -> Totals:
    """Totals with nothing measured unless given."""
    for quantity in Totals.__struct_fields__:
        fields.setdefault(quantity, NOT_MEASURED)
    return Totals(**fields)


def run(**fields: Any) -> Run:
    """A counted decode run of nothing; give what the test is about."""
    defaults: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "created_at": "2026-01-02T03:04:05Z",
        "command": ("profile", "run", "decode"),
        "evidence": ("theory", "counted"),
        "machine": Machine(device="meta"),
        "tools": {"rooflens": "0.1.0"},
        "workload": Workload(name="decode", batch=1, context=2047, query_tokens=1),
        "model": Model(name="test"),
        "roofs": (),
        "totals": totals(),
        "step_times_ns": (),
        "operators": (),
        "ops": (),
        "kernels": (),
        "graphs": (),
        "timeline": None,
        "findings": (),
        "checks": (),
    }
    return Run(**(defaults | fields))


def tiny_config(folder: Path, **fields: Any) -> Path:
    """Write the config.json of a Qwen2 of 2 layers and hidden size 64; returns its directory."""
    config = {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 256,
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | fields), "utf-8")
    return folder
