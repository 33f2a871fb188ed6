"""What happened on the host: API calls and NVTX ranges."""

from __future__ import annotations

import re

import numpy as np

from rooflens.parsers.nsys.export import Export
from rooflens.parsers.timeline.trace import (
    NONE,
    PUSH_POP,
    START_END,
    Calls,
    Int,
    Names,
    Ranges,
    Trace,
    in_range,
)

CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
NVTX = "NVTX_EVENTS"
_STYLES = {59: PUSH_POP, 60: START_END, 70: PUSH_POP, 71: START_END}
"""Event types of ranges; 70 and 71 are those of NVTXT text files. ENUM_NSYS_EVENT_TYPE."""
_DOMAIN_CREATE = 75
_PROCESS_MASK = ~0xFFFFFF
"""globalTid = vm and process id in the upper bits, thread id in the lower 24."""
_VERSION_SUFFIX = re.compile(r"(_ptsz|_ptds|_v\d+)+$")


def read_calls(export: Export, trace: Trace, names: Names) -> None:
    """Fill trace.calls, sorted by start."""
    parts = []
    columns = ("start", "end", "globalTid", "correlationId", "nameId")
    for name in CALLS:
        table = export.table(name)
        if table is None:
            continue
        start, end, thread, correlation, name_id = export.integers(table, columns)
        ids, inverse = np.unique(name_id, return_inverse=True)
        texts = export.strings(ids)
        index = np.array(
            [names.add(_VERSION_SUFFIX.sub("", texts.get(int(i), "API call"))) for i in ids],
            dtype=np.int64,
        )
        parts.append(
            Calls(
                start=start,
                end=np.maximum(end, start),
                thread=thread,
                process=process_of(thread),
                correlation=correlation,
                name=index[inverse] if ids.size else name_id,
            )
        )
    if parts:
        calls = Calls(
            **{
                column: np.concatenate([getattr(part, column) for part in parts])
                for column in Calls.__dataclass_fields__
            }
        )
        calls = calls.take(in_range(calls.start) & in_range(calls.end))
        trace.calls = calls.take(np.argsort(calls.start, kind="stable"))


def process_of(thread: Int) -> Int:
    """The globalPid of a globalTid."""
    return np.where(thread == NONE, NONE, thread & _PROCESS_MASK)


def read_ranges(export: Export, trace: Trace, names: Names) -> None:
    """Fill trace.ranges (sorted by start) and trace.domains.

    A range that was never closed ends with the capture.
    """
    table = export.table(NVTX)
    if table is None:
        return
    columns = ("start", "end", "eventType", "textId", "domainId", "globalTid", "endGlobalTid")
    kinds = ",".join(str(kind) for kind in _STYLES)
    start, end, kind, text_id, domain, thread, end_thread = export.integers(
        table, columns, f"WHERE eventType IN ({kinds}) AND start IS NOT NULL ORDER BY rowid"
    )
    name = _range_names(export, table, kinds, text_id, names)
    open_ = end == NONE
    if open_.any():
        times = [t[in_range(t)] for t in (start, end)]
        last = max([*(int(t.max()) for t in times if t.size), _last_device_end(trace)])
        end = np.where(open_, last, end)
        trace.facts.append(
            f"{int(open_.sum())} NVTX ranges were still open when the capture ended; they are taken"
            " to end with it."
        )
    usable = np.flatnonzero(in_range(start) & in_range(end))
    order = usable[np.argsort(start[usable], kind="stable")]
    trace.ranges = Ranges(
        start=start,
        end=np.maximum(end, start),
        thread=thread,
        domain=_domains(export, table, trace, domain, thread),
        name=name,
        style=np.isin(kind, [k for k, s in _STYLES.items() if s == START_END]).astype(np.int64),
        crosses=((end_thread != NONE) & (end_thread != thread)).astype(np.int64),
    ).take(order)


def _last_device_end(trace: Trace) -> int:
    return int(trace.activities.end.max()) if len(trace.activities) else 0


def _range_names(export: Export, table: str, kinds: str, text_id: Int, names: Names) -> Int:
    """Names are in `text`, or registered strings behind `textId` (schemas have one or both)."""
    ids, inverse = np.unique(text_id, return_inverse=True)
    texts = export.strings(ids)
    by_id = np.array([names.add(texts[int(i)]) if int(i) in texts else NONE for i in ids],
                     dtype=np.int64)  # fmt: skip
    result = by_id[inverse] if ids.size else text_id
    if "text" not in export.columns(table):
        return np.where(result == NONE, names.add("range without a name"), result)
    where = f"WHERE eventType IN ({kinds}) AND start IS NOT NULL ORDER BY rowid"
    index, plain = export.texts(table, "text", where)
    number = np.array([names.add(text) for text in plain], dtype=np.int64)
    if number.size:
        result = np.where(index == NONE, result, number[np.maximum(index, 0)])
    return np.where(result == NONE, names.add("range without a name"), result)


def _domains(export: Export, table: str, trace: Trace, domain: Int, thread: Int) -> Int:
    """Index of each range's domain in trace.domains. Domain ids count per process."""
    known = {"": 0}
    named: dict[tuple[int, int], str] = {}
    have = export.columns(table)
    text = 'CAST("text" AS TEXT)' if "text" in have else "NULL"
    text_id = "textId" if "textId" in have else "NULL"
    if "domainId" in have:
        sql = (
            f'SELECT domainId, globalTid, substr({text}, 1, 256), {text_id} FROM "{table}" '
            f"WHERE eventType = {_DOMAIN_CREATE}"
        )
        for number, tid, label, key in export.rows(sql):
            if number is None or tid is None:
                continue
            if label is None and key is not None:
                label = export.strings([int(str(key))]).get(int(str(key)), "")
            named[(int(str(number)), int(str(tid)) & _PROCESS_MASK)] = str(label or "")
    numbers, which_number = np.unique(domain, return_inverse=True)
    processes, which_process = np.unique(process_of(thread), return_inverse=True)
    code = which_number * max(processes.size, 1) + which_process
    codes, inverse = np.unique(code, return_inverse=True)
    index = np.zeros(codes.size, dtype=np.int64)
    for i, pair in enumerate(codes):
        number, process = numbers[pair // processes.size], processes[pair % processes.size]
        if number not in (0, NONE):
            label = named.get((int(number), int(process)), f"domain {number}")
            index[i] = known.setdefault(label, len(known))
    trace.domains = list(known)
    return np.asarray(index[inverse])
