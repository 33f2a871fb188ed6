"""What ran on the device: kernels, copies, memsets, whole graphs."""

from __future__ import annotations

import numpy as np

from rooflens.parsers.nsys.export import Export
from rooflens.parsers.timeline.trace import (
    COPY,
    GRAPH,
    KERNEL,
    MEMSET,
    NONE,
    Activities,
    Int,
    Names,
    Trace,
    in_range,
)

KERNELS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2")
MEMSETS = ("CUPTI_ACTIVITY_KIND_MEMSET",)
GRAPHS = ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",)
_COPY_KINDS = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host",
    5: "Array-to-Array", 6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device",
    9: "Host-to-Host", 10: "Peer-to-Peer", 11: "Unified Host-to-Device",
    12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
"""CUpti_ActivityMemcpyKind (CUPTI documentation); 11 to 13 are nsys' own."""
_COMMON = ("start", "end", "deviceId", "streamId", "globalPid", "correlationId")
_NAME = "demangledName|shortName"
_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")


def read_activities(export: Export, trace: Trace, names: Names) -> None:
    """Fill trace.activities (sorted by start) and trace.configs."""
    parts = [
        part
        for kind, tables in ((KERNEL, KERNELS), (COPY, COPIES), (MEMSET, MEMSETS), (GRAPH, GRAPHS))
        for table in (export.table(name) for name in tables)
        if table is not None
        for part in (_read(export, table, kind, trace, names),)
    ]
    if not parts:
        return
    joined = {
        column: np.concatenate([getattr(part, column) for part in parts])
        for column in Activities.__dataclass_fields__
    }
    whole = Activities(**joined)
    good = (whole.end >= whole.start) & (whole.end != NONE)
    whole = whole.take(good & in_range(whole.start) & in_range(whole.end))
    trace.activities = whole.take(np.argsort(whole.start, kind="stable"))
    lost = joined["start"].size - len(trace.activities)
    if lost:
        trace.facts.append(f"{lost} device activities without a valid start and end were left out.")


def _read(export: Export, table: str, kind: int, trace: Trace, names: Names) -> Activities:
    extra = {
        KERNEL: (_NAME, "graphNodeId", *_SHAPE),
        COPY: ("copyKind", "bytes", "graphNodeId"),
        MEMSET: ("bytes", "graphNodeId"),
        GRAPH: ("graphId",),
    }[kind]
    values = dict(zip((*_COMMON, *extra), export.integers(table, (*_COMMON, *extra)), strict=True))
    count = values["start"].size
    none = np.full(count, NONE, dtype=np.int64)
    if kind == KERNEL:
        name = _kernel_names(export, values[_NAME], names)
        config = _configs(trace, [values[column] for column in _SHAPE])
    else:
        name, config = _plain_names(kind, values, names, count), none
    graph = values["graphId"] if kind == GRAPH else _node(values["graphNodeId"])
    return Activities(
        start=values["start"],
        end=values["end"],
        kind=np.full(count, kind, dtype=np.int64),
        device=values["deviceId"],
        stream=values["streamId"],
        process=values["globalPid"],
        correlation=values["correlationId"],
        name=name,
        config=config,
        bytes=values.get("bytes", none),
        graph=graph,
    )


def _node(graph_node: Int) -> Int:
    """Schemas write NULL or 0 for "not part of a graph"."""
    return np.where(graph_node == 0, NONE, graph_node)


def _kernel_names(export: Export, string_ids: Int, names: Names) -> Int:
    """Indices of the names in the trace."""
    ids, inverse = np.unique(string_ids, return_inverse=True)
    texts = export.strings(ids)
    index = [names.add(texts.get(int(i), f"kernel without a name ({i})")) for i in ids]
    return np.array(index, dtype=np.int64)[inverse] if index else string_ids


def _plain_names(kind: int, values: dict[str, Int], names: Names, count: int) -> Int:
    if kind == MEMSET:
        return np.full(count, names.add("[CUDA memset]"), dtype=np.int64)
    key = "copyKind" if kind == COPY else "graphId"
    ids, inverse = np.unique(values[key], return_inverse=True)
    texts = [
        f"[CUDA memcpy {_COPY_KINDS.get(int(i), f'kind {i}')}]" if kind == COPY
        else f"CUDA graph {i}"
        for i in ids
    ]  # fmt: skip
    return np.array([names.add(text) for text in texts], dtype=np.int64)[inverse]


def _configs(trace: Trace, columns: list[Int]) -> Int:
    """Index of each row's (grid, block) in trace.configs, which grows."""
    code = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, part = np.unique(column, return_inverse=True)
        code = np.unique(code * max(values.size, 1) + part, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    base = len(trace.configs)
    for row in first:
        shape = [int(column[row]) for column in columns]
        grid, block = tuple(shape[:3]), tuple(shape[3:])
        trace.configs.append((() if NONE in grid else grid, () if NONE in block else block))
    return np.asarray(base + inverse, dtype=np.int64)
