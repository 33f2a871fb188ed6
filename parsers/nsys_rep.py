"""Nsight Systems reports (.nsys-rep): exported to SQLite by an installed nsys, then read."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rooflens.errors import InputError, ProfilerError
from rooflens.model import Capture
from rooflens.parsers import nsys_sqlite
from rooflens.reading import Reading

TIMEOUT_S = 900
_MAGIC = re.compile(rb"NVIDIA Tegra Profiler Report (\d{4})@(\d+)@(\d+)")
_NEWER = re.compile(r"newer than your current version")
_EXPORT = "nsys export --type sqlite"


def read(path: Path, nsys: str = "nsys") -> Reading:
    """Export a report with nsys and read the export.

    Raises ProfilerError when no nsys is installed, it is older than the report, or it fails, and
    InputError when the file is no report. The export is made in a private folder and deleted.
    """
    version = report_version(path)
    tool = shutil.which(nsys)
    if tool is None:
        raise ProfilerError(
            f"{path} can be read only with nsys, which is not on the PATH.",
            f"Where nsys {version or 'of its version'} is: {_EXPORT} {path.name}, then import the "
            ".sqlite.",
        )
    with tempfile.TemporaryDirectory(prefix="rooflens-nsys-") as folder:
        made = Path(folder) / f"{path.stem}.sqlite"
        _export(tool, path, made, version, folder)
        reading = nsys_sqlite.read(made)
    capture = reading.capture
    return Reading(
        **{field: getattr(reading, field) for field in reading.__struct_fields__}
        | {
            "format": "nsys-rep",
            "capture": Capture(
                file=path.name,
                format="nsys-rep",
                tool=capture.tool,
                rows=capture.rows,
                regime=capture.regime | ({"report version": version} if version else {}),
                note=capture.note,
            ),
        }
    )


def report_version(path: Path) -> str:
    """Version of nsys that wrote a report, from its first bytes; empty when they do not say.

    Raises InputError when the file is missing or empty.
    """
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}.", "Give the .nsys-rep that nsys wrote.")
    with path.open("rb") as file:
        head = file.read(256)
    if not head:
        raise InputError(f"{path} is empty (0 bytes).", "Capture again and let nsys end by itself.")
    match = _MAGIC.search(head)
    return ".".join(part.decode() for part in match.groups()) if match else ""


def _export(tool: str, path: Path, made: Path, version: str, folder: str) -> None:
    command = [tool, "export", "--type", "sqlite", "--force-overwrite", "true",
               "--output", str(made), str(path.absolute())]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder, check=False,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProfilerError(
            f"nsys export of {path} took longer than {TIMEOUT_S} s.",
            f"Run it by hand ({_EXPORT} {path.name}) and import the .sqlite.",
        ) from None
    except OSError as error:
        raise ProfilerError(f"nsys cannot be started: {error.strerror or error}.") from None
    said = f"{done.stdout}\n{done.stderr}"
    if _NEWER.search(said):
        raise ProfilerError(
            f"{path} was written by nsys {version or 'of a newer version'}, and the nsys here is "
            "older.",
            f"Install nsys {version or 'of that version'} or newer, or run {_EXPORT} "
            f"{path.name} where it was captured and import the .sqlite.",
        )
    if not made.is_file() or not made.stat().st_size:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        last = re.sub(r"\S*/(\S+)", r"\1", lines[-1])[:200] if lines else "it said nothing"
        raise InputError(
            f"nsys could not export {path} (exit code {done.returncode}): {last.rstrip('.')}.",
            "Is the report complete? A killed capture leaves a .qdstrm that `nsys` must import.",
        )
