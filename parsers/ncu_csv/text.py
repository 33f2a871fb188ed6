"""Text pages and console logs of ncu: recognised, counted, and refused with what to do.

The text page rounds every value and cuts names, and nothing in it says which column a number
belongs to once names are long; a wrong number that looks right would be the result.
"""

from __future__ import annotations

import re
from pathlib import Path

from rooflens.errors import InputError
from rooflens.parsers.ncu_csv.records import open_text
from rooflens.reading import Reading

_KERNEL = re.compile(r"^  \S.* \([\d, ]+\)x\([\d, ]+\), Context \d+, Stream \d+")
_PROFILING = re.compile(r'^==PROF== Profiling "')


def read(path: Path) -> Reading:
    """Always raises InputError: what the file is, how many kernels it names, what to do."""
    kernels = profiled = sections = 0
    with open_text(path) as text:
        for line in text:
            kernels += bool(_KERNEL.match(line))
            sections += line.startswith("    Section: ")
            profiled += bool(_PROFILING.match(line))
    if sections:
        raise InputError(
            f"{path} is the text page of ncu ({kernels} kernels), not CSV: it rounds values and "
            "cuts names.",
            "Import the .ncu-rep, or print it with ncu --import FILE --page raw --csv "
            "--print-units base.",
        )
    raise InputError(
        f"{path} is the console log of a run under ncu ({profiled} kernels were profiled); the "
        "counters are not in it.",
        "Import the .ncu-rep that ncu wrote (-o), or print it with --page raw --csv.",
    )
