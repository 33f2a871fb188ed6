"""From the layers that ran to the whole model, and when that is refused."""

from __future__ import annotations

import pytest

from rooflens.harness.timing import Sample, class_times, layers_are_alike, step_time
from rooflens.model import Op
from tests import builders


def step(layers: int, *, timed: int | None = None, odd: int | None = None) -> tuple[Op, ...]:
    """A projection of 10 ns in each of the first `timed` layers, and an lm_head of 30 ns."""
    ops = []
    for layer in range(layers):
        shape = (2, 2) if layer == odd else (4, 4)
        ops.append(
            builders.op(
                layer, "aten.mm", layer=layer, op_class="q_proj",
                outputs=(builders.tensor(layer, shape),),
                time_ns=10.0 if timed is None or layer < timed else None,
            )
        )  # fmt: skip
    ops.append(builders.op(layers, "aten.mm", op_class="lm_head", time_ns=30.0))
    return tuple(ops)


def test_all_layers_give_the_median_as_it_is() -> None:
    sample = Sample(layers_run=4, layers_model=4)
    time = step_time((100.0, 300.0, 120.0), step(4), sample)
    assert (time.value, time.unit, time.source, time.extrapolated_from) == (120.0, "ns", "host", ())


def test_sampled_layers_are_scaled_by_their_share_of_the_step() -> None:
    # 2 of 8 layers ran: 20 ns in layers, 30 ns outside. 100 ns wall -> 40 ns x 4 + 60 ns.
    sample = Sample(layers_run=2, layers_model=8)
    time = step_time((100.0,), step(8, timed=2), sample)
    assert time.value == pytest.approx(220.0)
    assert time.extrapolated_from == (0, 1)


def test_class_times_scale_only_what_is_in_layers() -> None:
    times, reason = class_times(step(8, timed=2), Sample(layers_run=2, layers_model=8))
    assert reason == ""
    assert times["q_proj", None].value == 80.0
    assert times["q_proj", None].extrapolated_from == (0, 1)
    assert times["lm_head", None].value == 30.0
    assert times["lm_head", None].extrapolated_from == ()


def test_layers_that_differ_are_not_scaled() -> None:
    ops = step(8, timed=2, odd=5)
    assert not layers_are_alike(ops)
    sample = Sample(layers_run=2, layers_model=8)
    assert "not alike" in (step_time((100.0,), ops, sample).absent or "")
    assert class_times(ops, sample) == ({}, step_time((100.0,), ops, sample).absent)


def test_differing_layers_that_all_ran_are_fine() -> None:
    ops = step(8, odd=5)
    sample = Sample(layers_run=8, layers_model=8)
    assert step_time((100.0,), ops, sample).value == 100.0
    assert class_times(ops, sample)[0]["q_proj", None].value == 80.0


def test_without_op_times_the_reason_is_kept() -> None:
    sample = Sample(layers_run=2, layers_model=8, no_op_times="they need a timeline")
    time = step_time((100.0,), step(8), sample)
    assert time.absent == "only 2 of 8 layers ran and they need a timeline"
    assert class_times(step(8), sample) == ({}, "they need a timeline")
    whole = Sample(layers_run=8, layers_model=8, no_op_times="they need a timeline")
    assert step_time((100.0,), step(8), whole).value == 100.0


def test_no_step_no_time() -> None:
    assert step_time((), step(2), Sample(layers_run=2, layers_model=2)).absent == "no step ran"
