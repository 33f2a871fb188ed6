"""Kernels by lost time, or by time or bytes where there is no floor to lose against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.model import KernelRow, Quantity, Roof, Run, absent, known
from rooflens.reports.format import count_text, percent_text, plural, time_text
from rooflens.reports.view.basis import Basis
from rooflens.reports.view.cells import amount, derived, missing, named, table, words
from rooflens.reports.view.page import Cell, Column, Kernels, Table

MAX_ROWS = 200
INVALID_SHARE = 1.05
"""A kernel above 105 % of the roof that was held during the capture cannot be right."""
NO_ROOF = "no roof for the device of this capture"

FLOOR_CAPTION = (
    " The floor of a launch is the time that its own bytes and FLOPs need at the roof; lost is "
    "time minus floor."
)
COLUMNS = (
    Column("Kernel", numeric=False),
    Column("Class", numeric=False),
    Column("Launches"),
    Column("Lost, all launches"),
    Column("Time, all launches"),
    Column("Share of time"),
    Column("Time per launch"),
    Column("Floor per launch"),
    Column("DRAM bytes, all launches"),
    Column("FLOPs, all launches"),
    Column("Intensity"),
    Column("Of DRAM roof"),
    Column("Of FLOP roof"),
    Column("Device", numeric=False),
    Column("Family", numeric=False),
    Column("Joined by", numeric=False),
)


@dataclass(frozen=True)
class _Weighed:
    """A kernel row with its sums over all launches (ns)."""

    kernel: KernelRow
    time_ns: float | None
    floor_ns: Quantity
    lost_ns: float | None


def kernels(basis: Basis) -> Kernels:
    """Make the kernel table, at most 200 rows and one for the rest."""
    run = basis.run
    graphs = _graphs_table(run)
    if not run.kernels:
        return Kernels(None, graphs, (), "" if graphs else _why_none(run))
    roof = basis.roof if basis.same_device else None
    weighed = sorted((_weigh(kernel, roof) for kernel in run.kernels), key=_order)
    whole = sum(entry.time_ns or 0.0 for entry in weighed)
    several = len({kernel.device for kernel in run.kernels} - {None}) > 1
    rows = [_row(entry, whole, several) for entry in weighed[:MAX_ROWS]]
    if len(weighed) > MAX_ROWS:
        rows.append(_rest_row(weighed[MAX_ROWS:], whole))
    whose = "the capture" if basis.per_capture else "one step"
    caption = f"Kernels of {whose}, {_ordering(weighed)} first."
    if any(entry.lost_ns is not None for entry in weighed):
        caption += FLOOR_CAPTION
    return Kernels(
        table=table("kernels-table", caption, COLUMNS, rows),
        graphs=graphs,
        sentences=tuple(_sentences(run, weighed, whole)),
        empty="",
    )


def _why_none(run: Run) -> str:
    if run.machine.device == "meta":
        return "No kernel was launched: a meta run computes shapes only."
    if run.machine.device == "cpu":
        return (
            "A CPU run has operators but no GPU kernels. On a GPU machine add "
            "`--evidence counters` or `--evidence timeline`."
        )
    return "This run holds no kernel: neither a timeline nor counters were collected."


def _weigh(kernel: KernelRow, roof: Roof | None) -> _Weighed:
    floor = kernel_floor(kernel, roof)
    time = kernel.duration_ns.value
    lost = None
    if time is not None and floor.value is not None:
        lost = (float(time) - float(floor.value)) * kernel.count
    return _Weighed(kernel, None if time is None else float(time) * kernel.count, floor, lost)


def kernel_floor(kernel: KernelRow, roof: Roof | None) -> Quantity:
    """Time that one launch's own bytes and FLOPs need at the roof (ns)."""
    if roof is None:
        return absent(NO_ROOF)
    if kernel.dram_bytes.value is None and kernel.flops.value is None:
        return absent(kernel.dram_bytes.absent or kernel.flops.absent or "")
    memory = float(kernel.dram_bytes.value or 0) / roof.bandwidth_bytes_per_s
    compute = float(kernel.flops.value or 0) / roof.peak_flops_per_s
    return known(max(memory, compute) * 1e9, "ns", "counters")


def _order(entry: _Weighed) -> tuple[float, float, float, str]:
    moved = float(entry.kernel.dram_bytes.value or 0) * entry.kernel.count
    # Without a floor all of a kernel's time may be lost.
    lost = entry.time_ns if entry.lost_ns is None else entry.lost_ns
    return -(lost or 0.0), -(entry.time_ns or 0.0), -moved, entry.kernel.name


def _ordering(weighed: Sequence[_Weighed]) -> str:
    if any(entry.lost_ns is not None for entry in weighed):
        return "most lost time"
    return "most time" if any(entry.time_ns is not None for entry in weighed) else "most bytes"


def _row(entry: _Weighed, whole: float, several: bool) -> list[Cell]:
    kernel = entry.kernel
    time = kernel.duration_ns
    device = f"GPU {kernel.device}" if several and kernel.device is not None else ""
    invalid = is_invalid(kernel)
    name = named(kernel.short_name or kernel.name, _full_name(kernel))
    lost = missing(entry.floor_ns.absent or time.absent or "")
    if entry.lost_ns is not None:
        lost = derived(entry.lost_ns, time_text(entry.lost_ns), time, kernel.dram_bytes)
    return [
        Cell(name.text, detail=name.detail, css="invalid" if invalid else ""),
        words(kernel.op_class),
        Cell(count_text(kernel.count), sort=kernel.count),
        lost,
        _times(time, kernel.count),
        _share(entry.time_ns, whole, time),
        amount(time),
        amount(entry.floor_ns),
        _times(kernel.dram_bytes, kernel.count),
        _times(kernel.flops, kernel.count),
        amount(kernel.intensity),
        _percent(kernel, DRAM_SHARES),
        _percent(kernel, FLOP_SHARES),
        Cell(device),
        words(kernel.family),
        words(_joined(kernel)),
    ]


def _full_name(kernel: KernelRow) -> str:
    """The whole name with the launch shape: rows that differ only in shape stay apart."""
    if not kernel.grid:
        return kernel.name
    grid, block = ("x".join(map(str, shape)) for shape in (kernel.grid, kernel.block))
    return f"grid {grid}, block {block}: {kernel.name}"


DRAM_SHARES = ("dram_percent_of_roof",)
FLOP_SHARES = ("tensor_percent_of_roof", "flop_percent_of_roof", "flops_percent_of_roof")


def held_share(kernel: KernelRow, names: Sequence[str]) -> float | None:
    """Share of the roof held during the capture (1 = all of it), or None."""
    for name in names:
        quantity = kernel.metrics.get(name)
        if quantity is not None and quantity.value is not None:
            return float(quantity.value) / 100
    return None


def is_invalid(kernel: KernelRow) -> bool:
    """True when a kernel is above 105 % of a roof that was held while it ran."""
    shares = [held_share(kernel, names) for names in (DRAM_SHARES, FLOP_SHARES)]
    return any(share is not None and share > INVALID_SHARE for share in shares)


def _percent(kernel: KernelRow, names: Sequence[str]) -> Cell:
    share = held_share(kernel, names)
    if share is None:
        reason = next((kernel.metrics[n].absent for n in names if n in kernel.metrics), None)
        return missing(reason or "the capture does not hold the peak rates")
    text = percent_text(share)
    if share > INVALID_SHARE:
        return Cell(f"{text} (invalid)", "counters", sort=share, css="invalid")
    return Cell(text, "counters", sort=share)


def _times(quantity: Quantity, count: int) -> Cell:
    """The sum over all launches: mean times count is exact by definition of a kernel row."""
    if quantity.value is None or quantity.unit is None or quantity.source is None:
        return amount(quantity)
    return amount(
        Quantity(
            value=quantity.value * count,
            unit=quantity.unit,
            source=quantity.source,
            extrapolated_from=quantity.extrapolated_from,
        )
    )


def _share(time_ns: float | None, whole: float, time: Quantity) -> Cell:
    if time_ns is None or whole <= 0:
        return missing(time.absent or "no time")
    return derived(time_ns / whole, percent_text(time_ns / whole), time)


def _joined(kernel: KernelRow) -> str:
    if kernel.join.method == "none":
        return "not joined"
    return f"{kernel.join.method} ({kernel.join.confidence})"


def _rest_row(rest: Sequence[_Weighed], whole: float) -> list[Cell]:
    """One row for all kernels beyond the first 200."""
    time = sum(entry.time_ns or 0.0 for entry in rest)
    launches = sum(entry.kernel.count for entry in rest)
    blank = missing("summed over many kernels")
    lost = [entry.lost_ns for entry in rest if entry.lost_ns is not None]
    timed = any(entry.time_ns is not None for entry in rest)
    return [
        Cell(f"Other ({plural(len(rest), 'kernel')})", css="sum"),
        Cell(""),
        Cell(count_text(launches), sort=launches),
        Cell(time_text(sum(lost)), sort=sum(lost)) if lost else blank,
        Cell(time_text(time), sort=time) if timed else blank,
        Cell(percent_text(time / whole)) if timed and whole > 0 else blank,
        *([blank] * 7),
        Cell(""),
        Cell(""),
        Cell(""),
    ]


def _sentences(run: Run, weighed: Sequence[_Weighed], whole: float) -> list[str]:
    lines = [
        f"{plural(len(weighed), 'kernel row')}, "
        f"{plural(sum(entry.kernel.count for entry in weighed), 'launch', 'launches')}"
        + (f", {time_text(whole)} of kernel time." if whole else ", no time.")
    ]
    sources = {entry.kernel.duration_ns.source for entry in weighed} - {None}
    if sources == {"counters"}:
        lines.append(
            "These times are from ncu: each kernel alone, cold and replayed. They are longer than "
            "in the running step and must not be added up to a step time."
        )
    invalid = [entry for entry in weighed if is_invalid(entry.kernel)]
    if invalid:
        lines.append(
            f"{plural(len(invalid), 'row')} above 105 % of the held roof: marked invalid, because "
            "no kernel can be faster than the device. The counters or the clock are wrong there."
        )
    unknown = [entry for entry in weighed if entry.kernel.family == "unknown"]
    if unknown:
        lines.append(f"{plural(len(unknown), 'kernel')} with a name that no rule knows.")
    if run.graphs:
        lines.append(
            "Launches inside CUDA graphs without node records are in a table of their own."
        )
    return lines


def _graphs_table(run: Run) -> Table | None:
    if not run.graphs:
        return None
    columns = (Column("CUDA graph", numeric=False), Column("Launches"), Column("Time per launch"))
    rows = [
        [
            Cell(str(graph.id)),
            Cell(count_text(graph.launches), sort=graph.launches),
            amount(graph.duration_ns),
        ]
        for graph in run.graphs[:MAX_ROWS]
    ]
    return table("graphs-table", "CUDA graphs whose kernels are not in the capture", columns, rows)
