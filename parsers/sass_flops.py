"""FLOPs outside the tensor cores of one launch, from SASS instruction counters.

Factors: add and mul 1, fma 2; packed FP32 (fadd2 ...) 2 and 4; packed FP16 2 and 4, an upper bound:
half2 instructions count both lanes. `derived__*` values are rates per cycle or peaks, whatever unit
they print; they are used as such and never added as counts.
"""

from __future__ import annotations

from rooflens.parsers.counters import Counters, first

SASS_FACTORS: dict[str, dict[str, int]] = {
    "fp64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "fp32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 4},
}
PACKED_FACTORS = {"fadd2": 2, "fmul2": 2, "ffma2": 4}
"""FP32 pairs of GB100, GB110 and GR100: separate counters, not part of ffma."""

DERIVED_FACTORS = {
    "ffma": "x2", "dfma": "x2", "hadd": "x2", "hmul": "x2", "hfma": "x4",
}  # fmt: skip
"""`derived__smsp__..._pred_on_x2` is already multiplied, and a rate per cycle."""


def _cycles(counters: Counters, time: float | None) -> tuple[float, str] | None:
    """Elapsed SM sub-partition cycles, that rates per cycle are multiplied with."""
    found = first(counters, "smsp__cycles_elapsed.avg", "sm__cycles_elapsed.avg", unit="cycle")
    if found:
        return found
    rate = first(
        counters, "smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
        unit="hz",
    )  # fmt: skip
    if rate and time is not None:
        return rate[0] * time / 1e9, f"({rate[1]} x duration)"
    return None


def sass_flops(counters: Counters, kind: str, time: float | None) -> tuple[float, str] | str:
    """FLOPs of one kind and how, or why not (empty when nothing of it was collected)."""
    total, terms, forms, missing = 0.0, [], [], []
    for op, factor in SASS_FACTORS[kind].items():
        found = _sass_op(counters, op, factor, time)
        if found is None:
            missing.append(op)
            continue
        total += found[0]
        terms.append(op if factor == 1 else f"{factor} x {op}")
        forms.append(found[1])
    if missing:
        return f"{', '.join(missing)} not collected" if terms else ""
    if kind == "fp32":
        for op, factor in PACKED_FACTORS.items():
            found = _sass_op(counters, op, factor, time)
            if found is not None:
                total += found[0]
                terms.append(f"{factor} x {op}")
                forms.append(found[1])
    return total, f"{' + '.join(terms)} ({', '.join(dict.fromkeys(forms))})"


_SASS = "__sass_thread_inst_executed_op_"


class _Names:
    """The metrics that can count one SASS operation, and the words for each."""

    def __init__(self, op: str) -> None:
        self.counts = [
            (f"{unit}{_SASS}{op}_pred_on.sum", f"{unit}{_SASS}*_pred_on.sum")
            for unit in ("smsp", "sm")
        ]
        rate = f"smsp{_SASS}*_pred_on.sum.per_cycle_elapsed"
        self.rate = (rate.replace("*", op), rate)
        times = DERIVED_FACTORS.get(op, "")
        derived = f"derived__smsp{_SASS}*_pred_on_{times}"
        self.derived = (derived.replace("*", op), derived) if times else None


_NAMES = {
    op: _Names(op) for op in [*PACKED_FACTORS, *(o for ops in SASS_FACTORS.values() for o in ops)]
}


def _sass_op(
    counters: Counters, op: str, factor: int, time: float | None
) -> tuple[float, str] | None:
    """FLOPs of one SASS operation: from its count, else from its rate per cycle."""
    names = _NAMES[op]
    for name, words in names.counts:
        count = counters.number(name, "inst")
        if count is not None:
            return count * factor, words
    name, words = names.rate
    rate = counters.number(name)
    if rate is None and names.derived:
        name, words = names.derived
        rate, factor = counters.number(name), 1
    if rate is None:
        return None
    cycles = _cycles(counters, time)
    return None if cycles is None else (rate * factor * cycles[0], f"{words} x {cycles[1]}")


def sass_peak_flops_per_s(counters: Counters, op: str, clock: float | None) -> float | None:
    if clock is None:
        return None
    rate = counters.number(f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained")
    if rate is not None:
        return rate * 2 * clock
    derived = counters.number(f"derived__sm__sass_thread_inst_executed_op_{op}_pred_on_x2")
    return None if derived is None else derived * clock
