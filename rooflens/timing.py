"""Records of a timeline beyond single steps: phases, and statistics over steps."""

from __future__ import annotations

from rooflens.quantity import Confidence, Record


class PhaseTime(Record, frozen=True, kw_only=True):
    """Steps of one phase and what a median step of it takes (ns on the device)."""

    name: str
    """prefill, decode, verify, mixed or step."""
    steps: tuple[int, ...]
    """Indices of `Timeline.steps`."""
    method: str
    """`ranges` or `launch pattern`."""
    confidence: Confidence
    reason: str
    tokens: int | None = None
    """New tokens of one step, where a kernel's grid or a range says so."""
    kernels: float
    """Kernels per step (mean)."""
    graph_launches: float
    wall_ns: float
    busy_ns: float
    kernel_ns: float
    """Sum of kernel durations of a step (mean); streams are added, unlike `busy_ns`."""
    communication_ns: float
    """Of that, kernels of collectives; they spin while they wait for other ranks."""
    classes: dict[str, float] = {}
    """Mean kernel time per step by operator class."""
    families: dict[str, float] = {}
    """Mean kernel time per step by kernel family."""


class StepStatistics(Record, frozen=True, kw_only=True):
    """Wall time over the steps of one phase (ns)."""

    phase: str
    count: int
    median_ns: float
    low_ns: float
    high_ns: float
    """Order-statistics interval of the median, at least 95 % where `count` allows (6), else the
    range."""
    variation: float
    """Coefficient of variation: standard deviation over mean (0 for one step)."""
    outliers: tuple[int, ...] = ()
    """Indices of steps beyond 3.5 robust standard deviations of the median."""
    first_is_outlier: bool = False
