"""What this machine can do: look once (`surroundings`), then judge with pure checks.

    found = look()                     surroundings.py: facts, no judgement
    checks = examine(found)            every check has passed, warned, failed or could not look
    levels = evidence_levels(found)    evidence.py: which evidence works here, and why not

A check is a function `Surroundings -> Check` (or None where it has no subject here), one file per
subject; CHECKS holds them in the order in which a person should read them.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflens.harness.doctor import gpu, owners, permission, profilers, software, workspace
from rooflens.harness.doctor.surroundings import Surroundings, look
from rooflens.model import Check

__all__ = ["CHECKS", "NEEDED_BY_RUN", "Surroundings", "examine", "look"]

CHECKS: tuple[Callable[[Surroundings], Check | None], ...] = (
    software.python_packages,
    software.nvtx_package,
    software.report_reader,
    gpu.gpu_present,
    gpu.torch_sees_gpu,
    gpu.virtual_gpu,
    gpu.wsl,
    gpu.sandbox,
    profilers.nsys_present,
    profilers.ncu_present,
    profilers.ncu_fits_driver,
    permission.counter_permission,
    owners.counter_owner,
    workspace.temporary_folder,
    workspace.ncu_lock,
    workspace.home_folder,
    workspace.memory,
    gpu.clocks,
)

NEEDED_BY_RUN = frozenset({"packages", "memory", "temporary-folder"})
"""Checks whose failure means that `profile run decode` cannot work here."""


def examine(found: Surroundings) -> tuple[Check, ...]:
    """Judge the surroundings; checks without a subject on this machine are left out."""
    made = (check(found) for check in CHECKS)
    return tuple(check for check in made if check is not None)
