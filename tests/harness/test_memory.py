"""Whether a step fits is said before allocation, with what would fit."""

from __future__ import annotations

import pytest

from rooflens.errors import ProfilerError, UsageError
from rooflens.harness.memory import (
    MemoryNeed,
    memory_need,
    refuse_if_too_large,
    shares_storage,
)
from rooflens.harness.plan import RunOptions, RunPlan, make_plan
from rooflens.model import Machine
from tests import builders

LAYER = 466_115_584
"""Bytes of one layer of the 7B in bf16, by hand: 233,057,792 parameters."""
TABLE = 152_064 * 3584 * 2


def plan(**fields: object) -> RunPlan:
    return make_plan(RunOptions(**({"device": "meta"} | fields)))  # type: ignore[arg-type]


def need(made: RunPlan, *, shared: bool = True, ops: tuple[object, ...] = ()) -> MemoryNeed:
    return memory_need(
        made.architecture,
        made.spec,
        dtype=made.dtype,
        kv_bytes_per_token=made.theory.kv_bytes_per_token,
        shared=shared,
        ops=ops,  # type: ignore[arg-type]
    )


def test_shared_weights_hold_one_layer_and_one_table() -> None:
    found = need(plan())
    assert found.weights == LAYER + TABLE + 2 * 3584
    # 57,344 bytes of keys and values a token in 28 layers, twice: kept and appended to.
    assert found.cache == 2 * 2048 * 57_344
    assert found.total == found.weights + found.cache


def test_full_weights_hold_the_model() -> None:
    assert need(plan(), shared=False).weights == 2 * 7_615_616_512


def test_fewer_layers_hold_less() -> None:
    found = need(plan(layers="2"), shared=False)
    assert found.weights == 2 * LAYER + 2 * TABLE + 2 * 3584
    assert found.cache == 2 * 2048 * 57_344 // 14


def test_activations_are_those_of_the_largest_op() -> None:
    small = builders.op(0, "aten.mul", outputs=(builders.tensor(1, (10,)),))
    large = builders.op(
        1,
        "aten.softmax",
        inputs=(builders.tensor(2, (1000,)), builders.tensor(3, (9000,), role="weight")),
        outputs=(builders.tensor(4, (1000,)),),
    )
    assert need(plan(), ops=(small, large)).activations == 2 * (2000 + 2000)


def test_sharing_needs_a_layer_several_times_the_cache() -> None:
    made = plan()
    for cache, shares in ((LAYER // 3, True), (LAYER // 3 + 1, False)):
        facts = Machine(device="cpu", last_level_cache_bytes=cache)
        assert shares_storage(made.architecture, made.spec, made.dtype, facts) is shares


def test_missing_weights_are_said_early(tmp_path: object) -> None:
    made = plan(device="cpu", weights=str(tmp_path))
    with pytest.raises(UsageError, match="safetensors"):
        shares_storage(made.architecture, made.spec, made.dtype, Machine(device="cpu"))


def test_a_step_that_fits_passes() -> None:
    made = plan()
    refuse_if_too_large(need(made), made.spec, 4 * 10**9, 28)
    refuse_if_too_large(need(made), made.spec, None, 28)


def test_what_would_fit_is_named() -> None:
    made = plan(batch=64, context=32768)
    found = need(made)
    with pytest.raises(ProfilerError) as caught:
        refuse_if_too_large(found, made.spec, 20 * 10**9, 28)
    text = str(caught.value)
    assert text.startswith("Not enough memory: this step holds about ")
    assert "20.00 GB of memory is free" in text
    assert "--device meta" in text
    batch = int(text.split("--batch ")[1].split()[0])
    context = int(text.split("--context ")[1].split()[0])
    smaller = plan(batch=batch, context=32768)
    refuse_if_too_large(need(smaller), smaller.spec, 20 * 10**9, 28)
    layers = int(text.split("--layers ")[1].split()[0])
    fewer = plan(batch=64, context=32768, layers=str(layers))
    refuse_if_too_large(need(fewer), fewer.spec, 20 * 10**9, layers)
    shorter = plan(batch=64, context=context)
    refuse_if_too_large(need(shorter), shorter.spec, 20 * 10**9, 28)


def test_weights_that_do_not_fit_suggest_shared_ones() -> None:
    made = plan(device="cpu", weights="dummy-full")
    with pytest.raises(ProfilerError, match="--weights dummy"):
        refuse_if_too_large(need(made, shared=False), made.spec, 8 * 10**9, 28)
