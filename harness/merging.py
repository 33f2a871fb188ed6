"""Several capture files of one step become one set of kernels; what came from where is known.

Counter files: the same kernels in the same order with other counters fill each other's gaps; two
captures are two executions, so what one file measured is never replaced by the other. A timeline
beside counters gives the times: an ncu duration is a cold, serialised replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from rooflens.model import Check, KernelRow, Launch, Machine, Quantity
from rooflens.parsers.kernels import short_name
from rooflens.reading import Reading
from rooflens.reports.format import plural

Signature = tuple[str, tuple[int, ...]]
QUANTITIES = ("duration_ns", "dram_bytes", "l2_bytes", "flops")


@dataclass(frozen=True)
class Merged:
    """Launches of all counter files, each with the file it is from, and what was noticed."""

    launches: tuple[tuple[str, Launch], ...]
    checks: tuple[Check, ...]


def merge_launches(readings: Sequence[Reading]) -> Merged:
    """Merge the launches of counter files, in the order of the files."""
    launches: list[tuple[str, Launch]] = []
    checks: list[Check] = []
    for reading in readings:
        new = [(reading.capture.file, launch) for launch in reading.launches]
        if not launches or not new:
            launches += new
            continue
        same = _same_order([x for _, x in launches], reading.launches)
        checks.append(_merge_check(reading, launches, same))
        if same:
            launches = [
                (file, _filled(launch, other, reading.capture.file))
                for (file, launch), other in zip(launches, reading.launches, strict=True)
            ]
        else:
            launches += new
    return Merged(tuple(launches), tuple(checks))


def _signature(launch: Launch | KernelRow) -> Signature:
    name = launch.demangled if isinstance(launch, Launch) and launch.demangled else launch.name
    return short_name(name).rpartition("::")[2].partition("<")[0], launch.grid


def _same_order(old: Sequence[Launch], new: Sequence[Launch]) -> bool:
    return len(old) == len(new) and all(
        _signature(a) == _signature(b) for a, b in zip(old, new, strict=True)
    )


def _merge_check(reading: Reading, launches: Sequence[tuple[str, Launch]], same: bool) -> Check:
    file = reading.capture.file
    if same:
        return Check(
            id="import-merge", outcome="passed",
            message=f"{file} has the same {plural(len(launches), 'kernel')} in the same order: it "
            "fills in what the files before it did not measure.",
        )  # fmt: skip
    old = Counter(_signature(x) for _, x in launches)
    new = Counter(_signature(x) for x in reading.launches)
    both = (old & new).total()
    return Check(
        id="import-merge", outcome="warning",
        message=f"{file} has other kernels than the files before it ({both} of "
        f"{new.total()} agree in name and grid): its kernels are added, none is merged.",
        fix="Import captures of different steps into runs of their own.",
    )  # fmt: skip


def _filled(launch: Launch, other: Launch, file: str) -> Launch:
    """A launch with what another capture of it measured in addition."""
    changes: dict[str, object] = {}
    paths = dict(launch.paths)
    for name in QUANTITIES:
        mine: Quantity = getattr(launch, name)
        theirs: Quantity = getattr(other, name)
        if mine.value is None and theirs.value is not None:
            changes[name] = theirs
            paths[name] = f"{file}: {other.paths.get(name, name)}"
    changes["metrics"] = {**other.metrics, **launch.metrics}
    changes["paths"] = paths
    if not launch.nvtx:
        changes["nvtx"] = other.nvtx
    return msgspec.structs.replace(launch, **changes)


def merge_kernels(
    timeline: Sequence[KernelRow], counters: Sequence[KernelRow]
) -> tuple[tuple[KernelRow, ...], tuple[Check, ...]]:
    """Kernel rows of a step from both captures: times of the timeline, bytes and FLOPs of ncu."""
    if not timeline or not counters:
        return (*timeline, *counters), ()
    measured: dict[Signature, list[KernelRow]] = {}
    for row in counters:
        measured.setdefault(_signature(row), []).append(row)
    rows: list[KernelRow] = []
    joined = unequal = 0
    for row in timeline:
        found = measured.get(_signature(row))
        if not found:
            rows.append(row)
            continue
        other = found.pop(0)
        if not found:
            del measured[_signature(row)]
        joined += 1
        unequal += other.count != row.count
        rows.append(_both(row, other))
    rest = [row for found in measured.values() for row in found]
    message = f"{joined} of {plural(len(timeline), 'kernel row')} found their counters"
    if unequal:
        message += f", {unequal} of them with another number of launches"
    if rest:
        message += f"; {plural(len(rest), 'row')} of counters found no time"
    fine = not unequal and not rest and joined == len(timeline)
    return (*rows, *rest), (
        Check(
            id="timeline-counters", outcome="passed" if fine else "warning", message=message + "."
        ),
    )


def _both(time: KernelRow, counters: KernelRow) -> KernelRow:
    return msgspec.structs.replace(
        counters,
        count=time.count,
        duration_ns=time.duration_ns
        if time.duration_ns.value is not None
        else counters.duration_ns,
        metrics={**counters.metrics, **time.metrics},
        nvtx=counters.nvtx or time.nvtx,
        paths={**counters.paths, "duration_ns": "timeline"},
    )


def merge_machines(readings: Sequence[Reading]) -> tuple[Machine, tuple[Check, ...]]:
    """The machine that the captures were made on; a warning where they name different GPUs."""
    machine = Machine(device="imported")
    names = list(dict.fromkeys(r.machine.gpu for r in readings if r.machine.gpu))
    for reading in readings:
        for field in Machine.__struct_fields__:
            value = getattr(reading.machine, field)
            if value and not getattr(machine, field):
                machine = msgspec.structs.replace(machine, **{field: value})
    if len(names) < 2:
        return machine, ()
    return machine, (
        Check(
            id="import-machines", outcome="warning",
            message=f"The files were captured on different GPUs: {', '.join(names)}.",
            fix="Import captures of one machine together.",
        ),
    )  # fmt: skip
