"""Tables of `nsys stats`: CSV files, and the text that it prints on a console.

    cuda_gpu_kern_sum, cuda_gpu_sum     kernels by name            -> kernel rows
    cuda_gpu_trace                      one row per activity       -> a whole timeline
    nvtx_gpu_proj_sum                   ranges on the device       -> range times
    nvtx_sum, nvtx_pushpop_sum          ranges on the host         -> range times

nvtx_kern_sum is refused: it repeats a kernel in every range around it, so its sums mean nothing.
Columns are addressed by name; times carry their unit in the header ("Total Time (ns)", or
"Duration:dur_ns" when a report script ran by itself).
"""

from __future__ import annotations

from pathlib import Path

from rooflens.errors import InputError
from rooflens.model import (
    Capture,
    Check,
    Join,
    KernelRow,
    RangeTime,
    Timeline,
    absent,
    known,
)
from rooflens.parsers.nsys.tables import StatsTable, read_tables
from rooflens.parsers.timeline.trace import (
    COPY,
    KERNEL,
    MEMSET,
    NONE,
    Activities,
    Names,
    Trace,
)
from rooflens.reading import Reading

FORMAT = "nsys-stats"
_NO_COUNTERS = absent("not collected: nsys stats has no counters")
_NO_SHAPE = absent("not in this table")


def read(path: Path) -> Reading:
    """Read the tables of one file.

    Raises InputError when the file holds no table that is used (and says what nsys said instead).
    """
    tables, skipped = read_tables(path)
    checks = [_skipped(skipped)] if skipped else []
    checks += [check for table in tables for check in _cut(path.name, table)]
    trace_table = next((t for t in tables if t.kind == "trace"), None)
    if trace_table is not None:
        from rooflens.parsers.timeline.build import reading

        return reading(_trace(trace_table, checks), path.name, FORMAT)
    kernels = next((_kernel_rows(t) for t in tables if t.kind == "kernels"), ())
    ranges = tuple(r for t in tables if t.kind in ("ranges", "projection") for r in _ranges(t))
    if not kernels and not ranges:
        if any(t.kind == "nvtx kernels" for t in tables):
            raise InputError(
                f"{path} is nvtx_kern_sum, which repeats a kernel in every range around it: its "
                "times cannot be added up.",
                "Use the .sqlite export, or nsys stats -r cuda_gpu_kern_sum,nvtx_gpu_proj_sum.",
            )
        said = f" nsys said: {skipped[0]}" if skipped else ""
        raise InputError(
            f"{path} has no table of kernels or ranges.{said}",
            "Make one: nsys stats -r cuda_gpu_kern_sum,nvtx_gpu_proj_sum -f csv FILE.",
        )
    launches = sum(row.count for row in kernels)
    whole = sum(float(row.duration_ns.value or 0) * row.count for row in kernels)
    facts = [f"{launches} kernels, {whole / 1e6:.3f} ms added up."] if kernels else []
    facts.append("Sums by name only: busy and idle time need the .sqlite export or the report.")
    return Reading(
        format=FORMAT,
        evidence="timeline",
        capture=Capture(
            file=path.name,
            format=FORMAT,
            tool="nsys",
            rows=launches,
            regime={"kernel counts": "per capture"},
        ),
        kernels=kernels,
        timeline=Timeline(
            source="nsys stats", steps=(), representative_step=None, ranges=ranges,
            facts=tuple(facts),
        ),
        checks=tuple(checks),
    )  # fmt: skip


def _skipped(lines: list[str]) -> Check:
    """One check for all reports that nsys left out; those on CUDA and NVTX are named."""
    telling = [line for line in lines if "NVTX" in line or "CUDA kernel" in line or "GPU" in line]
    return Check(
        id="timeline-stats",
        outcome="warning" if telling else "passed",
        message=f"nsys skipped {len(lines)} reports for want of data"
        + (f": {telling[0].removeprefix('SKIPPED: ')}" if telling else "."),
    )


def _cut(file: str, table: StatsTable) -> list[Check]:
    """Rows that a cut file lost: its last line, and what the shares of the rest do not add up to.

    nsys prints shares with one decimal, so n rows may miss 100 by n x 0.05.
    """
    said = []
    if table.cut_row:
        said.append("it ends inside a line, which was left out")
    listed = table.listed_percent()
    if listed is not None and listed < 99.95 - 0.05 * len(table.rows):
        said.append(f"its rows hold {listed:.1f} % of the time")
    if not said:
        return []
    return [
        Check(
            id="timeline-cut",
            outcome="warning",
            message=f"{file} is cut: {'; '.join(said)}.",
            fix="Copy the file again, or run nsys stats again.",
        )
    ]


def _kernel_rows(table: StatsTable) -> tuple[KernelRow, ...]:
    from rooflens.parsers.kernels import classify_name

    made = []
    for row in table.rows:
        if not table.is_kernel(row):
            continue
        name = table.text(row, "Name", "Operation")
        count = table.integer(row, "Instances")
        whole = table.nanoseconds(row, "Total Time")
        if not name or not count or whole is None:
            continue
        what = classify_name(name)
        made.append(
            KernelRow(
                name=name,
                short_name=what.short_name,
                family=what.family,
                op_class=what.op_class,
                count=count,
                duration_ns=known(whole / count, "ns", "timeline"),
                dram_bytes=_NO_COUNTERS,
                l2_bytes=_NO_COUNTERS,
                flops=_NO_COUNTERS,
                intensity=_NO_COUNTERS,
                join=Join(
                    method="none" if what.op_class == "other" else "name class", confidence="low"
                ),
            )
        )
    return tuple(made)


def _ranges(table: StatsTable) -> list[RangeTime]:
    made = []
    for row in table.rows:
        name = table.text(row, "Range").lstrip(":")
        count = table.integer(row, "Range Instances", "Instances")
        host = table.nanoseconds(row, "Total Range Time", "Total Time")
        device = table.nanoseconds(row, "Total Proj Time")
        if not name or not count or host is None:
            continue
        made.append(
            RangeTime(
                path=(name,),
                count=count,
                host_ns=known(host / count, "ns", "host"),
                device_ns=_NO_SHAPE if device is None else known(device / count, "ns", "timeline"),
            )
        )
    return made


def _trace(table: StatsTable, checks: list[Check]) -> Trace:
    """A capture from one row per device activity; there are no launches and no ranges in it."""
    names = Names()
    trace = Trace(tool="nsys", checks=checks)
    configs: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    values = []
    for row in table.rows:
        start, length = table.nanoseconds(row, "Start"), table.nanoseconds(row, "Duration")
        name = table.text(row, "Name")
        if start is None or length is None or not name:
            continue
        grid = table.integers(row, "GrdX", "GrdY", "GrdZ")
        block = table.integers(row, "BlkX", "BlkY", "BlkZ")
        kind = KERNEL if grid else MEMSET if "memset" in name else COPY
        config = configs.setdefault((grid, block), len(configs)) if grid else NONE
        values.append(
            (
                round(start), round(start + length), kind, table.device(row),
                table.integer(row, "Strm") or 0, 0, table.integer(row, "CorrId") or NONE,
                names.add(name), config, NONE, NONE,
            )
        )  # fmt: skip
    trace.names = names.texts()
    trace.configs = list(configs)
    trace.activities = Activities.from_rows(values)
    trace.facts.append("The table has no API calls and no ranges: causes of gaps are not known.")
    return trace
