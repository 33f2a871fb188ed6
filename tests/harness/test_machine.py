"""Machine facts are read from planted /proc and /sys trees, so any machine can be tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.harness import machine


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def test_cpu_model_is_read(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU 3000 @ 2 GHz\n"})
    assert machine.cpu_model(tmp_path) == "Some CPU 3000 @ 2 GHz"


def test_cpu_without_a_name_is_called_by_its_architecture(tmp_path: Path) -> None:
    assert machine.cpu_model(tmp_path)


def test_container_limit_below_memory_is_the_memory(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:       1000 kB\nMemAvailable:    900 kB\n",
            "sys/fs/cgroup/memory.max": "512000\n",
            "sys/fs/cgroup/memory.current": "200000\n",
            "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 50000\n",
        },
    )
    assert machine.memory_total_bytes(tmp_path) == 512_000
    assert machine.memory_available_bytes(tmp_path) == 512_000 - 200_000 + 50_000


def test_unlimited_container_has_the_machine_memory(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:       1000 kB\nMemAvailable:    900 kB\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert machine.memory_total_bytes(tmp_path) == 1000 * 1024
    assert machine.memory_available_bytes(tmp_path) == 900 * 1024


def test_old_cgroups_limit_counts(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable:    900 kB\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "300000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "100000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1000\n",
        },
    )
    assert machine.memory_available_bytes(tmp_path) == 201_000


def test_unknown_memory_is_none_not_zero(tmp_path: Path) -> None:
    assert machine.memory_available_bytes(tmp_path) is None


def plant_cache(root: Path, cpu: int, shared_by: str, size: str) -> None:
    cache = f"sys/devices/system/cpu/cpu{cpu}/cache"
    for index, level, kind, mine, shared in (
        (0, 1, "Data", "48K", str(cpu)),
        (1, 1, "Instruction", "999M", str(cpu)),
        (3, 3, "Unified", size, shared_by),
    ):
        folder = f"{cache}/index{index}"
        plant(root, {
            f"{folder}/level": f"{level}\n", f"{folder}/type": f"{kind}\n",
            f"{folder}/size": f"{mine}\n", f"{folder}/shared_cpu_list": f"{shared}\n",
        })  # fmt: skip


def test_a_shared_last_level_cache_counts_once(tmp_path: Path) -> None:
    for cpu in (0, 1):
        plant_cache(tmp_path, cpu, "0-1", "107520K")
    assert machine.last_level_cache_bytes(tmp_path) == 107_520 * 1024


def test_caches_of_several_chiplets_add_up(tmp_path: Path) -> None:
    for cpu, shared_by in enumerate(("0-1", "0-1", "2-3", "2-3")):
        plant_cache(tmp_path, cpu, shared_by, "32M")
    assert machine.last_level_cache_bytes(tmp_path) == 64 << 20


def test_an_unknown_cache_is_none(tmp_path: Path) -> None:
    assert machine.last_level_cache_bytes(tmp_path) is None


def test_meta_run_names_no_hardware() -> None:
    facts = machine.machine_facts("meta")
    assert (facts.device, facts.cpu, facts.cores, facts.memory_bytes) == ("meta", "", None, None)


def test_facts_hold_no_host_user_or_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted-secret")
    text = str(machine.machine_facts("cpu")) + str(machine.package_versions())
    import getpass
    import socket

    assert "planted-secret" not in text
    assert str(Path.home()) + "/" not in text
    assert socket.gethostname() not in text
    assert f"user={getpass.getuser()}" not in text


def test_driver_version_of_both_module_flavours(tmp_path: Path) -> None:
    closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Mar  5\n"
    opened = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\n"
    for text, version in ((closed, "535.161.08"), (opened, "580.65.06")):
        plant(tmp_path, {"proc/driver/nvidia/version": text})
        assert machine.driver_version(tmp_path) == version


def fake_program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text("#!/bin/sh\n" + script, "utf-8")
    file.chmod(0o755)


def test_gpus_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "NVIDIA H200, 570.172.08, 9.0, 143771, Disabled"
    fake_program(
        tmp_path, "nvidia-smi", f"echo '{line}'\necho 'A, B 100, 535.1, 8.0, 1, Enabled'\n"
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    first, second = machine.gpus()
    assert (first.name, first.driver, first.compute_capability) == (
        "NVIDIA H200", "570.172.08", "9.0",
    )  # fmt: skip
    assert (first.memory_bytes, first.mig) == (143_771 << 20, False)
    assert (second.name, second.mig) == ("A, B 100", True)


def test_a_failing_nvidia_smi_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_program(tmp_path, "nvidia-smi", "echo 'NVIDIA-SMI has failed, a, b, c, d'\nexit 9\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert machine.gpus() == ()


def test_profiler_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_program(
        tmp_path, "ncu", "echo 'Copyright 2018-2022'\necho 'Version 2022.3.0.0 (build 1)'\n"
    )
    fake_program(tmp_path, "nsys", "echo 'NVIDIA Nsight Systems version 2022.4.2.1-df9881f'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert machine.profiler_version("ncu") == "2022.3.0.0"
    assert machine.profiler_version("nsys") == "2022.4.2.1"
    assert machine.profiler_version("nvprof") == ""
