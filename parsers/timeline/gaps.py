"""Idle stretches of a step, what the host did under them, and host-bound or device-bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rooflens.model import Gap
from rooflens.parsers.intervals import Intervals, gaps, total, union
from rooflens.parsers.timeline.launches import Linked
from rooflens.parsers.timeline.names import COMPILE_CALL, GRAPH_LAUNCH, MEMORY_CALL, SYNC_CALL
from rooflens.parsers.timeline.trace import COPY, NONE, Int

MAX_GAPS = 200
MIN_GAP_NS = 1000
"""Shorter ones lie between any two kernels; they are counted as idle, but not listed."""
LAUNCH_PATH_NS = 10_000
"""From the call to the start on an idle device: longer is not the launch path alone."""
TURNAROUND_NS = 5_000
"""A device may take this long from one queued kernel to the next."""
HOST_BOUND_IDLE = 0.2
"""R19: a step is host-bound from this share of idle time on."""
DEVICE_BOUND_IDLE = 0.05


@dataclass(frozen=True)
class Idle:
    """The gaps of one window and the verdict on it."""

    gaps: tuple[Gap, ...]
    bound: str
    reason: str


def idle_of(linked: Linked, rows: Int, start: int, end: int, what: str) -> Idle:
    """Find the gaps of one device's work in [start, end); gap times are relative to `start`.

    `what` names the window in the verdict: "step" or "capture".
    """
    activities = linked.trace.activities
    busy = union(activities.start[rows], activities.end[rows])
    empty = gaps(busy, start, end)
    lengths = empty.ends - empty.starts
    listed = np.flatnonzero(lengths >= MIN_GAP_NS)
    listed = listed[np.argsort(-lengths[listed], kind="stable")][:MAX_GAPS]
    made, waits = [], 0
    after = np.searchsorted(activities.start[rows], empty.starts, side="left")
    for i in np.sort(listed):
        low, high = int(empty.starts[i]), int(empty.ends[i])
        following = int(rows[after[i]]) if after[i] < rows.size else NONE
        before = int(rows[after[i] - 1]) if after[i] else NONE
        cause, host = _cause(linked, low, high, before, following)
        waits += (high - low) if host else 0
        made.append(Gap(start_ns=low - start, duration_ns=high - low, cause=cause))
    bound, reason = _verdict(linked, rows, empty, waits, end - start, what)
    return Idle(tuple(made), bound, reason)


def _cause(linked: Linked, low: int, high: int, before: int, following: int) -> tuple[str, bool]:
    """The likely cause of one gap, and whether the host kept the device waiting."""
    if following == NONE:
        return "nothing more ran before the end", True
    call = int(linked.call[following])
    if call == NONE:
        return "its next work has no launch in the capture", False
    trace = linked.trace
    launched = int(trace.calls.start[call])
    api = trace.names[int(trace.calls.name[call])]
    if launched <= low:
        if before != NONE and int(linked.call[before]) == call:
            return "between kernels of one CUDA graph", False
        if high - low < TURNAROUND_NS:
            return "from one kernel to the next, both launched before", False
        return "the next work was launched, but waited: a stream or event dependency", False
    if (high - launched) * 2 >= high - low:
        return f"launch latency of {api}", True
    under = _call_under(linked, low, min(launched, high), int(trace.calls.thread[call]))
    where = _range_at(linked, following)
    if under:
        return f"host in {under}{where}", True
    return f"host work before {api}{where}", True


def _call_under(linked: Linked, low: int, high: int, thread: int) -> str:
    """The API call of the thread that covers most of [low, high), if it covers a third of it."""
    calls = linked.trace.calls
    last = int(np.searchsorted(calls.start, high, side="left"))
    first = max(last - 2000, 0)
    near = np.arange(first, last)
    near = near[(calls.thread[near] == thread) & (calls.end[near] > low)]
    if not near.size:
        return ""
    overlap = np.minimum(calls.end[near], high) - np.maximum(calls.start[near], low)
    best = int(near[np.argmax(overlap)])
    if overlap.max() * 3 < high - low:
        return ""
    name = linked.trace.names[int(calls.name[best])]
    if SYNC_CALL.search(name):
        return f"{name} (synchronisation)"
    if MEMORY_CALL.search(name):
        return f"{name} (memory allocation)"
    if COMPILE_CALL.search(name):
        return f"{name} (loading code)"
    return name


def _range_at(linked: Linked, row: int) -> str:
    path = linked.path(int(linked.path_of_activity[row]))
    return f" in {path[-1][:80]}" if path else ""


def _verdict(
    linked: Linked, rows: Int, empty: Intervals, host_wait: int, length: int, what: str
) -> tuple[str, str]:
    """Host-bound: the device is idle for want of launches. Device-bound: launches queue up."""
    if not rows.size or length <= 0:
        return "", f"no device work in the {what}"
    idle = total(empty) / length
    tied = rows[linked.call[rows] != NONE]
    if not tied.size:
        return "", "the capture has no launches to compare with"
    calls = linked.trace.calls
    lead = linked.trace.activities.start[tied] - calls.end[linked.call[tied]]
    ahead = float(np.mean(lead > LAUNCH_PATH_NS))
    text = f"the device is idle {idle:.0%} of the {what}"
    if idle >= HOST_BOUND_IDLE and host_wait * 2 >= total(empty):
        return "host", f"{text}, mostly before work that the host had not launched yet"
    if idle <= DEVICE_BOUND_IDLE:
        return "device", f"{text}; {ahead:.0%} of the work was launched more than 10 us ahead"
    if idle >= HOST_BOUND_IDLE:
        return "", f"{text}, but not for want of launches"
    return "", f"{text}: neither clearly host-bound nor device-bound"


def launch_facts(linked: Linked, rows: Int) -> list[str]:
    """Sentences about launches: how many, by which calls, how long one takes, the queue."""
    tied = rows[linked.call[rows] != NONE]
    if not tied.size:
        return []
    trace = linked.trace
    launching = np.unique(linked.call[tied])
    length = trace.calls.end[launching] - trace.calls.start[launching]
    facts = [
        f"{tied.size} device activities by {launching.size} API calls; a launching call takes "
        f"{np.median(length) / 1000:.1f} us (median), {length.sum() / 1e6:.3f} ms in all."
    ]
    delay = trace.activities.start[tied] - trace.calls.start[linked.call[tied]]
    facts.append(
        f"From the call to the start on the device: {np.median(delay) / 1000:.1f} us (median), "
        f"{np.percentile(delay, 99) / 1000:.1f} us (99th percentile); long means a queue."
    )
    names = trace.calls.name[launching]
    graphs = [i for i in np.unique(names) if GRAPH_LAUNCH.search(trace.names[int(i)])]
    if graphs:
        replays = launching[np.isin(names, graphs)]
        nodes = int(np.isin(linked.call[tied], replays).sum())
        facts.append(f"{replays.size} CUDA graph launches carry {nodes} of them.")
    reads = rows[(trace.activities.kind[rows] == COPY) & (trace.activities.bytes[rows] <= 8)]
    to_host = [
        r for r in reads if "Device-to-Host" in trace.names[int(trace.activities.name[r])]
        or "DtoH" in trace.names[int(trace.activities.name[r])]
    ]  # fmt: skip
    if to_host:
        facts.append(
            f"Copies of at most 8 bytes to the host, for which the program waits: {len(to_host)}."
        )
    return facts
