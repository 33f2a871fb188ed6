"""Versions, the GPUs that were used, and what a missing table means. An allow-list, no dump."""

from __future__ import annotations

import numpy as np

from rooflens.model import Check, Machine
from rooflens.parsers.nsys.device import GRAPHS, KERNELS
from rooflens.parsers.nsys.export import Export
from rooflens.parsers.nsys.host import CALLS, NVTX
from rooflens.parsers.timeline.trace import GRAPH, KERNEL, NONE, Trace

_EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_GRAPH_MODE = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
LAUNCH_WORDS = ("Launch",)
"""An API name with this word launches work: cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch."""


def is_export(export: Export) -> bool:
    """Does this database come from nsys at all?"""
    known = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "NVTX_EVENTS", *_EXPORT_TABLES)
    return any(name.startswith(known) for name in export.tables())


def read_facts(export: Export, trace: Trace) -> None:
    """Fill version, regime and machine of a trace whose activities are read."""
    meta = _pairs(export, _EXPORT_TABLES, ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"))
    trace.version = meta.get("EXPORT_PRODUCT_VERSION", "")
    trace.regime["schema"] = meta.get("EXPORT_SCHEMA_VERSION", "not stated in the file")
    mode = _pairs(export, ("META_DATA_CAPTURE",), (_GRAPH_MODE,)).get(_GRAPH_MODE, "")
    if mode:
        trace.regime["CUDA graph trace"] = mode.lower()
    trace.has_kernels = any(export.table(name) for name in KERNELS)
    trace.machine = _machine(export, trace)


def _pairs(export: Export, tables: tuple[str, ...], keys: tuple[str, ...]) -> dict[str, str]:
    """Values of the named keys of a (name, value) table; nothing else is read from it."""
    found: dict[str, str] = {}
    for table in tables:
        if not {"name", "value"} <= set(export.columns(table) if export.table(table) else ()):
            continue
        marks = ",".join("?" * len(keys))
        sql = f'SELECT name, substr(value, 1, 64) FROM "{table}" WHERE name IN ({marks})'
        found.update((str(k), str(v)) for k, v in export.rows(sql, keys))
    return found


def _machine(export: Export, trace: Trace) -> Machine:
    used = sorted(int(d) for d in np.unique(trace.activities.device) if d != NONE)
    gpus = _gpus(export)
    models = sorted({gpus[d][0] for d in used if d in gpus})
    if not models and len({gpu[0] for gpu in gpus.values()}) == 1:
        models = [next(iter(gpus.values()))[0]]
    if not models:
        return Machine(device="imported", gpu_count=len(used) or None)
    first = next(gpu for gpu in gpus.values() if gpu[0] == models[0])
    return Machine(
        device="imported",
        gpu=" + ".join(models),
        gpu_count=len(used) or None,
        gpu_chip=first[1],
        compute_capability=first[2],
    )


def _gpus(export: Export) -> dict[int, tuple[str, str, str]]:
    """CUDA device number -> (model, chip, compute capability); adapters without SMs left out."""
    table = export.table("TARGET_INFO_GPU")
    if table is None:
        return {}
    have = export.columns(table)
    if "name" not in have or "id" not in have:
        return {}

    def column(name: str, default: str) -> str:
        return f'"{name}"' if name in have else default

    sql = (
        f"SELECT {column('cuDevice', 'id')}, id, substr(name, 1, 128), "
        f"{column('chipName', repr(''))}, {column('computeMajor', 'NULL')}, "
        f'{column("computeMinor", "NULL")}, {column("smCount", "1")} FROM "{table}"'
    )
    found: dict[int, tuple[str, str, str]] = {}
    for cuda, number, name, chip, major, minor, sms in export.rows(sql):
        if not sms or not name:
            continue  # an Intel or a "Basic Render" adapter
        key = number if cuda is None else cuda
        capability = "" if major is None else f"{major}.{minor}"
        found[int(str(key))] = (str(name), str(chip or ""), capability)
    return found


def checks(export: Export, trace: Trace) -> list[Check]:
    """What the capture does not hold, as statements with the likely reason and the fix."""
    made = [_kernel_check(export, trace), _range_check(export, trace)]
    graphs = _graph_check(export, trace)
    return [*made, graphs] if graphs else made


def _kernel_check(export: Export, trace: Trace) -> Check:
    name = "timeline-kernels"
    kernels = int((trace.activities.kind == KERNEL).sum())
    graphs = int((trace.activities.kind == GRAPH).sum())
    if kernels or graphs:
        return Check(id=name, outcome="passed", message=f"{kernels} kernels are in the capture.")
    launches = _launch_calls(trace)
    if launches:
        return Check(
            id=name,
            outcome="failed",
            message=f"{launches} launches are in the capture but not one kernel.",
            fix="The driver gave no device activity (WSL2, a virtual machine, or a driver and "
            "CUPTI that do not fit): update nsys or the driver; the host's ranges and calls are "
            "still usable.",
        )
    if any(export.table(table) for table in CALLS):
        return Check(
            id=name,
            outcome="failed",
            message="CUDA API calls are in the capture but no kernel was launched.",
            fix="The program ended (or the capture window closed) before its first kernel: check "
            "that it runs by itself, then widen --delay and --duration.",
        )
    ranges = len(trace.ranges)
    return Check(
        id=name,
        outcome="warning" if ranges else "failed",
        message="The capture holds no CUDA activity"
        + (": only its ranges are timed, on the host." if ranges else " at all."),
        fix="Capture with -t cuda,nvtx; on a machine without a GPU only ranges can be timed.",
    )


def _launch_calls(trace: Trace) -> int:
    wanted = [i for i, text in enumerate(trace.names) if any(w in text for w in LAUNCH_WORDS)]
    return int(np.isin(trace.calls.name, wanted).sum())


def _range_check(export: Export, trace: Trace) -> Check:
    if len(trace.ranges):
        return Check(
            id="timeline-ranges",
            outcome="passed",
            message=f"{len(trace.ranges)} NVTX ranges are in the capture.",
        )
    found = "an empty NVTX table" if export.table(NVTX) else "no NVTX table"
    return Check(
        id="timeline-ranges",
        outcome="warning",
        message=f"The capture has {found}: kernels cannot be tied to modules or steps by range.",
        fix="Capture with -t cuda,nvtx and annotate the step (profile run and profile wrap do).",
    )


def _graph_check(export: Export, trace: Trace) -> Check | None:
    launches = int(
        np.isin(
            trace.calls.name, [i for i, t in enumerate(trace.names) if "GraphLaunch" in t]
        ).sum()
    )
    if not launches:
        return None
    replayed = trace.activities.graph[trace.activities.kind == KERNEL]
    nodes = int((replayed != NONE).sum())
    if nodes:
        message = f"{launches} CUDA graph launches; their {nodes} kernels are in the capture."
        return Check(id="timeline-graphs", outcome="passed", message=message)
    traced = any(export.table(table) for table in GRAPHS)
    seen = "only as whole graphs" if traced else "not at all"
    return Check(
        id="timeline-graphs",
        outcome="warning",
        message=f"{launches} CUDA graph launches, whose kernels are in the capture {seen}.",
        fix="Capture with --cuda-graph-trace=node to see the kernels inside.",
    )
