"""Bytes of quantised tensors, scales included, by hand."""

from __future__ import annotations

import pytest

from rooflens.errors import UsageError
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.formats import activation_format, compute_dtype, number_format
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory


@pytest.mark.parametrize(
    ("name", "bytes"),
    [
        ("bf16", 2 * 256 * 64),
        ("fp32", 4 * 256 * 64),
        ("fp8", 256 * 64 + 4),
        ("fp8-block", 256 * 64 + 2 * 1 * 4),
        ("int8", 256 * 64 + 64 * 4),
        ("int4", 256 * 64 // 2 + 64 * 2 * 2),
        ("gptq", 256 * 64 // 2 + 64 * 2 * 2),
        ("int4-g32", 256 * 64 // 2 + 64 * 8 * 2),
        ("awq", 256 * 64 // 2 + 64 * 2 * 20 // 8),
        ("fp4", 256 * 64 // 2 + 64 * 16 * 1 + 4),
        ("mxfp4", 256 * 64 // 2 + 64 * 8 * 1),
    ],
)
def test_a_weight_of_256_by_64(name: str, bytes: int) -> None:
    assert number_format(name).matrix_bytes(256, 64) == bytes


@pytest.mark.parametrize(
    ("name", "bytes"), [("bf16", 256), ("fp8", 128), ("int8", 130), ("int4", 66), ("fp4", 72)]
)
def test_a_cached_vector_of_128(name: str, bytes: int) -> None:
    assert number_format(name).vectors_bytes(1, 128) == bytes
    assert number_format(name).vectors_bytes(1000, 128) == 1000 * bytes


def test_a_group_that_is_not_full_has_a_whole_scale() -> None:
    assert number_format("int4").matrix_bytes(130, 1) == 65 + 2 * 2


def test_unknown_names_and_storage_only_formats() -> None:
    with pytest.raises(UsageError, match='--kv-dtype: unknown number format "fp9"'):
        number_format("fp9", "--kv-dtype")
    with pytest.raises(UsageError, match="--weights-dtype int4"):
        compute_dtype("int4")
    assert activation_format("torch.bfloat16").name == "bfloat16"


def test_quantised_weights_of_a_step(qwen: Architecture, decode: StepTheory) -> None:
    int4 = step_theory(qwen, StepShape(weights_dtype="int4"))
    # Per layer: q, o, k, v, gate, up, down. All K are multiples of 128.
    elements = 2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18944
    saved = 28 * elements * 2 - 28 * (elements // 2 + elements // 128 * 2)
    assert decode.weight_bytes_read - int4.weight_bytes_read == saved
    assert int4.flops == decode.flops
    assert int4.operators[-1] == decode.operators[-1]  # lm_head stays as it is


def test_a_quantised_cache(qwen: Architecture, decode: StepTheory) -> None:
    fp8 = step_theory(qwen, StepShape(kv_dtype="fp8"))
    assert fp8.kv_bytes_per_token == 57344 // 2
    assert decode.compulsory_bytes - fp8.compulsory_bytes == 2048 * 57344 // 2
    written = {o.name: o.bytes_out for o in fp8.operators}
    assert written["v_proj"] == 512  # straight into the cache
    assert written["rope"] == 28 * 128 * 2 + 512
