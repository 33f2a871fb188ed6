"""Tensor-core FLOPs of one launch from `sm__ops_path_tensor_*`.

A counter such as `src_bf16_dst_fp32` is the sum of its parts (by sparsity, by instruction): the
parent is taken where it exists, else its parts, never both. Counts are FLOP already (factor 1).
The parent's `peak_sustained` is the sparse peak; a dense roof is that of the `sparsity_off` part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from rooflens.model import Quantity, absent, known
from rooflens.parsers.chips import (
    TENSOR_PREFIX,
    has_tensor_cores,
    tensor_counters,
    tensor_parents,
)
from rooflens.parsers.counters import Counters

_PIPE_PERCENTS = (
    "sm__inst_executed_pipe_tensor_op_hmma.sum.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_dmma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_dmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_subpipe_hmma.avg.pct_of_peak_sustained_active",
)
"""How busy the floating-point tensor pipes were: all 0 means no tensor FLOP, without any count."""
_WHOLE_PIPE = (
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""The same for all formats together, integers included."""


@dataclass
class Found:
    """Tensor FLOPs, by number type, with the dense roof that was held."""

    flops: Quantity
    path: str = ""
    by_type: dict[str, float] = field(default_factory=dict)
    integer_ops: Quantity | None = None
    share: float | None = None
    """Of the dense roofs of the types used, over the kernel's time; 1 is all of it."""
    peak_flops_per_s: float | None = None
    """Dense roof of the type with the most FLOPs."""


def tensor_flops(
    counters: Counters, chip: str, clock_hz: float | None, time_ns: float | None
) -> Found:
    """Sum the tensor counters of a launch, or say why that cannot be done."""
    if has_tensor_cores(chip) is False:
        return Found(known(0, "flop", "counters"), f"{chip.upper()} has no tensor cores")
    types: dict[str, float] = {}
    paths, integers = [], 0.0
    seen_integer = False
    for parent in tensor_parents(chip):
        found = _resolve(counters, parent, chip)
        if found is None:
            continue
        if parent.startswith("src_int"):
            integers += found[0]
            seen_integer = True
            continue
        types[parent] = found[0]
        if found[0] or len(types) == 1:
            paths.append(found[1])
    result = _known_or_why(counters, chip, types)
    used = {name.removeprefix("src_"): value for name, value in types.items() if value}
    done = Found(result, " + ".join(paths) if types else "", used)
    if not types and result.value == 0:
        done.path = "the tensor pipe was idle"
    if seen_integer:
        done.integer_ops = known(integers, "1", "counters")
    _roof(counters, chip, types, clock_hz, time_ns, done)
    return done


def _known_or_why(counters: Counters, chip: str, types: dict[str, float]) -> Quantity:
    total = sum(types.values())
    floats = [p for p in tensor_parents(chip) if not p.startswith("src_int")]
    if total or (types and chip and len(types) == len(floats)):
        return known(int(total), "flop", "counters")
    idle, what = _pipe(counters)
    if idle:
        return known(0, "flop", "counters")
    if types:
        names = ", ".join(name.removeprefix("src_") for name in types)
        return absent(
            f"only the tensor counters of {names} were collected and they are 0; other number "
            "formats were not counted"
        )
    if what:
        return absent(
            f"tensor cores were busy ({what}) but no tensor operations were counted; collect "
            "sm__ops_path_tensor_* (see `profile metrics`)"
        )
    return absent("not collected: no sm__ops_path_tensor_* counter in the capture")


def _pipe(counters: Counters) -> tuple[bool, str]:
    """Whether floating-point tensor work is excluded, and what shows that it is not."""
    values = {name: counters.number(name) for name in _PIPE_PERCENTS}
    busy = [(name, value) for name, value in values.items() if value]
    if busy:
        name, value = busy[0]
        return False, f"{name.split('.')[0]} {value:.3g} %"
    if values[_PIPE_PERCENTS[0]] == 0 or values[_PIPE_PERCENTS[1]] == 0:
        return True, ""
    for name in _WHOLE_PIPE:
        whole = counters.number(name)
        if whole is not None:
            unit = "warp instructions" if name.endswith(".sum") else "%"
            return whole == 0, f"{name.split('.')[0]} {whole:.6g} {unit}" if whole else ""
    return False, ""


@lru_cache(maxsize=512)
def _instructions(parent: str, chip: str) -> tuple[str, ...]:
    """The counters by instruction that together make a parent, e.g. hmma and hgmma.

    Without a chip there are none: what is a part on one chip is a parent on another.
    """
    if not chip:
        return ()
    suffix = "_" + parent
    return tuple(
        name
        for name in tensor_counters(chip)
        if name.startswith("op_") and name.endswith(suffix) and "_sparsity_" not in name
    )


@lru_cache(maxsize=512)
def _accumulators(name: str, chip: str) -> tuple[str, ...]:
    """The counters by accumulate type that together make one by instruction (fp16 on GH100)."""
    return tuple(
        part
        for part in tensor_counters(chip)
        if part.startswith(f"{name}_dst_") and "_sparsity_" not in part
    )


def _resolve(counters: Counters, parent: str, chip: str) -> tuple[float, str] | None:
    """Operations of one parent: its own counter, else its parts, by instruction and type."""
    whole = _whole_or_halves(counters, parent)
    if whole is not None:
        return whole
    return _sum_parts(counters, _instructions(parent, chip), chip)


def _sum_parts(counters: Counters, names: tuple[str, ...], chip: str) -> tuple[float, str] | None:
    """Sum of the parts that were collected, which names those that were not."""
    found, left_out = [], []
    for name in names:
        part = _whole_or_halves(counters, name)
        if part is None:
            part = _sum_parts(counters, _accumulators(name, chip), chip)
        if part is None:
            left_out.append(name)
        else:
            found.append(part)
    if not found:
        return None
    note = f" (without {', '.join(left_out)})" if left_out else ""
    return sum(value for value, _ in found), " + ".join(path for _, path in found) + note


@lru_cache(maxsize=1024)
def _names(name: str) -> tuple[str, str, str]:
    full = TENSOR_PREFIX + name
    return f"{full}.sum", f"{full}_sparsity_off.sum", f"{full}_sparsity_on.sum"


def _whole_or_halves(counters: Counters, name: str) -> tuple[float, str] | None:
    full, dense, sparse = _names(name)
    whole = counters.number(full)
    if whole is not None:
        return whole, full
    off = counters.number(dense)
    if off is None:
        return None
    on = counters.number(sparse)
    if on is None:
        return off, f"{dense} (sparsity_on was not collected)"
    return off + on, dense + (" + sparsity_on" if on else "")


def _roof(
    counters: Counters,
    chip: str,
    types: dict[str, float],
    clock_hz: float | None,
    time_ns: float | None,
    done: Found,
) -> None:
    """Fill in the dense roofs: each type has its own, so shares of time are added."""
    share, best = 0.0, 0.0
    for parent in types or ("src_bf16_dst_fp32", "src_fp16_dst_fp32"):
        peak = dense_peak_flops_per_s(counters, parent, chip, clock_hz)
        if peak is None:
            if types.get(parent):
                return
            continue
        value = types.get(parent, 0.0)
        if done.peak_flops_per_s is None or value > best:
            done.peak_flops_per_s, best = peak, value
        if value and time_ns:
            share += value / (peak * time_ns / 1e9)
    if time_ns and types:
        done.share = share


def dense_peak_flops_per_s(
    counters: Counters, parent: str, chip: str, clock_hz: float | None
) -> float | None:
    """Dense peak of a tensor type at the clock that was held, or None."""
    # Of several instructions (hmma, hgmma) the fastest is the roof.
    peaks = []
    for name in (parent, *_instructions(parent, chip)):
        full = f"{TENSOR_PREFIX}{name}_sparsity_off.sum.peak_sustained"
        per_second = counters.number(f"{full}_elapsed.per_second")
        per_cycle = counters.number(full)
        if per_second is not None:
            peaks.append(per_second)
        elif per_cycle is not None and clock_hz is not None:
            peaks.append(per_cycle * clock_hz)
    whole = counters.number(f"{TENSOR_PREFIX}{parent}.sum.peak_sustained")
    if whole is not None and clock_hz is not None and chip:
        halves = f"{parent}_sparsity_on" in tensor_counters(chip)
        sparse = halves or bool(_instructions(parent, chip))
        peaks.append(whole * clock_hz / (2 if sparse else 1))
    return max(peaks, default=None)
