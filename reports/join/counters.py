"""Put measured bytes and FLOPs into operator rows and totals.

`executed_flops` are those of matrix products and of attention, like `requested_flops`; what
softmax, norm, rope and activation kernels executed is elementwise. The measured intensity of a row
takes all of them. A sum in which one launch lacks its value is absent with that reason, never a
smaller sum.

When only some layers were captured, a value is the mean over those layers times the layers of the
model, plus what lies outside layers; it is refused when the captured layers differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from rooflens.model import (
    Check,
    KernelRow,
    Launch,
    OperatorRow,
    Quantity,
    Totals,
    Unit,
    absent,
    known,
)
from rooflens.parsers.kernels import MATRIX_FAMILIES, UNKNOWN, classify_name
from rooflens.reports.join.counted import ClassPart, operator_rows
from rooflens.reports.join.kernel_rows import intensity
from rooflens.reports.join.kernels import Joined, Measured
from rooflens.vocabulary import FUSED_CLASSES

MATRIX_CLASSES = frozenset(
    {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head",
     "router", "experts", "attention", "other", *FUSED_CLASSES}
)  # fmt: skip
NO_KERNEL = absent("no kernel of the capture was joined to this class")
REPLAY_TIME = absent(
    "ncu measures cold, serialised replays of single kernels; the time of a step needs a timeline"
)


@dataclass(frozen=True)
class Sampling:
    """Which layers a capture covers, and what their values are multiplied with."""

    scale: float = 1.0
    layers: tuple[int, ...] = ()
    """Empty when nothing is extrapolated."""
    refused: str = ""


@dataclass
class _Sum:
    """Launches of one row: (quantity, how many launches it stands for, inside a layer)."""

    moved: list[tuple[Quantity, int, bool]] = field(default_factory=list)
    matrix: list[tuple[Quantity, int, bool]] = field(default_factory=list)
    elementwise: list[tuple[Quantity, int, bool]] = field(default_factory=list)


def sampling(
    measured: Sequence[Measured], joined: Sequence[Joined], layers_model: int | None
) -> Sampling:
    """Decide whether values must be extrapolated, and whether the captured layers allow it."""
    by_layer: dict[int, Counter[tuple[str, tuple[int, ...], tuple[int, ...]]]] = {}
    for kernel, to in zip(measured, joined, strict=True):
        if to.layer is not None:
            key = (kernel.name, kernel.grid, kernel.block)
            by_layer.setdefault(to.layer, Counter())[key] += _count(kernel)
    layers = tuple(sorted(by_layer))
    if not layers or not layers_model or len(layers) >= layers_model:
        return Sampling()
    return Sampling(layers_model / len(layers), layers, _difference(by_layer))


def sampling_check(sample: Sampling, layers_model: int | None) -> Check | None:
    """Which layers were captured, and whether the rest could be computed from them."""
    if not sample.layers:
        return None
    which = ", ".join(map(str, sample.layers[:8])) + (" ..." if len(sample.layers) > 8 else "")
    message = f"The capture holds layers {which} of {layers_model}: "
    if sample.refused:
        return Check(
            id="sampled-layers",
            outcome="failed",
            message=f"{message}operator rows are {sample.refused}.",
            fix="Capture all layers, or a step that runs the same kernels in each.",
        )
    return Check(
        id="sampled-layers",
        outcome="passed",
        message=f"{message}operator rows are their mean times {layers_model}; launch counts, names "
        "and grids of these layers agree. Kernel rows are of the captured layers.",
    )


def _difference(
    by_layer: Mapping[int, Counter[tuple[str, tuple[int, ...], tuple[int, ...]]]],
) -> str:
    (first, base), *others = by_layer.items()
    for layer, kernels in others:
        if kernels == base:
            continue
        if kernels.total() != base.total():
            what = f"{base.total()} and {kernels.total()} launches"
        else:
            changed = next(iter(base - kernels))[0][:60]
            what = f"other kernels or grids ({changed})"
        return f"not extrapolated: layers {first} and {layer} of the capture have {what}"
    return ""


def _count(kernel: Measured) -> int:
    return kernel.count if isinstance(kernel, KernelRow) else 1


def with_counters(
    rows: Sequence[OperatorRow],
    measured: Sequence[Measured],
    joined: Sequence[Joined],
    *,
    layers_model: int | None = None,
    steps: int = 1,
) -> tuple[OperatorRow, ...]:
    """Operator rows with what the launches moved and executed per step.

    `rows` are those of `counted.operator_rows`; a class that only kernels have gets a row of its
    own. `steps` is how many equal steps the capture covers.
    """
    sums = _sums(measured, joined)
    known_rows = {(row.op_class, row.part) for row in rows}
    extra = [key for key in sums if key[1] is None and key not in known_rows]
    sample = sampling(measured, joined, layers_model)
    filled = [
        _filled(row, sums.get((row.op_class, row.part)), sample, steps)
        for row in (*rows, *(_bare_row(key) for key in extra))
    ]
    return tuple(filled)


def with_classes(rows: Sequence[OperatorRow], classes: Iterable[str]) -> tuple[OperatorRow, ...]:
    """Rows with an empty one for every class that only kernels have.

    A fused class (`qkv_proj`) gets none where the rows that it serves are there.
    """
    have = {row.op_class for row in rows}
    new = [
        name for name in classes if name not in have and not have & set(FUSED_CLASSES.get(name, ()))
    ]
    return (*rows, *(_bare_row((name, None)) for name in new))


def _bare_row(key: ClassPart) -> OperatorRow:
    """A row of a class that neither the recording nor the theory has."""
    nothing = absent("no op was recorded: an imported capture has kernels only")
    return OperatorRow(
        op_class=key[0], part=key[1], count=0, minimum_bytes=nothing, requested_bytes=nothing,
        moved_bytes=NO_KERNEL, minimum_flops=nothing, requested_flops=nothing,
        executed_flops=NO_KERNEL, elementwise_flops=nothing, time_ns=REPLAY_TIME, floor_ns=nothing,
        intensity_measured=NO_KERNEL, intensity_minimum=nothing, bound="none",
    )  # fmt: skip


def _sums(measured: Sequence[Measured], joined: Sequence[Joined]) -> dict[ClassPart, _Sum]:
    sums: dict[ClassPart, _Sum] = {}
    for kernel, to in zip(measured, joined, strict=True):
        matrix = is_matrix(kernel, to.op_class)
        keys: set[ClassPart] = {(to.op_class, None)}
        if to.part is not None:
            keys.add((to.op_class, to.part))
        for key in keys:
            entry = sums.setdefault(key, _Sum())
            times, inside = _count(kernel), to.layer is not None
            entry.moved.append((kernel.dram_bytes, times, inside))
            products, rest = _split_flops(kernel, matrix)
            if products is not None:
                entry.matrix.append((products, times, inside))
            if rest is not None:
                entry.elementwise.append((rest, times, inside))
    return sums


def _split_flops(kernel: Measured, matrix: bool) -> tuple[Quantity | None, Quantity | None]:
    """FLOPs of products, and the others, of one kernel.

    A kernel that used tensor cores did its products there; what it executed beside them (softmax,
    an epilogue) is elementwise. A product without tensor cores (gemv) is all it executed.
    """
    if not matrix:
        return None, kernel.flops
    tensor = kernel.metrics.get("tensor_flops")
    if tensor is None or not tensor.value or kernel.flops.value is None:
        return kernel.flops, None
    return tensor, known(kernel.flops.value - tensor.value, "flop", "counters")


def is_matrix(kernel: Measured, op_class: str) -> bool:
    """Whether a kernel's FLOPs are those of a matrix product or of attention."""
    name = (kernel.demangled if isinstance(kernel, Launch) else "") or kernel.name
    family = classify_name(name).family
    return op_class in MATRIX_CLASSES and (family in MATRIX_FAMILIES or family == UNKNOWN)


def _filled(row: OperatorRow, found: _Sum | None, sample: Sampling, steps: int) -> OperatorRow:
    if found is None:
        return msgspec.structs.replace(
            row, moved_bytes=NO_KERNEL, executed_flops=NO_KERNEL, intensity_measured=NO_KERNEL
        )
    kernels = len(found.moved)
    moved = _total(found.moved, "byte", sample, steps, kernels)
    every = _total([*found.matrix, *found.elementwise], "flop", sample, steps, kernels)
    elementwise = row.elementwise_flops
    if elementwise.value is None:
        elementwise = _total(found.elementwise, "flop", sample, steps, kernels)
    return msgspec.structs.replace(
        row,
        moved_bytes=moved,
        executed_flops=_total(found.matrix, "flop", sample, steps, kernels),
        elementwise_flops=elementwise,
        intensity_measured=intensity(every, moved),
    )


def _total(
    entries: Iterable[tuple[Quantity, int, bool]],
    unit: Unit,
    sample: Sampling,
    steps: int,
    kernels: int,
) -> Quantity:
    """Sum over launches per step; without launches it is 0, with one value missing it is absent."""
    inside = outside = 0.0
    extrapolated = False
    missing: list[str] = []
    for quantity, times, in_layer in entries:
        if quantity.value is None:
            missing.append(quantity.absent or "")
        elif in_layer:
            inside += quantity.value * times
            extrapolated = True
        else:
            outside += quantity.value * times
    if missing:
        most = Counter(missing).most_common(1)[0][0]
        all_of_them = len(missing) == kernels
        return absent(
            most if all_of_them else f"missing for {len(missing)} of {kernels} kernels: {most}"
        )
    if extrapolated and sample.refused:
        return absent(sample.refused)
    value = (inside * (sample.scale if extrapolated else 1.0) + outside) / steps
    return Quantity(
        value=int(value) if value.is_integer() else value,
        unit=unit,
        source="counters",
        extrapolated_from=sample.layers if extrapolated else (),
    )


def with_counter_totals(totals: Totals, rows: Sequence[OperatorRow]) -> Totals:
    """Totals with the sums of the class rows that have kernels."""
    classes = [row for row in rows if row.part is None]
    changes = {
        "moved_bytes": _sum_rows([row.moved_bytes for row in classes], "byte"),
        "executed_flops": _sum_rows([row.executed_flops for row in classes], "flop"),
    }
    if totals.elementwise_flops.value is None:
        measured = [r.elementwise_flops for r in classes if r.moved_bytes != NO_KERNEL]
        changes["elementwise_flops"] = _sum_rows(measured, "flop")
    return msgspec.structs.replace(totals, **changes)


def _sum_rows(quantities: Sequence[Quantity], unit: Unit) -> Quantity:
    have = [q for q in quantities if q.absent != NO_KERNEL.absent]
    lost = [q for q in have if q.value is None]
    if not have:
        return NO_KERNEL
    if lost:
        reason = lost[0].absent or ""
        all_of_them = len({q.absent for q in have}) == 1
        return absent(
            reason if all_of_them else f"missing for {len(lost)} of {len(have)} classes: {reason}"
        )
    layers = next((q.extrapolated_from for q in have if q.extrapolated_from), ())
    return Quantity(
        value=sum(q.value for q in have if q.value is not None),
        unit=unit,
        source="counters",
        extrapolated_from=layers,
    )


def measured_flops(rows: Iterable[OperatorRow]) -> Quantity:
    """Every FLOP that the kernels executed, elementwise ones included: intensity x bytes of the
    class rows, so that the intensity of a whole is the sum of FLOPs over the sum of bytes."""
    total, source = 0.0, None
    for row in rows:
        flops, moved = row.intensity_measured, row.moved_bytes
        if row.part is not None or moved.absent == NO_KERNEL.absent:
            continue
        if flops.value is None or moved.value is None:
            return flops if flops.value is None else moved
        total, source = total + flops.value * moved.value, flops.source
    return known(round(total), "flop", source) if source else NO_KERNEL


def rows_of_kernels(
    measured: Sequence[Measured], joined: Sequence[Joined], steps: int = 1
) -> tuple[OperatorRow, ...]:
    """Operator rows of a capture without a recording: one per class that its kernels have."""
    return with_counters(operator_rows(()), measured, joined, steps=steps)
