"""Capture files in, one run out: detect, read, merge with provenance, join with theory.

To add a format, add a row to `parsers/detect.py` and one to READERS. A reader is a module with
`read(path) -> Reading` that raises InputError with the precise statement of what is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from rooflens.errors import InputError
from rooflens.parsers.detect import detect, title
from rooflens.reading import Reading

READERS: dict[str, str] = {
    "ncu-rep": "rooflens.parsers.ncu_report",
    "ncu-csv": "rooflens.parsers.ncu_csv",
    "ncu-text": "rooflens.parsers.ncu_csv.text",
    "nsys-sqlite": "rooflens.parsers.nsys_sqlite",
    "nsys-rep": "rooflens.parsers.nsys_rep",
    "nsys-stats": "rooflens.parsers.nsys_stats",
    "nsys-text": "rooflens.parsers.nsys_stats",
    "torch-trace": "rooflens.parsers.torch_trace",
}


def read_file(path: Path) -> Reading:
    """Detect and read one capture file.

    Raises InputError when the file is of no known format, or holds nothing that can be used.
    """
    name = detect(path)
    try:
        module = importlib.import_module(READERS[name])
    except ModuleNotFoundError as error:
        if error.name != READERS[name]:
            raise
        raise InputError(f"{path} is a {title(name)}; this release cannot read it.") from None
    read = cast("Callable[[Path], Reading]", module.read)
    return read(path)


def read_files(paths: Sequence[Path]) -> tuple[Reading, ...]:
    """Read several capture files of one step, in the order given."""
    return tuple(read_file(path) for path in paths)
