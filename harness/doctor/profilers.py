"""Are nsys and ncu there, and does ncu fit the driver?"""

from __future__ import annotations

import tomllib
from importlib import resources

from rooflens.harness.doctor.software import version_numbers
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.model import Check

DOWNLOAD = "https://developer.nvidia.com/tools-overview"


def nsys_present(found: Surroundings) -> Check:
    """nsys is on the PATH and answers."""
    if found.nsys:
        return Check(id="nsys", outcome="passed", message=f"nsys {found.nsys} is on the PATH.")
    return Check(
        id="nsys",
        outcome="warning",
        message="nsys (Nsight Systems) is not on the PATH: no timeline of kernels and gaps.",
        fix=f"Install nsight-systems from your distribution or {DOWNLOAD}",
    )


def ncu_present(found: Surroundings) -> Check:
    """ncu is on the PATH and answers."""
    if found.ncu:
        return Check(id="ncu", outcome="passed", message=f"ncu {found.ncu} is on the PATH.")
    fix = f"Install nsight-compute from your distribution or {DOWNLOAD}"
    if found.other_ncus:
        fix = f'export PATH="{found.other_ncus[0].rsplit("/", 1)[0]}:$PATH"'
    return Check(
        id="ncu",
        outcome="warning",
        message="ncu (Nsight Compute) is not on the PATH: no moved bytes, no executed FLOPs.",
        fix=fix,
    )


def ncu_fits_driver(found: Surroundings) -> Check | None:
    """An ncu newer than the driver refuses to profile (or returns some metrics as n/a)."""
    driver = found.gpus[0].driver if found.gpus else found.driver
    if not (found.ncu and driver):
        return None
    needed = driver_branch_for(found.ncu)
    branch = version_numbers(driver)[:1]
    if needed is None or not branch:
        return Check(
            id="ncu-driver",
            outcome="could_not_look",
            message=f"Whether ncu {found.ncu} fits driver {driver} is not known here.",
            fix="If ncu says that the driver is not compatible, use the ncu of an older release.",
        )
    if branch[0] >= needed:
        message = f"Driver {driver} is new enough for ncu {found.ncu}."
        return Check(id="ncu-driver", outcome="passed", message=message)
    return Check(
        id="ncu-driver",
        outcome="warning",
        message=f"ncu {found.ncu} was made for driver {needed} or newer; this driver is {driver}.",
        fix=_older_ncu_fix(branch[0], found.other_ncus),
    )


def driver_branch_for(ncu: str) -> int | None:
    """The driver branch that an ncu version was made for, None for a release we do not know."""
    wanted = ".".join(map(str, version_numbers(ncu)[:2]))
    return next((driver for name, driver in _releases() if name == wanted), None)


def newest_ncu_for(branch: int) -> str | None:
    """The newest ncu release that a driver branch serves."""
    fitting = [name for name, driver in _releases() if driver <= branch]
    return fitting[-1] if fitting else None


def _older_ncu_fix(branch: int, others: tuple[str, ...]) -> str:
    release = newest_ncu_for(branch)
    installed = next((path for path in others if release and f"/{release}" in path), None)
    if installed:
        return f"Use {installed}, which is installed and fits this driver."
    if release is None:
        return "Update the driver."
    return f"Update the driver, or use ncu {release}, the newest that fits it."


def _releases() -> list[tuple[str, int]]:
    file = resources.files(__package__).joinpath("ncu_drivers.toml")
    rows = tomllib.loads(file.read_text("utf-8"))["release"]
    return [(row["ncu"], row["driver"]) for row in rows]
