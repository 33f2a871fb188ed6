"""Which host call launched which device activity, and which range it was launched in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rooflens.parsers.timeline.names import ROOFLENS_DOMAIN, without_ids
from rooflens.parsers.timeline.nesting import Nesting, Projection, innermost, nest, paths, project
from rooflens.parsers.timeline.trace import KERNEL, NONE, Activities, Calls, Int, Trace


@dataclass
class Linked:
    """A trace with its activities tied to calls and ranges."""

    trace: Trace
    call: Int
    """Row of trace.calls for each activity, NONE when its launch is not in the capture."""
    nested: Nesting
    owner: Int
    """Index into `nested` of the innermost range around each activity's launch, or NONE."""

    @cached_property
    def kernels(self) -> Int:
        """Rows of trace.activities that are kernels."""
        return np.flatnonzero(self.trace.activities.kind == KERNEL)

    @cached_property
    def path_table(self) -> tuple[Int, list[tuple[int, ...]]]:
        """Path id of each nested range, and the paths as indices into `canonical[1]`."""
        index, _ = self.canonical
        return paths(self.nested, index[self.trace.ranges.name[self.nested.row]])

    @cached_property
    def canonical(self) -> tuple[Int, list[str]]:
        """Names without per-call numbers: index of each trace name, and the texts."""
        return without_ids(self.trace.names)

    @cached_property
    def path_of_activity(self) -> Int:
        """Path id of each activity, NONE outside all ranges."""
        ids, _ = self.path_table
        return np.where(self.owner == NONE, NONE, ids[self.owner]) if ids.size else self.owner

    def path(self, path_id: int) -> tuple[str, ...]:
        """The names of a path, outermost first."""
        if path_id == NONE:
            return ()
        _, texts = self.canonical
        return tuple(texts[i] for i in self.path_table[1][path_id])

    def full_path(self, row: int) -> tuple[str, ...]:
        """The names around one activity as they are in the file, outermost first."""
        names: list[str] = []
        at = int(self.owner[row])
        while at != NONE and len(names) < 64:
            names.append(self.trace.names[int(self.trace.ranges.name[self.nested.row[at]])])
            at = int(self.nested.parent[at])
        return tuple(reversed(names))

    def project(self, rows: Int) -> Projection:
        """Project the given rows of trace.ranges onto the device."""
        tied = np.flatnonzero(self.call != NONE)
        calls, ranges, device = self.trace.calls, self.trace.ranges, self.trace.activities
        call = self.call[tied]
        return project(
            ranges.start[rows], ranges.end[rows], ranges.thread[rows],
            calls.start[call], calls.end[call], calls.thread[call],
            device.start[tied], device.end[tied],
        )  # fmt: skip


def link(trace: Trace) -> Linked:
    """Tie activities to calls by correlation id and process, then calls to ranges by thread."""
    call = _calls_of(trace.activities, trace.calls)
    first = trace.domains.index(ROOFLENS_DOMAIN) if ROOFLENS_DOMAIN in trace.domains else 0
    nested = nest(trace.ranges, first)
    owner = np.full(call.size, NONE, dtype=np.int64)
    tied = np.flatnonzero(call != NONE)
    owner[tied] = innermost(nested, trace.calls.thread[call[tied]], trace.calls.start[call[tied]])
    return Linked(trace, call, nested, owner)


def _calls_of(activities: Activities, calls: Calls) -> Int:
    """Row of the launching call of each activity. Correlation ids count per process."""
    result = np.full(len(activities), NONE, dtype=np.int64)
    if not len(activities) or not len(calls):
        return result
    # A hand-reduced export may lack the process of its kernels; ids are then all there is.
    by_process = bool(np.all(activities.process != NONE))
    processes = np.unique(np.concatenate([activities.process, calls.process]))
    number = np.searchsorted(processes, calls.process) if by_process else np.zeros(len(calls))
    wanted = (
        np.searchsorted(processes, activities.process) if by_process else np.zeros(len(activities))
    )
    ids, code = np.unique(
        np.concatenate([calls.correlation, activities.correlation]), return_inverse=True
    )
    keys = number.astype(np.int64) * ids.size + code[: len(calls)]
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    asked = wanted.astype(np.int64) * ids.size + code[len(calls) :]
    found = np.minimum(np.searchsorted(sorted_keys, asked), sorted_keys.size - 1)
    good = (sorted_keys[found] == asked) & (activities.correlation != NONE)
    result[good] = order[found[good]]
    return result
