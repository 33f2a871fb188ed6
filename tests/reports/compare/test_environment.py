"""Which differences forbid which comparison."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.model import Capture, Check, Machine, Model, Workload
from rooflens.reports.compare.environment import differences, failures, forbidden
from rooflens.reports.compare.records import EVERYTHING, Aspect
from tests import builders

GPU: dict[str, Any] = {
    "device": "cuda",
    "gpu": "NVIDIA H200",
    "driver": "570.1",
    "sm_clock_hz": 1.98e9,
}
WORK: dict[str, Any] = {
    "name": "decode",
    "batch": 1,
    "context": 2047,
    "query_tokens": 1,
    "dtype": "bfloat16",
}


def forbids(base: Any, head: Any) -> set[Aspect]:
    found = differences([base], [head])
    return {aspect for aspect in Aspect if forbidden(found, aspect)}


def on(**machine: Any) -> Any:
    return builders.run(machine=Machine(**(GPU | machine)))


def working(**workload: Any) -> Any:
    return builders.run(workload=Workload(**(WORK | workload)))


def test_equal_runs_differ_in_nothing() -> None:
    assert differences([on()], [on()]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "prefill"}, {"version": 2}, {"batch": 2}, {"context": 4095},
        {"query_tokens": 4}, {"dtype": "float16"}, {"logits": "all"}, {"layers_model": 32},
    ],
)  # fmt: skip
def test_another_workload_shape_or_dtype_forbids_everything(change: dict[str, Any]) -> None:
    base = working(logits="last", layers_model=28)
    head = working(**({"logits": "last", "layers_model": 28} | change))
    assert forbids(base, head) == set(EVERYTHING)


def test_another_model_forbids_everything_and_another_name_nothing() -> None:
    def of(**fields: Any) -> Any:
        defaults: dict[str, Any] = {"name": "a", "params": 10}
        return builders.run(model=Model(**(defaults | fields)))

    assert forbids(of(), of(params=11)) == set(EVERYTHING)
    assert forbids(of(config={"hidden": 1}), of(config={"hidden": 2})) == set(EVERYTHING)
    assert forbids(of(), of(name="b", params=None)) == set()


def test_another_gpu_forbids_everything_and_says_which() -> None:
    found = differences([on()], [on(gpu="Tesla T4")])
    assert "NVIDIA H200 against Tesla T4" in forbidden(found, Aspect.COUNTED)
    assert forbids(on(), on(gpu="Tesla T4")) == set(EVERYTHING)


def test_another_schema_version_forbids_everything() -> None:
    assert forbids(builders.run(), builders.run(schema_version=2)) == set(EVERYTHING)


@pytest.mark.parametrize("change", [{"driver": "580.2"}, {"sm_clock_hz": 1.2e9}, {"gpu_count": 2}])
def test_driver_and_clocks_forbid_times_and_not_bytes(change: dict[str, Any]) -> None:
    assert forbids(on(gpu_count=1), on(**({"gpu_count": 1} | change))) == {Aspect.TIME}


def test_a_clock_that_moves_by_less_than_five_percent_is_the_same() -> None:
    assert forbids(on(), on(sm_clock_hz=1.9e9)) == set()


def test_cpu_and_meta_share_counted_evidence_only() -> None:
    cpu, meta = (builders.run(machine=Machine(device=name)) for name in ("cpu", "meta"))
    assert forbids(cpu, meta) == {Aspect.MOVED, Aspect.KERNELS, Aspect.TIME}


def test_layers_that_ran_forbid_what_was_measured_on_them() -> None:
    assert forbids(working(layers_run=28), working(layers_run=4)) == {Aspect.MOVED, Aspect.TIME}


def test_the_cache_regime_forbids_moved_bytes() -> None:
    def captured(control: str) -> Any:
        regime = {"cache control": control}
        capture = Capture(file="a", format="ncu", tool="ncu", rows=1, regime=regime)
        return builders.run(captures=(capture,))

    assert forbids(captured("all"), captured("none")) == {Aspect.MOVED}
    assert forbids(captured("all"), captured("all")) == set()


def test_a_capture_that_failed_its_checks_is_not_compared() -> None:
    failed = builders.run(
        evidence=("counters",),
        checks=(Check(id="kernels", outcome="failed", message="no kernel was profiled"),),
    )
    found = differences([builders.run(evidence=("counters",))], [failed])
    why = "check kernels of the head failed: no kernel was profiled"
    assert forbidden(found, Aspect.MOVED) == failures(found) == why
    assert not forbidden(found, Aspect.COUNTED)


def test_versions_and_attention_are_told_and_forbid_nothing() -> None:
    base = builders.run(tools={"torch": "2.12"}, workload=Workload(**WORK, attention="sdpa"))
    head = builders.run(tools={"torch": "2.13"}, workload=Workload(**WORK, attention="eager"))
    found = {item.name: item for item in differences([base], [head])}
    assert set(found) == {"torch", "attention"}
    assert forbids(base, head) == set()


def test_an_unknown_fact_is_told_and_forbids_nothing() -> None:
    found = differences([working()], [working(batch=None)])
    assert [(item.name, item.head, item.forbids) for item in found] == [("batch", "unknown", ())]


def test_runs_of_one_side_are_compared_with_each_other_too() -> None:
    assert differences([on(), on(gpu="Tesla T4")], [on()])[0].name == "GPU"
