"""Look at the machine once: the facts that the doctor's checks judge."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

from rooflens.harness import machine
from rooflens.harness.machine import GpuFacts
from rooflens.quantity import Record

CAP_SYS_ADMIN = 21
CAP_PERFMON = 38
NCU_LOCK = "nsight-compute-lock"
COUNTER_OWNERS = ("nv-hostengine", "dcgm-exporter", "dcgmi")
WATCHED_PACKAGES = ("torch", "transformers", "nvtx", "ncu-report", "pandas")
_OLDER_NCU = (
    "opt/nvidia/nsight-compute/*/ncu",
    "usr/local/cuda*/bin/ncu",
    "usr/local/NVIDIA-Nsight-Compute*/ncu",
)


class Surroundings(Record, frozen=True, kw_only=True):
    """Facts about one machine. Defaults are a bare CPU machine on which everything works."""

    packages: dict[str, str] = {}
    """Installed versions; a package that is not installed is not in it."""
    import_error: str = ""
    """Why torch or transformers cannot be imported, if that was tried."""
    torch_cuda: bool | None = None
    """Whether torch sees a GPU; None when torch was not asked."""
    torch_is_cpu_build: bool = False
    gpus: tuple[GpuFacts, ...] = ()
    driver: str = ""
    """Version of the loaded NVIDIA kernel driver."""
    nsys: str = ""
    """Version on the PATH."""
    ncu: str = ""
    other_ncus: tuple[str, ...] = ()
    """Further ncu programs in NVIDIA's usual places."""
    admin_only: bool | None = None
    """RmProfilingAdminOnly of the driver; None when it cannot be read."""
    can_profile: bool = False
    """Root, or CAP_SYS_ADMIN, or CAP_PERFMON."""
    container: bool = False
    hypervisor: bool = False
    wsl: bool = False
    gvisor: bool = False
    counter_owners: tuple[str, ...] = ()
    """Running programs that hold the GPU's counters."""
    temporary_writable: bool = True
    temporary_free_bytes: int | None = None
    lock_of_other_user: bool = False
    home_writable: bool = True
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    clocks: str = ""
    """`nvidia-smi`'s throttle reasons, as text."""


def look(root: Path = machine.ROOT, *, import_torch: bool = True) -> Surroundings:
    """Gather the facts. `import_torch=False` skips what takes seconds."""
    error, sees_gpu, cpu_build = _ask_torch() if import_torch else ("", None, False)
    folder, home = Path(tempfile.gettempdir()), machine.home_folder()
    return Surroundings(
        packages=_package_versions(),
        import_error=error,
        torch_cuda=sees_gpu,
        torch_is_cpu_build=cpu_build,
        gpus=machine.gpus(),
        driver=machine.driver_version(root),
        nsys=machine.profiler_version("nsys"),
        ncu=machine.profiler_version("ncu"),
        other_ncus=other_ncus(root),
        admin_only=admin_only(root),
        can_profile=can_profile(root),
        container=in_container(root),
        hypervisor=bool(
            re.search(r"^flags\s*:.*\bhypervisor\b", _text(root, "proc/cpuinfo"), re.M)
        ),
        wsl="microsoft" in _text(root, "proc/sys/kernel/osrelease").lower(),
        gvisor="gvisor" in _text(root, "proc/version").lower(),
        counter_owners=running(COUNTER_OWNERS, root),
        temporary_writable=os.access(folder, os.W_OK),
        temporary_free_bytes=shutil.disk_usage(folder).free if folder.is_dir() else None,
        lock_of_other_user=owned_by_other(folder / NCU_LOCK),
        home_writable=home is not None and os.access(home, os.W_OK),
        memory_bytes=machine.memory_total_bytes(root),
        memory_available_bytes=machine.memory_available_bytes(root),
        clocks=machine.command_output(
            ["nvidia-smi", "--query-gpu=clocks_throttle_reasons.active", "--format=csv,noheader"]
        ).strip(),
    )


def admin_only(root: Path = machine.ROOT) -> bool | None:
    """The driver's RmProfilingAdminOnly, or None without a readable driver."""
    found = re.search(r"RmProfilingAdminOnly:\s*(\d)", _text(root, "proc/driver/nvidia/params"))
    return found.group(1) == "1" if found else None


def can_profile(root: Path = machine.ROOT) -> bool:
    """Whether this process holds a capability that opens the counters.

    Root in a container may lack them, so the effective set decides, not the user id.
    """
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _text(root, "proc/self/status"), re.M)
    if not found:
        return False
    held = int(found.group(1), 16)
    return bool(held >> CAP_SYS_ADMIN & 1 or held >> CAP_PERFMON & 1)


def in_container(root: Path = machine.ROOT) -> bool:
    """Whether this is a docker, podman or Kubernetes container."""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    return bool(re.search(r"docker|kubepods|containerd|libpod", _text(root, "proc/1/cgroup")))


def running(names: tuple[str, ...], root: Path = machine.ROOT) -> tuple[str, ...]:
    """Which of these programs run, by their command names in /proc."""
    found = {
        name
        for comm in (root / "proc").glob("[0-9]*/comm")
        for name in names
        # The kernel cuts command names to 15 characters.
        if machine.read_text(comm).strip() == name[:15]
    }
    return tuple(sorted(found))


def other_ncus(root: Path = machine.ROOT) -> tuple[str, ...]:
    """Paths of ncu programs in NVIDIA's usual places, newest first by name."""
    return tuple(
        sorted((str(p) for pattern in _OLDER_NCU for p in root.glob(pattern)), reverse=True)
    )


def owned_by_other(file: Path) -> bool:
    """Whether the file exists and belongs to another user."""
    try:
        return file.stat().st_uid != os.geteuid()
    except OSError:
        return False


def _ask_torch() -> tuple[str, bool | None, bool]:
    try:
        import torch
        import transformers  # noqa: F401 - only whether it can be imported
    except Exception as error:  # a broken install can raise anything
        return f"{type(error).__name__}: {error}".splitlines()[0], None, False
    return "", torch.cuda.is_available(), torch.version.cuda is None


def _package_versions() -> dict[str, str]:
    found = {}
    for package in WATCHED_PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _text(root: Path, name: str) -> str:
    return machine.read_text(root / name)
