"""Small timeline captures written from scratch, so that a test states every number it checks."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROCESS = 0x0001_0000_0500_0000
THREAD = PROCESS + 7
PUSH_POP, START_END, DOMAIN = 59, 60, 75

KERNEL_COLUMNS = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
    "graphNodeId",
)  # fmt: skip
NVTX_COLUMNS = (
    "start", "end", "eventType", "text", "globalTid", "endGlobalTid", "textId", "domainId",
)  # fmt: skip


class ExportFile:
    """Builds the tables of an nsys export; strings get their ids as they come."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
        self.strings: dict[str, int] = {}

    def string(self, text: str) -> int:
        """Id of a string."""
        return self.strings.setdefault(text, len(self.strings) + 1)

    def add(self, table: str, columns: Sequence[str], row: Sequence[Any]) -> None:
        """Add one row to a table."""
        self.tables.setdefault(table, (tuple(columns), []))[1].append(tuple(row))

    def kernel(self, start: int, end: int, name: str = "gemm", **fields: Any) -> None:
        """A kernel; its grid is (4, 1, 1), its block (128, 1, 1) unless given."""
        grid, block = fields.get("grid", (4, 1, 1)), fields.get("block", (128, 1, 1))
        row = (
            start, end, fields.get("device", 0), 1, fields.get("stream", 7),
            fields.get("correlation", 0), fields.get("process", PROCESS),
            self.string(fields.get("demangled", name)), self.string(name), *grid, *block,
            fields.get("node"),
        )  # fmt: skip
        self.add(fields.get("table", "CUPTI_ACTIVITY_KIND_KERNEL"), KERNEL_COLUMNS, row)

    def copy(self, start: int, end: int, kind: int = 1, **fields: Any) -> None:
        """A memory copy (kind 1 host to device, 2 device to host)."""
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                   "copyKind", "bytes")  # fmt: skip
        row = (start, end, fields.get("device", 0), fields.get("stream", 7),
               fields.get("correlation", 0), fields.get("process", PROCESS), kind,
               fields.get("bytes", 1024))  # fmt: skip
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", columns, row)

    def graph(self, start: int, end: int, correlation: int, graph: int = 5) -> None:
        """A whole CUDA graph launch."""
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId")
        row = (start, end, 0, 7, correlation, PROCESS, graph)
        self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns, row)

    def call(
        self, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel_v7000",
        thread: int = THREAD,
    ) -> None:  # fmt: skip
        """An API call."""
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        row = (start, end, thread, correlation, self.string(name))
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", columns, row)

    def launch(self, at: int, start: int, end: int, name: str = "gemm", **fields: Any) -> None:
        """A kernel with its launching call of 2 ns; correlation ids are counted."""
        correlation = 1 + len(self.tables.get("CUPTI_ACTIVITY_KIND_RUNTIME", ((), []))[1])
        self.call(at, at + 2, correlation, thread=fields.pop("thread", THREAD))
        self.kernel(start, end, name, correlation=correlation, **fields)

    def range(self, start: int, end: int | None, name: str, **fields: Any) -> None:
        """An NVTX range; `registered` puts the name into StringIds."""
        registered = fields.get("registered", False)
        row = (
            start, end, fields.get("kind", PUSH_POP), None if registered else name,
            fields.get("thread", THREAD), fields.get("end_thread"),
            self.string(name) if registered else None, fields.get("domain", 0),
        )  # fmt: skip
        self.add(fields.get("table", "NVTX_EVENTS"), NVTX_COLUMNS, row)

    def domain(self, number: int, name: str) -> None:
        """Creation of an NVTX domain."""
        self.range(-5, None, name, kind=DOMAIN, domain=number)

    def write(self, path: Path, without: Iterable[str] = ()) -> Path:
        """Write the file, leaving out some columns if asked for."""
        without = set(without)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
            connection.execute(
                "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1.1')"
            )
            connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            for table, (columns, rows) in self.tables.items():
                keep = [i for i, column in enumerate(columns) if column not in without]
                names = ", ".join(f'"{columns[i]}"' for i in keep)
                connection.execute(f"CREATE TABLE {table} ({names})")
                marks = ", ".join("?" * len(keep))
                connection.executemany(
                    f"INSERT INTO {table} VALUES ({marks})",
                    [tuple(row[i] for i in keep) for row in rows],
                )
            connection.executemany(
                "INSERT INTO StringIds VALUES (?, ?)", [(i, s) for s, i in self.strings.items()]
            )
        connection.close()
        return path


def trace_event(category: str, name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    """One complete event of a Chrome trace (times in microseconds)."""
    args = fields.pop("args", {})
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1,
            "args": args} | fields  # fmt: skip


def kernel_event(name: str, ts: float, dur: float, correlation: int, **args: Any) -> dict[str, Any]:
    """A kernel of a Chrome trace on device 0, stream 7."""
    return trace_event(
        "kernel", name, ts, dur,
        args={"device": 0, "stream": 7, "correlation": correlation, "grid": [1, 1, 1],
              "block": [32, 1, 1]} | args,
    )  # fmt: skip


def call_event(ts: float, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    """A launching call of 2 us."""
    return trace_event("cuda_runtime", name, ts, 2, args={"correlation": correlation})


def write_trace(path: Path, events: Sequence[Mapping[str, Any]], **extra: Any) -> Path:
    """Write a Chrome trace."""
    path.write_text(json.dumps({"schemaVersion": 1, **extra, "traceEvents": list(events)}), "utf-8")
    return path
