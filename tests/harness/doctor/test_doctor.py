"""The doctor's checks on machines that are planted, and its answers as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from rooflens.harness.commands.doctor import command
from rooflens.harness.doctor import CHECKS, NEEDED_BY_RUN, examine, report, surroundings
from rooflens.harness.doctor.profilers import driver_branch_for, newest_ncu_for
from rooflens.harness.doctor.report import diagnose, render_json, render_text
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.harness.machine import GpuFacts
from rooflens.model import Check


def gpu(**fields: object) -> GpuFacts:
    return msgspec.structs.replace(
        GpuFacts(
            name="NVIDIA H200", driver="570.172.08", compute_capability="9.0",
            memory_bytes=143 << 30, mig=False,
        ),
        **fields,
    )  # fmt: skip


PACKAGES = {"torch": "2.13.0", "transformers": "5.24.0", "nvtx": "0.2.11", "ncu-report": "2026.3.1"}
CPU = Surroundings(
    packages=PACKAGES, torch_cuda=False, nsys="2022.4.2.1", ncu="2022.3.0.0",
    memory_available_bytes=16 << 30,
)  # fmt: skip
CUDA = msgspec.structs.replace(CPU, gpus=(gpu(),), torch_cuda=True, can_profile=True)


def check(found: Surroundings, id: str) -> Check:
    return {check.id: check for check in examine(found)}[id]


def test_a_cpu_machine_has_no_failure_and_says_what_it_cannot_do() -> None:
    outcomes = {check.id: check.outcome for check in examine(CPU)}
    assert "failed" not in outcomes.values()
    assert outcomes["gpu"] == outcomes["counter-permission"] == "could_not_look"


def test_a_good_gpu_machine_passes_everything() -> None:
    found = msgspec.structs.replace(CUDA, clocks="0x0000000000000001")
    assert {c.outcome for c in examine(found)} == {"passed"}


@pytest.mark.parametrize(
    ("change", "id", "outcome", "words"),
    [
        ({"packages": {}}, "packages", "failed", "torch is not installed"),
        ({"packages": PACKAGES | {"torch": "2.4.1+cpu"}}, "packages", "failed", "older than 2.6"),
        ({"import_error": "OSError: libfoo"}, "packages", "failed", "libfoo"),
        ({"packages": PACKAGES | {"nvtx": "0.2.13"}}, "nvtx", "warning", "no ranges"),
        ({"memory_available_bytes": 10**9}, "memory", "failed", "--device meta"),
        ({"memory_available_bytes": None}, "memory", "could_not_look", "memory"),
        ({"temporary_writable": False}, "temporary-folder", "failed", "TMPDIR"),
        ({"temporary_free_bytes": 10**8}, "temporary-folder", "warning", "100.0 MB"),
        ({"home_writable": False}, "home", "warning", "HOME"),
        ({"lock_of_other_user": True}, "ncu-lock", "warning", "TMPDIR"),
        ({"ncu": ""}, "ncu", "warning", "not on the PATH"),
        ({"ncu": "", "other_ncus": ("/opt/x/ncu",)}, "ncu", "warning", 'PATH="/opt/x:'),
        ({"driver": "535.1", "gpus": ()}, "gpu", "failed", "--gpus all"),
        ({"wsl": True}, "wsl", "warning", "WSL2"),
        ({"gvisor": True}, "sandbox", "failed", "runc"),
    ],
)
def test_a_fault_is_named_with_its_fix(
    change: dict[str, object], id: str, outcome: str, words: str
) -> None:
    found = check(msgspec.structs.replace(CPU, **change), id)
    assert found.outcome == outcome
    assert words in f"{found.message} {found.fix}"
    assert "\n" not in found.message + found.fix


@pytest.mark.parametrize(
    ("change", "id", "outcome", "words"),
    [
        ({"torch_cuda": False, "torch_is_cpu_build": True}, "torch-cuda", "failed", "CPU build"),
        ({"gpus": (gpu(mig=True),)}, "mig", "warning", "DRAM and L2"),
        ({"gpus": (gpu(name="GRID T4-8Q"),)}, "vgpu", "warning", "vGPU"),
        ({"counter_owners": ("nv-hostengine",)}, "counter-owner", "warning", "dcgmi profile"),
        ({"clocks": "0x0000000000000040"}, "clocks", "warning", "0x0000000000000040"),
        ({"clocks": ""}, "clocks", "could_not_look", "throttle"),
    ],
)
def test_a_gpu_fault_is_named_with_its_fix(
    change: dict[str, object], id: str, outcome: str, words: str
) -> None:
    found = check(msgspec.structs.replace(CUDA, **change), id)
    assert found.outcome == outcome
    assert words in f"{found.message} {found.fix}"


@pytest.mark.parametrize(
    ("driver", "container", "words"),
    [
        ("570.172.08", True, "--cap-add=PERFMON"),
        ("550.54.14", True, "--cap-add=SYS_ADMIN"),
        ("570.172.08", False, "NVreg_RestrictProfilingToAdminUsers=0"),
    ],
)
def test_the_permission_fix_is_the_one_for_this_set_up(
    driver: str, container: bool, words: str
) -> None:
    found = msgspec.structs.replace(
        CUDA, gpus=(gpu(driver=driver),), can_profile=False, admin_only=True, container=container
    )
    refused = check(found, "counter-permission")
    assert refused.outcome == "failed"
    assert words in refused.fix
    assert "ERR_NVGPUCTRPERM" in refused.message


@pytest.mark.parametrize(
    ("ncu", "driver", "outcome"),
    [
        # Pairs seen in public reports.
        ("2025.3.1", "570.172.08", "warning"),
        ("2025.3.1", "576.88", "warning"),
        ("2025.2.1", "576.88", "passed"),
        ("2025.4.1", "573.24", "warning"),
        ("2022.4.1", "526.47", "passed"),
        ("2031.1.0", "570.172.08", "could_not_look"),
    ],
)
def test_ncu_newer_than_the_driver(ncu: str, driver: str, outcome: str) -> None:
    found = msgspec.structs.replace(CUDA, ncu=ncu, gpus=(gpu(driver=driver),))
    assert check(found, "ncu-driver").outcome == outcome


def test_an_older_ncu_that_fits_is_offered() -> None:
    installed = (
        "/opt/nvidia/nsight-compute/2025.1.0/ncu",
        "/opt/nvidia/nsight-compute/2024.1.1/ncu",
    )
    found = msgspec.structs.replace(CUDA, ncu="2025.3.1", other_ncus=installed)
    assert installed[0] in check(found, "ncu-driver").fix


def test_driver_table_is_sorted_so_that_newest_means_newest() -> None:
    assert newest_ncu_for(530) == "2023.1"
    assert newest_ncu_for(400) is None
    assert driver_branch_for("2022.3.0.0") == 520


def test_capabilities_decide_not_the_user_id(tmp_path: Path) -> None:
    status = tmp_path / "proc/self/status"
    status.parent.mkdir(parents=True)
    for held, expected in (("00000000a80425fb", False), (f"{1 << 38:016x}", True),
                           (f"{1 << 21:016x}", True)):  # fmt: skip
        status.write_text(f"Name:\tx\nCapEff:\t{held}\n")
        assert surroundings.can_profile(tmp_path) is expected


def test_the_driver_setting_is_read(tmp_path: Path) -> None:
    assert surroundings.admin_only(tmp_path) is None
    params = tmp_path / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True)
    params.write_text("EnableMSI: 1\nRmProfilingAdminOnly: 1\n")
    assert surroundings.admin_only(tmp_path) is True


def test_a_running_counter_owner_is_seen(tmp_path: Path) -> None:
    for pid, name in (("12", "bash"), ("13", "nv-hostengine")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "comm").write_text(name + "\n")
    assert surroundings.running(("nv-hostengine", "dcgmi"), tmp_path) == ("nv-hostengine",)


def test_looking_at_this_machine_works_without_torch() -> None:
    found = surroundings.look(import_torch=False)
    assert found.torch_cuda is None
    assert found.packages["torch"]


def test_check_ids_are_unique_and_needed_ones_exist() -> None:
    ids = [check.id for check in examine(CPU)]
    assert len(ids) == len(set(ids)) <= len(CHECKS)
    assert set(ids) >= NEEDED_BY_RUN


def test_text_has_one_line_a_check_and_the_evidence() -> None:
    text = render_text(diagnose(msgspec.structs.replace(CPU, ncu=""), collect=False))
    assert "  ok   torch 2.13.0" in text
    assert "  warn ncu (Nsight Compute) is not on the PATH" in text
    assert "       fix: Install nsight-compute" in text
    assert "  counted   yes" in text
    assert "  counters  no: There is no NVIDIA GPU here" in text


def test_host_ranges_are_offered_where_nsys_works_without_a_gpu() -> None:
    passed = Check(id="nsys-trial", outcome="passed", message="3 of 3.")
    made = diagnose(CPU, collect=False)
    assert "host ranges" not in render_text(made)
    tried = msgspec.structs.replace(made, checks=(*made.checks, passed))
    assert "host ranges only: --evidence timeline" in render_text(tried)


def test_json_holds_checks_and_evidence() -> None:
    made = json.loads(render_json(diagnose(CPU, collect=False)))
    assert {level["name"]: level["works"] for level in made["evidence"]} == {
        "theory": True, "counted": True, "timeline": False, "counters": False,
    }  # fmt: skip
    assert {check["outcome"] for check in made["checks"]} == {"passed", "could_not_look"}


def test_exit_code_is_4_only_when_run_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflens.errors import ProfilerError

    monkeypatch.setattr(report, "tiny_collections", lambda found: ())
    monkeypatch.setattr(report, "look", lambda: CPU)
    assert CliRunner().invoke(command, ["--json"]).exit_code == 0
    broken = msgspec.structs.replace(CPU, memory_available_bytes=10**8)
    monkeypatch.setattr(report, "look", lambda: broken)
    result = CliRunner().invoke(command, [])
    assert isinstance(result.exception, ProfilerError)
    assert result.exception.exit_code == 4
