"""Whose roof a run is judged by, on every kind of device, and what is said about it."""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rooflens.harness import roofs
from rooflens.harness.ceilings import Ceilings
from rooflens.harness.plan import RunOptions, RunPlan, make_plan
from rooflens.harness.progress import Progress
from rooflens.reports.theory.gpus import Gpu, gpu

NOW = datetime.now(UTC).isoformat(timespec="seconds")
FAST = Ceilings(
    name="2-core CPU", bandwidth_bytes_per_s=20e9,
    peak_flops_per_s={"bfloat16": 2e12, "float32": 2e11},
    buffer_bytes=1 << 20, cache_bytes=1 << 20, probed_at=NOW,
)  # fmt: skip


def plan(device: str, **options: Any) -> RunPlan:
    """A plan on a device that this machine need not have."""
    made = make_plan(RunOptions(device="meta", **options))
    spec = dataclasses.replace(made.spec, device=device)
    return msgspec.structs.replace(made, spec=spec)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Planted ceilings and GPU of this machine; tests change the entries."""
    planted: dict[str, Any] = {"ceilings": FAST, "raised": FAST, "gpu": None}

    def own_gpu() -> Gpu | None:
        return gpu(planted["gpu"]) if planted["gpu"] else None

    monkeypatch.setattr(roofs, "is_cached", lambda *_: True)
    monkeypatch.setattr(roofs, "measured_ceilings", lambda *_, **__: planted["ceilings"])
    monkeypatch.setattr(roofs, "raise_ceilings", lambda *_: planted["raised"])
    monkeypatch.setattr(roofs, "_this_gpu", own_gpu)
    return planted


def names(found: roofs.Roofs) -> list[tuple[str, str, bool]]:
    return [(roof.name, roof.kind, roof.prediction) for roof in found.all]


def choose(made: RunPlan, out: io.StringIO | None = None) -> roofs.Roofs:
    return roofs.choose_roofs(made, Progress(out or io.StringIO()))


def test_a_cpu_run_is_judged_by_this_cpu(machine: dict[str, Any]) -> None:
    assert names(choose(plan("cpu"))) == [("2-core CPU", "measured", False)]


def test_a_named_gpu_comes_first_and_is_a_prediction(machine: dict[str, Any]) -> None:
    assert names(choose(plan("cpu", gpu="h200"))) == [
        ("H200 SXM", "data sheet", True),
        ("2-core CPU", "measured", False),
    ]


def test_meta_has_only_a_named_roof(machine: dict[str, Any]) -> None:
    assert choose(plan("meta")).all == ()
    assert names(choose(plan("meta", gpu="4090"))) == [("RTX 4090", "data sheet", True)]


def test_a_gpu_run_has_its_data_sheet_and_what_was_measured(machine: dict[str, Any]) -> None:
    machine["gpu"] = "NVIDIA H200"
    assert names(choose(plan("cuda"))) == [
        ("H200 SXM", "data sheet", False),
        ("2-core CPU", "measured", False),
    ]


def test_naming_the_gpu_that_runs_is_no_prediction(machine: dict[str, Any]) -> None:
    machine["gpu"] = "NVIDIA H200"
    assert choose(plan("cuda", gpu="h200")).all[0].prediction is False
    assert choose(plan("cuda", gpu="4090")).all[0].prediction is True


def test_an_unknown_gpu_is_judged_by_measurement(machine: dict[str, Any]) -> None:
    assert names(choose(plan("cuda"))) == [("2-core CPU", "measured", False)]


def test_without_a_probe_there_is_no_roof_and_it_is_said(machine: dict[str, Any]) -> None:
    machine["ceilings"] = None
    found = choose(plan("cpu"))
    assert found.all == ()
    assert [(check.id, check.outcome) for check in found.checks] == [("ceilings", "could_not_look")]


def test_a_cpu_slow_in_bf16_gets_a_hint_on_standard_error(machine: dict[str, Any]) -> None:
    peaks = {"bfloat16": 5e10, "float32": 2e11}
    machine["ceilings"] = msgspec.structs.replace(FAST, peak_flops_per_s=peaks)
    out = io.StringIO()
    checks = choose(plan("cpu"), out).checks
    assert "Hint: bfloat16 products run 4.000× slower than float32" in out.getvalue()
    assert "--dtype float32" in out.getvalue()
    assert [check.id for check in checks] == ["ceilings", "dtype-speed"]
    quiet = io.StringIO()
    machine["ceilings"] = FAST
    assert [check.id for check in choose(plan("cpu"), quiet).checks] == ["ceilings"]
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({}, "passed", "probed today"),
        ({"probed_at": (datetime.now(UTC) - timedelta(days=3.5)).isoformat()}, "passed", "3 days"),
        ({"probed_at": (datetime.now(UTC) - timedelta(days=40)).isoformat()}, "warning", "40 days"),
        ({"core_share": 0.5}, "warning", "too low"),
    ],
)
def test_age_and_disturbance_of_the_probe(
    machine: dict[str, Any], change: dict[str, Any], outcome: str, words: str
) -> None:
    machine["ceilings"] = msgspec.structs.replace(FAST, **change)
    (check,) = choose(plan("cpu")).checks
    assert check.outcome == outcome
    assert words in check.message


def test_a_step_below_its_floor_raises_the_ceiling(machine: dict[str, Any]) -> None:
    # 14.26 GB at 20 GB/s: a floor of 0.713 s.
    machine["raised"] = msgspec.structs.replace(FAST, bandwidth_bytes_per_s=25e9)
    made, progress = plan("cpu"), Progress(io.StringIO())
    before = choose(made)
    after = roofs.raise_if_beaten(made, before, 0.6e9, progress)
    assert after.all[0].bandwidth_bytes_per_s == 25e9
    for step_ns in (0.8e9, None):
        assert roofs.raise_if_beaten(made, before, step_ns, progress) is before


def test_a_data_sheet_is_never_raised(machine: dict[str, Any]) -> None:
    made = plan("cpu", gpu="h200")
    before = choose(made)
    assert roofs.raise_if_beaten(made, before, 1.0, Progress(io.StringIO())) is before
