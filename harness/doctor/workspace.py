"""Is there room: folders that can be written, and memory for the step?"""

from __future__ import annotations

from rooflens.harness.doctor.surroundings import NCU_LOCK, Surroundings
from rooflens.model import Check
from rooflens.reports.format import bytes_text

MIN_TEMPORARY_BYTES = 1_000_000_000
DEFAULT_STEP_BYTES = 4_000_000_000
"""The default decode step of the 7B with shared dummy weights holds less than this."""


def temporary_folder(found: Surroundings) -> Check:
    """Profilers write their files and locks to the temporary folder."""
    if not found.temporary_writable:
        return Check(
            id="temporary-folder",
            outcome="failed",
            message="The temporary folder cannot be written.",
            fix="export TMPDIR=<a folder that you may write>",
        )
    free = found.temporary_free_bytes
    if free is not None and free < MIN_TEMPORARY_BYTES:
        return Check(
            id="temporary-folder",
            outcome="warning",
            message=f"The temporary folder has only {bytes_text(free)} left: captures may not fit.",
            fix="Make room, or export TMPDIR=<a larger disk>",
        )
    return Check(
        id="temporary-folder", outcome="passed", message="The temporary folder can be written."
    )


def ncu_lock(found: Surroundings) -> Check | None:
    """A lock file left by another user stops ncu (InterprocessLockFailed, exit 9)."""
    if not found.lock_of_other_user:
        return None
    return Check(
        id="ncu-lock",
        outcome="warning",
        message=f"{NCU_LOCK} in the temporary folder belongs to another user: ncu stops.",
        fix="export TMPDIR=$(mktemp -d) (Rooflens itself does this for ncu)",
    )


def home_folder(found: Surroundings) -> Check:
    """ncu deploys its section files to the home folder, and ceilings are kept there."""
    if found.home_writable:
        return Check(id="home", outcome="passed", message="The home folder can be written.")
    return Check(
        id="home",
        outcome="warning",
        message="The home folder cannot be written: ncu cannot deploy its section files there.",
        fix="export HOME=<a folder that you may write>",
    )


def memory(found: Surroundings) -> Check:
    """Memory for the default step of the 7B with shared dummy weights."""
    available = found.memory_available_bytes
    if available is None:
        return Check(
            id="memory",
            outcome="could_not_look",
            message="This system does not tell how much memory is free.",
        )
    if available < DEFAULT_STEP_BYTES:
        return Check(
            id="memory",
            outcome="failed",
            message=f"{bytes_text(available)} of memory is free; `profile run decode` needs about "
            f"{bytes_text(DEFAULT_STEP_BYTES)}.",
            fix="Close other programs, or count without memory: --device meta",
        )
    return Check(id="memory", outcome="passed", message=f"{bytes_text(available)} of memory free.")
