"""Files of ncu that hold no table: what happened instead, from ncu's own words.

Messages never repeat a path of the machine that was profiled.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Machine
from rooflens.parsers.chips import chip_of_capability
from rooflens.parsers.ncu_container import regime
from rooflens.parsers.ncu_csv.records import Printed, open_text

_PATH = re.compile(r"(?:[A-Za-z]:)?[/\\][^\s'\"]*[/\\]([^\s'\"/\\]+)")
_SESSION_HEADS = ("Launch Settings", "Session Info")
MAX_SESSION_LINES = 5000


def no_table(path: Path, printed: Printed) -> InputError:
    """Say why an ncu CSV has no table."""
    errors = [line for line in printed.noise if line.startswith("==ERROR==")]
    warnings = [line for line in printed.noise if line.startswith("==WARNING==")]
    said = clean(errors[0] if errors else warnings[0] if warnings else "")
    if "ERR_NVGPUCTRPERM" in " ".join(printed.noise):
        return InputError(
            f"{path} holds no table: ncu had no permission to read the counters "
            "(ERR_NVGPUCTRPERM).",
            "See `profile doctor` for the one-line fix.",
        )
    if "application returned an error code" in said:
        return InputError(
            f"{path} holds no table: the application failed ({said}).",
            "Run the application without ncu first, then capture again.",
        )
    if "Failed to load report file" in said:
        return InputError(
            f"{path} holds no table: ncu could not load the report that it was to print.",
            "The report was cut or is newer than that ncu; capture or copy it again.",
        )
    if "did not match any section" in said:
        return InputError(
            f"{path} holds no table: ncu knew none of the sections asked for ({said}).",
            "List them with ncu --list-sections; regular expressions need the prefix regex:.",
        )
    if "No kernels were profiled" in " ".join(printed.noise):
        return InputError(
            f"{path} holds no table: ncu says that no kernels were profiled.",
            "Check the NVTX and kernel filters: push/pop ranges need a trailing slash.",
        )
    if said:
        return InputError(f"{path} holds no table: ncu said: {said}", "Capture again.")
    connected = sum("Connected to process" in line for line in printed.noise)
    if connected:
        ended = sum("Disconnected from process" in line for line in printed.noise)
        killed = " and the last of them never disconnected: the run was killed"
        return InputError(
            f"{path} holds no table: ncu connected to {connected} processes, profiled no kernel"
            f"{killed if ended < connected else ''}.",
            "Capture again and let the application end; check the kernel and NVTX filters.",
        )
    return InputError(
        f"{path} holds no table of ncu.", "Print it with ncu --page raw --csv --print-units base."
    )


def clean(line: str) -> str:
    """A line of ncu without its mark, and with file names instead of paths."""
    text = re.sub(r"^==\w+== ", "", line)
    return _PATH.sub(r"\1", text)[:200]


def session_regime(path: Path) -> tuple[dict[str, str], Machine, str]:
    """The regime, GPU and version on a session page; an empty regime when it is none.

    Of the session only the options that change a measurement and the device are kept.
    """
    with open_text(path) as text:
        lines = [line for _, line in zip(range(MAX_SESSION_LINES), text, strict=False)]
    if not any(line.strip() in _SESSION_HEADS for line in lines[:40]):
        return {}, Machine(device="imported"), ""
    try:
        rows = {row[0]: row[1] for row in csv.reader(lines) if len(row) >= 2}
    except csv.Error as error:
        raise InputError(f"{path}: the session page is broken: {error}.") from None
    major, minor = rows.get("compute_capability_major"), rows.get("compute_capability_minor")
    capability = f"{major}.{minor}" if major and minor else ""
    version = re.match(r"\d{4}\.\d+\.\d+", rows.get("Nsight Compute Target", ""))
    machine = Machine(
        device="imported",
        gpu=rows.get("display_name", "")[:80],
        gpu_chip=chip_of_capability(capability),
        compute_capability=capability,
        cuda=rows.get("CUDA Version", "")[:16],
    )
    found = regime(rows.get("Profiler Command Line", ""))
    return found or {"command": "not stored"}, machine, version[0] if version else ""
