"""Floors: what a step cannot take less than on a roof, and what holds each operator back.

step      max(compulsory bytes / bandwidth, tensor FLOPs / peak)
operator  max(its bytes / bandwidth, its FLOPs / peak)
bound     memory below the ridge, compute above it, "at the ridge" within 5 % of it: data-sheet
          bandwidth and clocks are not better known than that
"""

from __future__ import annotations

from rooflens.model import Roof
from rooflens.quantity import Record
from rooflens.reports.theory.operators import OperatorTheory
from rooflens.reports.theory.step import StepTheory
from rooflens.units import NS_PER_S

RIDGE_TOLERANCE = 0.05


class StepFloors(Record, frozen=True, kw_only=True):
    """Lower bounds of a step's time on one roof, in ns."""

    compute_ns: float
    """Tensor FLOPs at peak."""
    ideal_bytes_ns: float
    """Bytes of all operators by themselves at full bandwidth."""
    compulsory_bytes_ns: float
    """Bytes under perfect fusion at full bandwidth."""
    step_ns: float
    """The larger of compute and compulsory bytes: nothing can be faster."""
    sum_of_operators_ns: float
    """Each operator at its own floor, one after the other."""


def ridge(roof: Roof) -> float:
    """FLOP per byte above which the peak is the limit."""
    return roof.peak_flops_per_s / roof.bandwidth_bytes_per_s


def printed_ridge(roof: Roof) -> float:
    """The ridge with two decimals: what is printed, and what crossovers are computed from.

    A reader who puts the printed ridge into the formula gets the printed crossover. Near a
    product's limit that matters: for k_proj on an L4 the third decimal is worth 0.3 tokens.
    """
    return round(ridge(roof), 2)


def bound(flops: float, bytes: float, roof: Roof | None) -> str:
    """`memory`, `compute`, `at the ridge` (within 5 %), or `none` without a roof."""
    if roof is None:
        return "none"
    if not bytes:
        return "compute" if flops else "none"
    ratio = flops / bytes / ridge(roof)
    if abs(ratio - 1) <= RIDGE_TOLERANCE:
        return "at the ridge"
    return "memory" if ratio < 1 else "compute"


def floor_ns(flops: float, bytes: float, roof: Roof) -> float:
    """The larger of the times that the bytes and the FLOPs need, in ns."""
    return max(
        NS_PER_S * bytes / roof.bandwidth_bytes_per_s, NS_PER_S * flops / roof.peak_flops_per_s
    )


def operator_floor_ns(operator: OperatorTheory, roof: Roof) -> float:
    """Floor of one call of an operator."""
    return floor_ns(operator.flops, operator.bytes, roof)


def step_floor_ns(theory: StepTheory, roof: Roof) -> float:
    """What the step cannot take less than (one rank; the links between ranks are not counted)."""
    return floor_ns(theory.tensor_flops, theory.compulsory_bytes, roof)


def step_floors(theory: StepTheory, roof: Roof) -> StepFloors:
    """All floors of a step."""
    compute = NS_PER_S * theory.tensor_flops / roof.peak_flops_per_s
    compulsory = NS_PER_S * theory.compulsory_bytes / roof.bandwidth_bytes_per_s
    return StepFloors(
        compute_ns=compute,
        ideal_bytes_ns=NS_PER_S * theory.ideal_op_bytes / roof.bandwidth_bytes_per_s,
        compulsory_bytes_ns=compulsory,
        step_ns=max(compute, compulsory),
        sum_of_operators_ns=sum(o.count * operator_floor_ns(o, roof) for o in theory.operators),
    )
