"""A tiny Qwen2 by config.json, for tests that build a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TINY = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """Path of the config.json of a three-layer model."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), "utf-8")
    return str(path)
