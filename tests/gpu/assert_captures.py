"""Hold counters of tests/gpu/check.sh against theory: `python tests/gpu/assert_captures.py OUT`.

Prints one line per assertion and ends with code 1 when one does not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rooflens.model import OperatorRow, Run
from rooflens.runfile import read_run

BIG = ("q_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
"""Projections whose weights are far above what other traffic of a kernel amounts to."""
PROJECTION_SLACK = 0.03
EAGER_SLACK = 0.15
"""Of the extra bytes that eager requests: small tensors may stay in the L2."""

Answer = tuple[bool, str]


def self_checks(run: Run) -> Iterator[Answer]:
    """The counters show known work."""
    for check in run.checks:
        if check.id.startswith("self-check"):
            yield check.outcome == "passed", check.message


def projections(run: Run) -> Iterator[Answer]:
    """Moved bytes of the big projections of a decode are their minimum."""
    if run.workload.name != "decode":
        return
    for row in class_rows(run):
        if row.op_class in BIG:
            moved, minimum = row.moved_bytes.value, row.minimum_bytes.value
            if moved is None or minimum is None:
                yield False, f"{row.op_class}: {row.moved_bytes.absent or row.minimum_bytes.absent}"
            else:
                off = moved / minimum - 1
                yield abs(off) <= PROJECTION_SLACK, f"{row.op_class}: moved {off:+.2%} of minimum"


def joined(run: Run) -> Iterator[Answer]:
    """Every kernel found its op."""
    loose = [kernel.short_name for kernel in run.kernels if kernel.join.method == "none"]
    yield not loose, f"{len(run.kernels)} kernel rows, not joined: {loose[:5]}"


def eager_moves_more(eager: Run, sdpa: Run) -> Iterator[Answer]:
    """Eager attention moves the bytes more that it requests more, where they exceed the L2."""
    extra = attention(eager, "requested_bytes") - attention(sdpa, "requested_bytes")
    moved = attention(eager, "moved_bytes") - attention(sdpa, "moved_bytes")
    if extra < 1e9:
        yield moved > 0, f"eager attention moves {moved:.3g} bytes more ({extra:.3g} requested)"
    else:
        off = moved / extra - 1
        yield (
            abs(off) <= EAGER_SLACK,
            f"eager attention moves {off:+.1%} of {extra:.3g} extra bytes",
        )


def attention(run: Run, quantity: str) -> float:
    """A quantity of the attention row."""
    row = next(row for row in class_rows(run) if row.op_class == "attention")
    value = getattr(row, quantity).value
    return float("nan") if value is None else float(value)


def class_rows(run: Run) -> list[OperatorRow]:
    """Rows of whole classes."""
    return [row for row in run.operators if row.part is None]


def main(folder: Path) -> int:
    """Check every run of the folder; returns the exit code."""
    runs = {path.name: read_run(path) for path in sorted(folder.iterdir()) if path.is_dir()}
    if not runs:
        print(f"no runs in {folder}")
        return 1
    failed = 0
    for name, run in runs.items():
        answers = [*self_checks(run), *projections(run), *joined(run)]
        twin = runs.get(name.replace("eager", "sdpa"))
        if "eager" in name and twin is not None:
            answers += eager_moves_more(run, twin)
        for holds, text in answers:
            failed += not holds
            print(f"{'ok    ' if holds else 'FAILED'} {name}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
