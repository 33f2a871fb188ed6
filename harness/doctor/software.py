"""Are the Python packages there that running, annotating and reading reports need?"""

from __future__ import annotations

from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.model import Check

MINIMUM = {"torch": (2, 6), "transformers": (4, 57)}
NVTX_LAST_SEEN_BY_OLD_NSYS = (0, 2, 12)
"""The nvtx package from 0.2.13 on records nothing under nsys 2022.4 and 2023.4 (measured)."""
NSYS_THAT_SEES_NEW_NVTX = (2024, 1)


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `2.13.0+cpu` -> (2, 13, 0)."""
    numbers = []
    for piece in text.split("+")[0].split("."):
        if not piece.isdigit():
            break
        numbers.append(int(piece))
    return tuple(numbers)


def python_packages(found: Surroundings) -> Check:
    """torch and transformers are installed, new enough, and can be imported."""
    for package, minimum in MINIMUM.items():
        wanted = ".".join(map(str, minimum))
        fix = f'pip install "{package}>={wanted}"'
        if package not in found.packages:
            return _failed("packages", f"{package} is not installed.", fix)
        if version_numbers(found.packages[package]) < minimum:
            message = f"{package} {found.packages[package]} is older than {wanted}."
            return _failed("packages", message, fix)
    if found.import_error:
        message = f"torch or transformers cannot be imported: {found.import_error}."
        return _failed("packages", message, "pip install --force-reinstall torch transformers")
    versions = ", ".join(f"{name} {found.packages[name]}" for name in MINIMUM)
    return Check(id="packages", outcome="passed", message=f"{versions} can be used.")


def nvtx_package(found: Surroundings) -> Check:
    """The nvtx package is there, in a version that the installed nsys can see."""
    version = found.packages.get("nvtx")
    if version is None:
        message = "nvtx is not installed: captures would hold no ranges."
        return _failed("nvtx", message, "pip install nvtx")
    numbers = version_numbers(version)
    old_nsys = bool(found.nsys) and version_numbers(found.nsys) < NSYS_THAT_SEES_NEW_NVTX
    if old_nsys and numbers > NVTX_LAST_SEEN_BY_OLD_NSYS:
        return Check(
            id="nvtx",
            outcome="warning",
            message=f"nvtx {version} records no ranges under nsys {found.nsys}.",
            fix='pip install "nvtx<=0.2.12", or use nsys 2024.1 or newer.',
        )
    return Check(id="nvtx", outcome="passed", message=f"nvtx {version} marks the ranges.")


def report_reader(found: Surroundings) -> Check:
    """ncu-report is there, and new enough for reports of the installed ncu."""
    version = found.packages.get("ncu-report")
    fix = "pip install -U ncu-report (or export CSV: ncu --import FILE --csv --page raw)"
    if version is None:
        return Check(
            id="ncu-report",
            outcome="warning",
            message="ncu-report is not installed: .ncu-rep files cannot be read, CSV exports can.",
            fix=fix,
        )
    if found.ncu and version_numbers(version)[:2] < version_numbers(found.ncu)[:2]:
        return Check(
            id="ncu-report",
            outcome="warning",
            message=f"ncu-report {version} is older than ncu {found.ncu} and may not read it.",
            fix=fix,
        )
    return Check(id="ncu-report", outcome="passed", message=f"ncu-report {version} reads .ncu-rep.")


def _failed(id: str, message: str, fix: str) -> Check:
    return Check(id=id, outcome="failed", message=message, fix=fix)
