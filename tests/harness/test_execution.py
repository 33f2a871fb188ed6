"""Steps run for real on a tiny model, and their op times meet the counted ops."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rooflens.harness.counting import count_step
from rooflens.harness.execution import Execution, _median_times, execute, join_times
from rooflens.harness.progress import Progress
from rooflens.model import Op
from rooflens.workloads.registry import workload
from rooflens.workloads.spec import StepSpec
from tests import builders


def tiny_spec(tmp_path: Path, **fields: object) -> StepSpec:
    model = str(builders.tiny_config(tmp_path / "tiny"))
    return workload("decode").spec(**({"model": model, "context": 15} | fields))


def run(spec: StepSpec, progress: Progress | None = None) -> Execution:
    return execute(spec, warmup=1, steps=2, cache_bytes=None, progress=progress or Progress())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("shape", [{}, {"workload": "prefill", "context": 0, "prompt": 8}])
def test_what_runs_is_what_was_counted(
    tmp_path: Path, attention: str, shape: dict[str, object]
) -> None:
    fields = {"attention": attention} | shape
    kind = workload(str(fields.pop("workload", "decode")))
    spec = kind.spec(model=str(builders.tiny_config(tmp_path / "tiny")), **fields)
    done = run(spec)
    ops, mismatch = join_times(count_step(spec), done.recorded, 2)
    assert mismatch == ""
    assert all(op.time_ns is not None and op.time_ns > 0 for op in ops)


def test_steps_are_timed_without_the_warm_up(tmp_path: Path) -> None:
    progress = Progress()
    done = run(tiny_spec(tmp_path), progress)
    assert len(done.wall_ns) == 2
    assert all(took > 0 for took in done.wall_ns)
    assert done.weights == "dummy-full"
    names = [stage.name.split(" (")[0] for stage in progress.stages]
    assert names == [
        "Filling weights", "Filling the KV cache", "Running the step",
        "Timing every op in 3 further steps",
    ]  # fmt: skip


def test_every_step_starts_from_the_same_cache(tmp_path: Path) -> None:
    # The recorded steps come after three others: with a growing cache they would attend more keys.
    spec = tiny_spec(tmp_path, attention="eager")
    done = run(spec)
    lengths = {t.shape[-1] for op in done.recorded if "softmax" in op.name for t in op.outputs}
    assert lengths == {16}


def test_only_the_layers_that_ran_get_times(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    done = run(spec.on("cpu", layers=1))
    ops, mismatch = join_times(count_step(spec), done.recorded, 1)
    assert mismatch == ""
    assert {op.layer for op in ops if op.time_ns is None} == {1}
    assert {op.layer for op in ops if op.time_ns is not None} == {0, None}


def test_a_different_op_is_named_and_no_time_is_given(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    counted = count_step(spec)
    recorded = list(run(spec).recorded)
    recorded[3] = msgspec.structs.replace(recorded[3], name="aten.roll")
    ops, mismatch = join_times(counted, recorded, 2)
    assert "op 3" in mismatch and "aten.roll" in mismatch
    assert all(op.time_ns is None for op in ops)


def test_a_missing_op_is_counted(tmp_path: Path) -> None:
    spec = tiny_spec(tmp_path)
    counted = count_step(spec)
    recorded = run(spec).recorded
    ops, mismatch = join_times(counted, recorded[:-1], 2)
    assert mismatch == f"{len(counted)} ops were counted, {len(counted) - 1} ran"
    assert ops == counted


def test_a_product_may_be_mm_here_and_bmm_there() -> None:
    mine = builders.op(0, "aten.mm", module="lm_head", flops=64)
    for name, flops, fits in (("aten.bmm", 64, True), ("aten.bmm", 32, False),
                              ("aten.add", 64, False)):  # fmt: skip
        theirs = builders.op(0, name, module="lm_head", flops=flops, time_ns=5.0)
        _, mismatch = join_times((mine,), (theirs,), 1)
        assert (mismatch == "") is fits


def test_op_times_are_medians_of_the_recordings() -> None:
    recordings: list[tuple[Op, ...]] = [
        (builders.op(0, "aten.mm", time_ns=first), builders.op(1, "aten.add", time_ns=second))
        for first, second in ((10.0, 1.0), (90.0, 2.0), (12.0, 3.0))
    ]
    assert [op.time_ns for op in _median_times(recordings)] == [12.0, 2.0]
    untimed = (builders.op(0, "aten.mm"), builders.op(1, "aten.add"))
    assert [op.time_ns for op in _median_times([*recordings, untimed])] == [12.0, 2.0]
    assert [op.time_ns for op in _median_times([untimed])] == [None, None]
    recordings[1] = recordings[1][:1]
    assert _median_times(recordings) == recordings[0]
