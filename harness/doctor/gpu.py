"""Is there a GPU, and does something between it and us forbid measuring it?"""

from __future__ import annotations

from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.model import Check
from rooflens.reports.format import plural

NO_THROTTLE = {"0x0000000000000000", "0x0000000000000001"}
"""No reason, or only `GPU idle`."""
TORCH_CUDA_FIX = "Install torch for CUDA: see https://pytorch.org/get-started/locally/"


def gpu_present(found: Surroundings) -> Check:
    """An NVIDIA GPU and its driver."""
    if found.gpus:
        first = found.gpus[0]
        names = ", ".join(sorted({gpu.name for gpu in found.gpus}))
        message = f"{plural(len(found.gpus), 'GPU')}: {names}, driver {first.driver}."
        return Check(id="gpu", outcome="passed", message=message)
    if found.driver:
        return Check(
            id="gpu",
            outcome="failed",
            message=f"NVIDIA driver {found.driver} is loaded, but nvidia-smi lists no GPU.",
            fix="In a container start it with --gpus all; else look at `nvidia-smi`.",
        )
    return Check(
        id="gpu",
        outcome="could_not_look",
        message="There is no NVIDIA GPU here. Theory, counts and CPU times need none.",
        fix="Name a GPU to predict for (--gpu h200), or import captures made elsewhere.",
    )


def torch_sees_gpu(found: Surroundings) -> Check | None:
    """torch can use the GPU that is there."""
    if not found.gpus or found.torch_cuda is None:
        return None
    if found.torch_cuda:
        return Check(id="torch-cuda", outcome="passed", message="torch sees the GPU.")
    build = "is a CPU build" if found.torch_is_cpu_build else "cannot use the driver"
    version = found.packages.get("torch", "")
    message = f"torch {version} {build}: runs stay on the CPU."
    return Check(id="torch-cuda", outcome="failed", message=message, fix=TORCH_CUDA_FIX)


def virtual_gpu(found: Surroundings) -> Check | None:
    """MIG and vGPU share the counters of DRAM and L2, which then cannot be read."""
    if not found.gpus:
        return None
    if any(gpu.mig for gpu in found.gpus):
        return Check(
            id="mig",
            outcome="warning",
            message="MIG is on: DRAM and L2 counters cannot be read.",
            fix="Measure on a GPU with MIG off (nvidia-smi -mig 0, as administrator).",
        )
    if any(gpu.name.startswith(("GRID", "NVIDIA GRID")) for gpu in found.gpus):
        return Check(
            id="vgpu",
            outcome="warning",
            message="This is a vGPU: counters need the host's permission.",
            fix="Ask the host's administrator to enable vGPU profiling for this machine.",
        )
    return Check(id="mig", outcome="passed", message="The GPU is whole: no MIG, no vGPU.")


def wsl(found: Surroundings) -> Check | None:
    """Under WSL2 nsys often traces no kernels."""
    if not found.wsl:
        return None
    return Check(
        id="wsl",
        outcome="warning",
        message="This is WSL2: nsys can succeed there and still hold no kernels.",
        fix="Allow counters for all users in the Windows NVIDIA control panel, or use plain Linux.",
    )


def sandbox(found: Surroundings) -> Check | None:
    """gVisor keeps ncu from the driver."""
    if not found.gvisor:
        return None
    return Check(
        id="sandbox",
        outcome="failed",
        message="This container runs under gVisor (runsc): ncu cannot reach the driver.",
        fix="Run the container with the ordinary runtime (runc).",
    )


def clocks(found: Surroundings) -> Check | None:
    """Is the GPU throttled now?"""
    if not found.gpus:
        return None
    reasons = set(found.clocks.split())
    if not reasons:
        return Check(
            id="clocks",
            outcome="could_not_look",
            message="nvidia-smi does not tell the throttle reasons.",
            fix="Compare runs by their spread; lock clocks if you can (nvidia-smi -lgc).",
        )
    if reasons <= NO_THROTTLE:
        return Check(id="clocks", outcome="passed", message="The GPU is not throttled now.")
    return Check(
        id="clocks",
        outcome="warning",
        message=f"The GPU's clocks are held down now (reasons {', '.join(sorted(reasons))}).",
        fix="See `nvidia-smi -q -d PERFORMANCE`; let it cool, or raise the power limit.",
    )
