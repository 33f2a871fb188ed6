"""Facts about this machine from an allow-list: no host, user or path name, no environment value.

`root` is where `/proc` and `/sys` are looked for, so that tests can plant other machines.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from rooflens.model import Machine
from rooflens.quantity import Record

ROOT = Path("/")
QUERY_TIMEOUT_S = 10
PACKAGES = ("rooflens", "torch", "transformers", "nvtx")
_CGROUP_V2 = "sys/fs/cgroup"
_CGROUP_V1 = "sys/fs/cgroup/memory"
_UNLIMITED = 1 << 60
"""cgroup v1 writes a limit near 2^63 for "no limit"."""


class GpuFacts(Record, frozen=True, kw_only=True):
    """One GPU as `nvidia-smi` reports it."""

    name: str
    driver: str
    compute_capability: str
    memory_bytes: int | None
    mig: bool


def cpu_model(root: Path = ROOT) -> str:
    """The CPU's own name, or its architecture when the system does not tell."""
    for key in ("model name", "Model", "cpu model"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", read_text(root / "proc/cpuinfo"), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def home_folder() -> Path | None:
    """The home folder, or None for a user that has none (a random id in a container)."""
    try:
        return Path("~").expanduser()
    except RuntimeError:
        return None


def core_count() -> int:
    """Cores that this process may use."""
    return len(_allowed_cores())


def memory_total_bytes(root: Path = ROOT) -> int | None:
    """Installed memory, or the container's limit when that is lower."""
    sizes = [_meminfo(root, "MemTotal"), _cgroup_limit(root)]
    return min((size for size in sizes if size is not None), default=None)


def memory_available_bytes(root: Path = ROOT) -> int | None:
    """Memory that can be had now without swapping, inside the container's limit."""
    sizes = [_meminfo(root, "MemAvailable"), _cgroup_room(root)]
    return min((size for size in sizes if size is not None), default=None)


def last_level_cache_bytes(root: Path = ROOT) -> int | None:
    """All last-level caches that this process's cores reach, or None when it is not told.

    Cores of one socket (or of one chiplet) share a cache; cores of several have several, and
    weights spread over all of them.
    """
    caches: dict[str, int] = {}
    for cpu in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        if root == ROOT and int(cpu.name.removeprefix("cpu")) not in _allowed_cores():
            continue
        levels = [
            (read_text(index / "level").strip(), read_text(index / "shared_cpu_list"), size)
            for index in (cpu / "cache").glob("index*")
            if read_text(index / "type").strip() != "Instruction"
            and (size := _size_bytes(read_text(index / "size"))) is not None
        ]
        if levels:
            _, shared_by, size = max(levels)
            caches[shared_by] = size
    return sum(caches.values()) or None


def _allowed_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def gpus() -> tuple[GpuFacts, ...]:
    """The GPUs that `nvidia-smi` lists; empty without the tool, a driver or a GPU."""
    fields = "name,driver_version,compute_cap,memory.total,mig.mode.current"
    text = command_output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    return tuple(_gpu_from_csv(line) for line in text.splitlines() if line.count(",") >= 4)


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that a run rests on; absent ones are left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def profiler_version(tool: str) -> str:
    """Version of `ncu` or `nsys` on the PATH, empty when it is absent or does not answer."""
    found = re.search(r"[Vv]ersion (\d+(?:\.\d+)+)", command_output([tool, "--version"]))
    return found.group(1) if found else ""


def machine_facts(device: str, root: Path = ROOT) -> Machine:
    """What a run records about the machine. `device` is `cpu`, `cuda` or `meta`.

    A meta run computes nothing here, so it names no hardware.
    """
    if device == "meta":
        return Machine(device="meta")
    host = Machine(
        device=device,
        cpu=cpu_model(root),
        cores=core_count(),
        memory_bytes=memory_total_bytes(root),
        last_level_cache_bytes=last_level_cache_bytes(root),
    )
    return _with_gpu(host) if device == "cuda" else host


def _with_gpu(host: Machine) -> Machine:
    import msgspec
    import torch

    made = torch.cuda.get_device_properties(torch.cuda.current_device())
    listed = gpus()
    return msgspec.structs.replace(
        host,
        gpu=made.name,
        gpu_count=torch.cuda.device_count(),
        gpu_chip=_chip(made.name),
        compute_capability=f"{made.major}.{made.minor}",
        last_level_cache_bytes=int(getattr(made, "L2_cache_size", 0)) or None,
        driver=listed[0].driver if listed else driver_version(),
        cuda=torch.version.cuda or "",
    )


def _chip(name: str) -> str:
    """Chip of a GPU by what the driver calls it, empty for one that we do not know."""
    from rooflens.errors import UsageError
    from rooflens.reports.theory.gpus import gpu

    try:
        return gpu(name).chip
    except UsageError:
        return ""


def driver_version(root: Path = ROOT) -> str:
    """Version of the NVIDIA kernel driver, empty without one."""
    text = read_text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else ""


def command_output(arguments: list[str]) -> str:
    """Standard output of a short query; empty when the tool is absent, fails or hangs."""
    program = shutil.which(arguments[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *arguments[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=QUERY_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _gpu_from_csv(line: str) -> GpuFacts:
    name, driver, capability, memory, mig = (field.strip() for field in line.rsplit(",", 4))
    return GpuFacts(
        name=name,
        driver=driver,
        compute_capability=capability,
        memory_bytes=int(memory) << 20 if memory.isdigit() else None,
        mig=mig == "Enabled",
    )


def _meminfo(root: Path, key: str) -> int | None:
    found = re.search(rf"^{key}:\s+(\d+) kB", read_text(root / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found.group(1)) * 1024
    if root == ROOT and "SC_PHYS_PAGES" in os.sysconf_names:  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _cgroup_limit(root: Path) -> int | None:
    for file in (
        root / _CGROUP_V2 / "memory.max",
        root / _CGROUP_V1 / "memory.limit_in_bytes",
    ):
        text = read_text(file).strip()
        if text.isdigit() and int(text) < _UNLIMITED:
            return int(text)
    return None


def _cgroup_room(root: Path) -> int | None:
    """What is left below the limit; file pages that can be dropped count as free."""
    limit = _cgroup_limit(root)
    if limit is None:
        return None
    for folder, usage in ((_CGROUP_V2, "memory.current"), (_CGROUP_V1, "memory.usage_in_bytes")):
        used = read_text(root / folder / usage).strip()
        if used.isdigit():
            stat = read_text(root / folder / "memory.stat")
            found = re.search(r"^(?:total_)?inactive_file (\d+)$", stat, re.MULTILINE)
            return max(limit - int(used) + (int(found.group(1)) if found else 0), 0)
    return limit


def _size_bytes(text: str) -> int | None:
    found = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if not found:
        return None
    return int(found.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[found.group(2)]


def read_text(file: Path) -> str:
    """Content of a small system file; empty when it is not there or may not be read."""
    try:
        return file.read_text("utf-8", errors="replace")
    except OSError:
        return ""
