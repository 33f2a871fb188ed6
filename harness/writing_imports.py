"""Write the run directory of an import: what every run has, and its single launches.

The capture files themselves are not copied unless asked for: they hold host names, addresses,
command lines and environments. `captures/sources.json` says which files they were.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rooflens.harness.importing import Imported
from rooflens.harness.launch_store import FILE_NAME, write_launches
from rooflens.harness.run_directory import write_run

SOURCES = "sources.json"


def write_import(
    imported: Imported, final: Path, files: Sequence[Path], *, force: bool, copy: bool
) -> None:
    """Write `final` whole or not at all. Raises UsageError when it may not be replaced."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        beside = [folder / SOURCES]
        beside[0].write_text(json.dumps(sources(files), indent=1) + "\n", "utf-8")
        if imported.launches:
            beside.append(folder / FILE_NAME)
            write_launches(beside[-1], imported.launches, imported.joined)
        captures = [*beside, *(files if copy else ())]
        write_run(imported.run, final, force=force, captures=captures)


def sources(files: Sequence[Path]) -> list[dict[str, str | int]]:
    """Name, size and SHA-256 of every file: enough to know it again, and nothing private."""
    found: list[dict[str, str | int]] = []
    for path in files:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        found.append(
            {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
        )
    return found
