"""Shares of roofs and waves of one kernel row, from whatever the capture holds."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from rooflens.errors import RooflensError
from rooflens.model import KernelRow, Machine, Roof
from rooflens.reports.theory.gpus import gpu
from rooflens.units import NS_PER_S


def metric(kernel: KernelRow, name: str) -> float | None:
    """A metric's value, or None."""
    quantity = kernel.metrics.get(name)
    return None if quantity is None else quantity.value


def blocks(kernel: KernelRow) -> int | None:
    """Blocks of one launch; None when the capture does not say."""
    return prod(kernel.grid) if kernel.grid else None


def bandwidth_share(kernel: KernelRow, roof: Roof | None) -> float | None:
    """Share of the DRAM roof: of the clocks held in the capture, else of the roof given."""
    for name in ("dram_percent_of_roof", "dram_throughput_percent"):
        percent = metric(kernel, name)
        if percent is not None:
            return percent / 100
    moved, time = kernel.dram_bytes.value, kernel.duration_ns.value
    if moved is None or not time or roof is None or roof.prediction:
        return None
    return moved / time * NS_PER_S / roof.bandwidth_bytes_per_s


def flop_share(kernel: KernelRow, roof: Roof | None) -> float | None:
    """Share of the peak of the pipe in use: tensor cores where they worked, else the SM's own."""
    for name in ("tensor_percent_of_roof", "flop_percent_of_roof", "sm_throughput_percent"):
        percent = metric(kernel, name)
        if percent is not None:
            return percent / 100
    done, time = kernel.flops.value, kernel.duration_ns.value
    if done is None or not time or roof is None or roof.prediction:
        return None
    return done / time * NS_PER_S / roof.peak_flops_per_s


@lru_cache(maxsize=64)
def _sms(name: str) -> int | None:
    try:
        return gpu(name).sms
    except RooflensError:
        return None


def multiprocessors(machine: Machine, roof: Roof | None = None) -> int | None:
    """SMs by the data sheet of the machine's GPU, else of the roof's; None when not known."""
    if machine.gpu and (found := _sms(machine.gpu)):
        return found
    return _sms(roof.name) if roof is not None and not roof.prediction else None


def waves(kernel: KernelRow, machine: Machine, roof: Roof | None = None) -> float | None:
    """Blocks over blocks that the GPU holds at once; by SMs alone where ncu did not say."""
    measured = metric(kernel, "waves_per_sm")
    if measured is not None:
        return measured
    count, sms = blocks(kernel), multiprocessors(machine, roof)
    return None if count is None or not sms else count / sms


def total_ns(kernel: KernelRow) -> float | None:
    """Time of all launches of a step."""
    return None if kernel.duration_ns.value is None else kernel.duration_ns.value * kernel.count
