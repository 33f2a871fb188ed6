"""Counters of one launch to bytes, FLOPs and shares of the roof, each with the path that was taken.

    DRAM bytes   dram__bytes, else read + write, else op_read + op_write, else 32 x sectors,
                 else rate x duration
    FLOPs        tensor cores (tensor_flops.py) + FP64 + FP32 + FP16 (sass_flops.py)
    roofs        peak_sustained x the clock that was held during the capture

A quantity that cannot be had is absent with the reason. Sources: Nsight Compute's section files;
NVIDIA whitepapers for the rates; DCGM issue 251 for factor 1 on tensor counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rooflens.errors import InputError
from rooflens.model import Quantity, absent, known
from rooflens.parsers.chips import has_dram_counters
from rooflens.parsers.counters import Counters, first, sm_clock_hz
from rooflens.parsers.sass_flops import SASS_FACTORS, sass_flops, sass_peak_flops_per_s
from rooflens.parsers.tensor_flops import Found, tensor_flops

SECTOR_BYTES = 32


@dataclass
class Derived:
    """Quantities of one launch, and where each came from."""

    duration_ns: Quantity
    dram_bytes: Quantity
    l2_bytes: Quantity
    flops: Quantity
    metrics: dict[str, Quantity] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)


def derive(counters: Counters, chip: str = "") -> Derived:
    """Turn the counters of one launch into quantities. `chip` narrows the names that can exist."""
    paths: dict[str, str] = {}
    metrics: dict[str, Quantity] = {}
    duration = _duration(counters, paths)
    time = None if duration.value is None else float(duration.value)
    dram = _dram(counters, time, chip, paths, metrics)
    l2 = _cache_bytes(counters, "lts__t", "l2_bytes", time, paths)
    l1 = _cache_bytes(counters, "l1tex__t", "l1_bytes", time, paths)
    if l1.value is not None:
        metrics["l1_bytes"] = l1
    clock = sm_clock_hz(counters)
    tensor = tensor_flops(counters, chip, clock, time)
    flops = _flops(counters, tensor, time, chip, paths, metrics)
    if flops.value is None and "nan" in (duration.absent or ""):
        flops = duration
    _shares(counters, tensor, dram, time, clock, metrics)
    _extras(counters, clock, metrics)
    return Derived(duration, dram, l2, flops, metrics, paths)


def _why(counters: Counters, names: tuple[str, ...], otherwise: str) -> str:
    """The reason a metric of the capture has no value, else `otherwise`."""
    for name in names:
        reason = counters.reason(name)
        if reason:
            return f"{name}: {reason}"
    return otherwise


def _duration(counters: Counters, paths: dict[str, str]) -> Quantity:
    names = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max")
    found = first(counters, *names, unit="ns")
    if found:
        paths["duration_ns"] = found[1]
        return known(_whole(found[0]), "ns", "counters")
    for cycles, rate in (
        ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"),
        ("sm__cycles_elapsed.max", "sm__cycles_elapsed.max.per_second"),
        ("sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second"),
    ):
        count, hz = counters.number(cycles, "cycle"), counters.number(rate, "hz")
        if count and hz:
            paths["duration_ns"] = f"{cycles} / {rate}"
            return known(count / hz * 1e9, "ns", "counters")
    return absent(
        _why(
            counters,
            names,
            "not collected: no gpu__time_duration and no cycles with their rate in the capture "
            "(was a section name given as --set?)",
        )
    )


def _whole(value: float) -> int | float:
    """A count without the rounding residue of `rate x cycles`: bytes and operations are whole."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= 1e-9 * max(1.0, abs(value)) else value


def _dram(
    counters: Counters,
    time: float | None,
    chip: str,
    paths: dict[str, str],
    metrics: dict[str, Quantity],
) -> Quantity:
    for read, write, factor, unit in _DRAM_PAIRS:
        for name, side in ((read, "dram_read_bytes"), (write, "dram_write_bytes")):
            value = counters.number(name, unit)
            if value is not None and side not in metrics:
                metrics[side] = known(_whole(value * factor), "byte", "counters")
                paths[side] = name if factor == 1 else f"{factor} x {name}"
    total = counters.number("dram__bytes.sum", "byte")
    if total is not None:
        paths["dram_bytes"] = "dram__bytes.sum"
        return known(_whole(total), "byte", "counters")
    sides = [metrics.get("dram_read_bytes"), metrics.get("dram_write_bytes")]
    if all(side is not None for side in sides):
        paths["dram_bytes"] = f"{paths['dram_read_bytes']} + {paths['dram_write_bytes']}"
        return known(sum(side.value or 0 for side in sides if side), "byte", "counters")
    by_rate = _dram_by_rate(counters, time, paths)
    return by_rate if by_rate is not None else absent(_why_no_dram(counters, chip, paths))


_DRAM_PAIRS = (
    ("dram__bytes_read.sum", "dram__bytes_write.sum", 1, "byte"),
    ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum", 1, "byte"),
    ("dram__sectors_read.sum", "dram__sectors_write.sum", SECTOR_BYTES, "sector"),
    ("dram__sectors_op_read.sum", "dram__sectors_op_write.sum", SECTOR_BYTES, "sector"),
)


def _dram_by_rate(counters: Counters, time: float | None, paths: dict[str, str]) -> Quantity | None:
    if time is None:
        return None
    rate = counters.number("dram__bytes.sum.per_second", "byte/s")
    name = "dram__bytes.sum.per_second"
    if rate is None:
        pair = ("dram__bytes_read.sum.per_second", "dram__bytes_write.sum.per_second")
        values = [counters.number(side, "byte/s") for side in pair]
        if None in values:
            return None
        rate, name = sum(v for v in values if v is not None), " + ".join(pair)
    paths["dram_bytes"] = f"({name}) x {paths['duration_ns']}"
    return known(_whole(rate * time / 1e9), "byte", "counters")


def _why_no_dram(counters: Counters, chip: str, paths: dict[str, str]) -> str:
    if has_dram_counters(chip) is False:
        return f"{chip.upper()} has no DRAM counters; L2 bytes are what can be measured"
    names = tuple(name for pair in _DRAM_PAIRS for name in pair[:2])
    for side, other in (("dram_read_bytes", "writes"), ("dram_write_bytes", "reads")):
        if side in paths:
            return f"only {paths[side]} was collected; the {other} are missing"
    return _why(
        counters,
        ("dram__bytes.sum", *names, "dram__bytes.sum.per_second"),
        "not collected: no dram__bytes, dram__sectors or DRAM rate in the capture "
        "(ncu's default and basic sets have none)",
    )


def _cache_bytes(
    counters: Counters, unit: str, what: str, time: float | None, paths: dict[str, str]
) -> Quantity:
    total = counters.number(f"{unit}_bytes.sum", "byte")
    if total is not None:
        paths[what] = f"{unit}_bytes.sum"
        return known(_whole(total), "byte", "counters")
    sectors = counters.number(f"{unit}_sectors.sum", "sector")
    if sectors is not None:
        paths[what] = f"{SECTOR_BYTES} x {unit}_sectors.sum"
        return known(_whole(sectors * SECTOR_BYTES), "byte", "counters")
    rate = counters.number(f"{unit}_sectors.sum.per_second", "sector/s")
    if rate is not None and time is not None:
        paths[what] = f"{SECTOR_BYTES} x {unit}_sectors.sum.per_second x {paths['duration_ns']}"
        return known(_whole(rate * SECTOR_BYTES * time / 1e9), "byte", "counters")
    names = (f"{unit}_bytes.sum", f"{unit}_sectors.sum")
    return absent(_why(counters, names, f"not collected: no {unit}_bytes or {unit}_sectors"))


def _flops(
    counters: Counters,
    tensor: Found,
    time: float | None,
    chip: str,
    paths: dict[str, str],
    metrics: dict[str, Quantity],
) -> Quantity:
    metrics["tensor_flops"] = tensor.flops
    if tensor.path:
        paths["tensor_flops"] = tensor.path
    for name, value in tensor.by_type.items():
        metrics[f"tensor_flops_{name}"] = known(_whole(value), "flop", "counters")
    if tensor.integer_ops is not None:
        metrics["tensor_integer_ops"] = tensor.integer_ops
    total, used, left_out = float(tensor.flops.value or 0), [], []
    if tensor.flops.value is not None:
        used.append("tensor")
    for kind in SASS_FACTORS:
        found = sass_flops(counters, kind, time)
        if isinstance(found, str):
            if found:
                left_out.append(f"{kind}: {found}")
            continue
        metrics[f"{kind}_flops"] = known(_whole(found[0]), "flop", "counters")
        paths[f"{kind}_flops"] = found[1]
        total += found[0]
        used.append(kind)
    if tensor.flops.value is None:
        return tensor.flops
    if used == ["tensor"] and not total:
        return absent(
            "not collected: the tensor cores did nothing here, and no SASS counters were taken "
            "that count FLOPs outside them"
        )
    paths["flops"] = " + ".join(used) + (f" (without {'; '.join(left_out)})" if left_out else "")
    return known(_whole(total), "flop", "counters")


def _shares(
    counters: Counters,
    tensor: Found,
    dram: Quantity,
    time: float | None,
    clock: float | None,
    metrics: dict[str, Quantity],
) -> None:
    """Shares (per cent) of the roofs that were held during the capture."""
    width = counters.number("dram__bytes.sum.peak_sustained")
    dram_clock = counters.number("dram__cycles_elapsed.avg.per_second")
    if width and dram_clock:
        metrics["held_dram_bytes_per_s"] = _number(width * dram_clock)
        if dram.value is not None and time:
            metrics["dram_percent_of_roof"] = _number(
                dram.value / (width * dram_clock * time / 1e9) * 100
            )
    if tensor.share is not None and tensor.flops.value:
        metrics["tensor_percent_of_roof"] = _number(tensor.share * 100)
    if tensor.peak_flops_per_s is not None:
        metrics["held_tensor_flops_per_s"] = _number(tensor.peak_flops_per_s)
    share = 0.0
    for kind, op in (("fp32", "ffma"), ("fp64", "dfma")):
        peak = sass_peak_flops_per_s(counters, op, clock)
        if peak is None:
            continue
        metrics[f"held_{kind}_flops_per_s"] = _number(peak)
        done = metrics.get(f"{kind}_flops")
        if done is not None and done.value is not None and time:
            share += float(done.value) / (peak * time / 1e9)
    if share:
        metrics["flop_percent_of_roof"] = _number(share * 100)


def _number(value: float) -> Quantity:
    return known(value, "1", "counters")


_EXTRAS = {
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "dram_throughput_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_throughput_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers_per_thread": "launch__registers_per_thread",
    "waves_per_sm": "launch__waves_per_multiprocessor",
    "passes": "profiler__replayer_passes",
}


def _extras(counters: Counters, clock: float | None, metrics: dict[str, Quantity]) -> None:
    for name, metric in _EXTRAS.items():
        try:
            value = counters.number(metric)
        except InputError:  # an odd unit of a figure that nothing is computed from
            continue
        if value is not None:
            metrics[name] = _number(value)
    if clock is not None:
        metrics["sm_clock_hz"] = _number(clock)
