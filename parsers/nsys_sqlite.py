"""Nsight Systems SQLite exports (`nsys export --type sqlite`), of every schema version."""

from __future__ import annotations

from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Launch
from rooflens.parsers.nsys.device import read_activities
from rooflens.parsers.nsys.export import open_export
from rooflens.parsers.nsys.facts import checks, is_export, read_facts
from rooflens.parsers.nsys.host import read_calls, read_ranges
from rooflens.parsers.timeline.trace import Names, Trace
from rooflens.reading import Reading


def read(path: Path) -> Reading:
    """Read one export.

    Raises InputError when the file is no export of nsys, or is damaged. A capture without kernels
    or ranges is read; its checks say what is missing and why.
    """
    from rooflens.parsers.timeline.build import reading

    return reading(read_trace(path), path.name, "nsys-sqlite")


def read_launches(path: Path) -> tuple[Launch, ...]:
    """The launches of the representative step in launch order, to be matched with counters."""
    from rooflens.parsers.timeline.build import launches_of

    return launches_of(read_trace(path))


def read_trace(path: Path) -> Trace:
    """Read the columns of one export. Raises InputError as `read` does."""
    trace = Trace(tool="nsys")
    names = Names()
    with open_export(path) as export:
        if not is_export(export):
            raise InputError(
                f"{path} is a SQLite database, but not an export of nsys.",
                "Make one: nsys export --type sqlite FILE.nsys-rep.",
            )
        read_activities(export, trace, names)
        read_calls(export, trace, names)
        read_ranges(export, trace, names)
        trace.names = names.texts()
        read_facts(export, trace)
        trace.checks.extend(checks(export, trace))
    return trace
