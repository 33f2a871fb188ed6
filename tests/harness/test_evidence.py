"""Which evidence a machine gives, and what happens to a level that it cannot give."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rooflens.errors import ProfilerError
from rooflens.harness import evidence
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.harness.evidence import choose_evidence, evidence_levels
from rooflens.harness.machine import GpuFacts
from rooflens.harness.progress import Progress
from rooflens.model import Run
from tests import builders

SHIPPED = dict(evidence.COLLECTORS)

GPU = GpuFacts(
    name="NVIDIA H200", driver="580.65.06", compute_capability="9.0",
    memory_bytes=143 << 30, mig=False,
)  # fmt: skip
PACKAGES = {"torch": "2.13.0", "transformers": "5.24.0", "nvtx": "0.2.11", "ncu-report": "2026.3.1"}
CPU = Surroundings(packages=PACKAGES, torch_cuda=False, memory_available_bytes=16 << 30)
H200 = msgspec.structs.replace(
    CPU, gpus=(GPU,), torch_cuda=True, nsys="2025.3.1", ncu="2025.3.1", can_profile=True
)


@pytest.fixture(autouse=True)
def collectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted collectors for both levels, whatever this release ships."""
    planted = types.ModuleType("planted_collectors")
    vars(planted).update(add_timeline=add_timeline, refuse_counters=refuse_counters)
    monkeypatch.setitem(sys.modules, planted.__name__, planted)
    table = {"timeline": "add_timeline", "counters": "refuse_counters"}
    targets = {level: f"{planted.__name__}:{name}" for level, name in table.items()}
    monkeypatch.setattr(evidence, "COLLECTORS", targets)


def add_timeline(plan: object, run: Run, folder: Path, progress: object) -> Run:
    (folder / "timeline.nsys-rep").write_text("raw")
    return msgspec.structs.replace(run, labels={"timeline": "yes"})


def refuse_counters(plan: object, run: Run, folder: Path, progress: object) -> Run:
    raise ProfilerError("ERR_NVGPUCTRPERM.", "Run with sudo.")


def collect_all(named: tuple[str, ...], folder: Path) -> Run:
    levels = ("theory", "counted", "timeline", "counters")
    run = builders.run(evidence=levels)
    plan: Any = None
    return evidence.collect(levels, named, plan, run, folder, Progress())


def test_a_collector_that_fails_under_auto_costs_only_its_level(tmp_path: Path) -> None:
    run = collect_all((), tmp_path)
    assert run.labels == {"timeline": "yes"}
    assert run.evidence == ("theory", "counted", "timeline")
    (check,) = run.checks
    assert (check.id, check.outcome, check.fix) == (
        "evidence-counters",
        "warning",
        "Run with sudo.",
    )
    assert "ERR_NVGPUCTRPERM" in check.message
    assert (tmp_path / "timeline.nsys-rep").exists()


def test_a_named_level_that_fails_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match="ERR_NVGPUCTRPERM"):
        collect_all(("counters",), tmp_path)


def test_a_level_without_a_collector_points_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "COLLECTORS", {})
    plan = choose_evidence((), "cuda", evidence_levels(H200))
    assert plan.levels == ("theory", "counted")
    assert [warning.id for warning in plan.warnings] == ["evidence-timeline", "evidence-counters"]
    assert all("import" in warning.fix for warning in plan.warnings)


def test_every_collector_of_this_release_exists() -> None:
    for target in SHIPPED.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def working(found: Surroundings) -> list[str]:
    return [level.name for level in evidence_levels(found) if level.works]


def test_a_cpu_machine_gives_theory_and_counts() -> None:
    assert working(CPU) == ["theory", "counted"]
    reasons = [level.reason for level in evidence_levels(CPU) if not level.works]
    assert reasons == ["There is no NVIDIA GPU here"] * 2


def test_a_whole_gpu_with_permission_gives_everything() -> None:
    assert working(H200) == ["theory", "counted", "timeline", "counters"]


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"ncu": ""}, ["counters"]),
        ({"nsys": ""}, []),
        ({"can_profile": False, "admin_only": True}, ["counters"]),
        ({"gvisor": True}, ["counters"]),
        ({"torch_cuda": False}, ["timeline", "counters"]),
        ({"temporary_writable": False}, ["timeline", "counters"]),
        # Cannot be read: only a capture tells, so it is not given up beforehand.
        ({"can_profile": False, "admin_only": None}, []),
        # Warnings spoil numbers but do not forbid a capture.
        ({"counter_owners": ("nv-hostengine",)}, []),
    ],
)
def test_what_each_fault_costs(change: dict[str, object], lost: list[str]) -> None:
    found = msgspec.structs.replace(H200, **change)
    assert [level.name for level in evidence_levels(found) if not level.works] == lost


def test_auto_falls_back_with_a_warning_that_has_a_fix() -> None:
    found = msgspec.structs.replace(H200, can_profile=False, admin_only=True)
    plan = choose_evidence((), "cuda", evidence_levels(found))
    assert plan.levels == ("theory", "counted", "timeline")
    (warning,) = plan.warnings
    assert (warning.id, warning.outcome) == ("evidence-counters", "warning")
    assert "administrators only" in warning.message
    assert warning.fix


def test_named_evidence_that_cannot_be_had_ends_the_run_with_the_fix() -> None:
    with pytest.raises(ProfilerError, match="--evidence counters cannot be had here") as caught:
        choose_evidence(("counters",), "cpu", evidence_levels(CPU))
    assert caught.value.exit_code == 4
    assert "--gpu" in caught.value.hint


def test_named_evidence_on_the_wrong_device_says_so() -> None:
    with pytest.raises(ProfilerError, match="runs on meta") as caught:
        choose_evidence(("timeline",), "meta", evidence_levels(H200))
    assert "--device cuda" in caught.value.hint


def test_host_ranges_are_recorded_on_a_cpu_when_a_timeline_is_named() -> None:
    plan = choose_evidence(("timeline",), "cpu", evidence_levels(CPU))
    assert plan.levels == ("theory", "counted", "timeline")


def test_naming_levels_leaves_the_others_out_without_a_word() -> None:
    plan = choose_evidence(("theory", "timeline"), "cuda", evidence_levels(H200))
    assert plan.levels == ("theory", "counted", "timeline")
    assert plan.warnings == ()


def test_auto_on_a_cpu_run_is_quiet_about_gpu_evidence() -> None:
    plan = choose_evidence((), "cpu", evidence_levels(CPU))
    assert (plan.levels, plan.warnings) == (("theory", "counted"), ())
