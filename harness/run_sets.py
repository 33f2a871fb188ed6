"""Read one side of a comparison: a run, or a folder of runs, or several of either."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import Run
from rooflens.runfile import read_run, run_json_path


@contextmanager
def without_collector() -> Iterator[None]:
    """Switch Python's cycle collector off for a while.

    A large run is a million small records without a cycle; looking for cycles in them takes half
    of the time of a comparison.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def run_paths(path: Path) -> list[Path]:
    """The run at `path`, or all runs directly inside it, by name.

    Raises InputError when there is none.
    """
    if not path.is_dir() or run_json_path(path).is_file():
        return [path]
    inside = sorted(entry for entry in path.iterdir() if (entry / "run.json").is_file())
    if not inside:
        raise InputError(
            f"No run at {path}: it is neither a run directory nor a folder of them.",
            "Give what `profile run` or `profile import` wrote.",
        )
    return inside


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read every run of every path. Raises InputError that names the file that cannot be read."""
    return [read_run(entry) for path in paths for entry in run_paths(path)]
