"""Failures of ncu and nsys, recognised from their own output: what it means, what to do.

The table is `failures.toml`, one row a failure, most specific first.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib import resources
from typing import Any

from rooflens.quantity import Record


class Failure(Record, frozen=True, kw_only=True):
    """A known failure of a profiler."""

    id: str
    tool: str
    """ncu, nsys, or any."""
    pattern: str
    """Regular expression, searched in the program's output."""
    means: str
    fix: str
    still: str = ""
    """What can be measured all the same."""
    seen: str = ""
    """`output` when the pattern was met in real output of the tool, `report` when it is known from
    public reports only."""


@lru_cache(maxsize=1)
def failures() -> tuple[Failure, ...]:
    """All known failures, most specific first."""
    text = resources.files(__package__).joinpath("failures.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["failure"]
    return tuple(Failure(**row) for row in rows)


def recognise(tool: str, output: str) -> Failure | None:
    """The first known failure whose words are in the output of `tool`, else None."""
    for failure in failures():
        if failure.tool in (tool, "any") and re.search(failure.pattern, output, re.I):
            return failure
    return None
