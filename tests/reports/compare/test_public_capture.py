"""A real capture against itself with its hot kernel slowed down: what a public gate passed."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import import_files
from rooflens.reports.compare import compare
from rooflens.reports.compare.records import Verdict

CAPTURE = "poweriter-T4-2025.3.1.sqlite"
HOT = "gemv2T_kernel_val"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def slowed(source: Path, target: Path) -> int:
    """Copy the capture with every launch of the hot kernel 20 % longer; returns the ns added."""
    shutil.copyfile(source, target)
    target.chmod(0o644)
    with sqlite3.connect(target) as database:
        (hot,) = database.execute(
            f"select k.demangledName from {KERNELS} k join StringIds s on k.shortName = s.id "
            "where s.value = ? limit 1",
            (HOT,),
        ).fetchone()
        before = f"select sum(end - start) from {KERNELS} where demangledName = ?"
        (old,) = database.execute(before, (hot,)).fetchone()
        database.execute(
            f"update {KERNELS} set end = end + (end - start) / 5 where demangledName = ?", (hot,)
        )
        (new,) = database.execute(before, (hot,)).fetchone()
    database.close()
    return int(new) - int(old)


@pytest.mark.conformance
def test_the_hot_kernel_that_got_slower_is_named(nsight: Path, tmp_path: Path) -> None:
    source = nsight / "nsys-sqlite" / CAPTURE
    added = slowed(source, tmp_path / "slow.sqlite")
    base = import_files([source], ImportOptions()).run
    head = import_files([tmp_path / "slow.sqlite"], ImportOptions()).run
    found = compare([base], [head])
    assert found.verdict is Verdict.REGRESSED
    (change,) = found.kernels
    assert change.head_name == HOT
    assert change.time_ns.change == pytest.approx(added, rel=1e-6)
    assert added == pytest.approx(215e6, rel=0.01)
    assert found.patterns[0].id == "hidden-kernel"
    assert compare([base], [base]).verdict is Verdict.NO_CHANGE_SHOWN
