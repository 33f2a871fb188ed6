"""Starting the step under a profiler: its job file, its command and its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from rooflens.harness.plan import RunPlan
from rooflens.harness.profiled_step import Job, job_of, write_job
from rooflens.model import Run

KEPT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
    "CONDA_PREFIX", "TERM", "USER", "LOGNAME", "TZ",
)  # fmt: skip
KEPT_PREFIXES = (
    "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_", "TRITON_", "XDG_",
    "ROOFLENS_", "GOMP_", "KMP_",
)  # fmt: skip
"""Profilers write the environment into their report, so the step gets only what it needs."""
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def step_environment() -> dict[str, str]:
    """The part of this process's environment that the step needs; never a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name in KEPT or name.startswith(KEPT_PREFIXES))
        and not any(word in name for word in SECRET)
    }


def step_command(job_file: Path, *, main: str = "rooflens.harness.profiled_step") -> list[str]:
    """The command that runs a job."""
    return [sys.executable, "-m", main, str(job_file)]


def step_job(plan: RunPlan, run: Run, folder: Path, **fields: Any) -> tuple[Job, Path]:
    """Write the job of a run's step into `folder`: same spec, same layers, same seed."""
    ran, model = run.workload.layers_run, run.workload.layers_model
    spec = plan.spec.on(plan.device, ran if ran and ran != model else None)
    job = job_of(spec, cache_bytes=run.machine.last_level_cache_bytes, **fields)
    file = folder / "job.json"
    write_job(job, file)
    return job, file
