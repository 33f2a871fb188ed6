"""Which evidence a machine gives, and what happens to a level that it cannot give."""

from __future__ import annotations

import msgspec
import pytest

from rooflens.errors import ProfilerError
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.harness.evidence import choose_evidence, evidence_levels
from rooflens.harness.machine import GpuFacts

GPU = GpuFacts(
    name="NVIDIA H200", driver="580.65.06", compute_capability="9.0",
    memory_bytes=143 << 30, mig=False,
)  # fmt: skip
PACKAGES = {"torch": "2.13.0", "transformers": "5.24.0", "nvtx": "0.2.11", "ncu-report": "2026.3.1"}
CPU = Surroundings(packages=PACKAGES, torch_cuda=False, memory_available_bytes=16 << 30)
H200 = msgspec.structs.replace(
    CPU, gpus=(GPU,), torch_cuda=True, nsys="2025.3.1", ncu="2025.3.1", can_profile=True
)


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
        ({"nsys": ""}, ["timeline"]),
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
    with pytest.raises(ProfilerError, match="runs on cpu") as caught:
        choose_evidence(("timeline",), "cpu", evidence_levels(H200))
    assert "--device cuda" in caught.value.hint


def test_naming_levels_leaves_the_others_out_without_a_word() -> None:
    plan = choose_evidence(("theory", "timeline"), "cuda", evidence_levels(H200))
    assert plan.levels == ("theory", "counted", "timeline")
    assert plan.warnings == ()


def test_auto_on_a_cpu_run_is_quiet_about_gpu_evidence() -> None:
    plan = choose_evidence((), "cpu", evidence_levels(CPU))
    assert (plan.levels, plan.warnings) == (("theory", "counted"), ())
