"""What a comparison says, as data. Renderers and gates read this and nothing else.

`Delta` is one number on both sides; `TimeJudgement` the verdict on step times; `OperatorChange`,
`OpChange`, `KernelChange` and `FindingChange` are rows that changed; `Pattern` is a sentence about
several of them together. Rows without any change are not kept.
"""

from __future__ import annotations

from enum import StrEnum

from rooflens.model import Finding, Quantity, Record

COMPARISON_VERSION = 1


class Verdict(StrEnum):
    """The answer for a row, and for a comparison as a whole."""

    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    NO_CHANGE_SHOWN = "NO_CHANGE_SHOWN"
    """Nothing changed that the evidence would have shown."""
    WITHIN_NOISE = "WITHIN_NOISE"
    """A difference, smaller than what is called a change."""
    NOT_COMPARABLE = "NOT_COMPARABLE"
    """The two sides differ in something that forbids comparing this."""
    CANNOT_JUDGE = "CANNOT_JUDGE"
    """The evidence does not allow an answer."""
    NEW = "NEW"
    GONE = "GONE"


class Aspect(StrEnum):
    """What a difference between two environments can forbid to compare."""

    COUNTED = "counted bytes and FLOPs"
    MOVED = "moved bytes"
    KERNELS = "kernels"
    TIME = "times"


EVERYTHING = tuple(Aspect)


class Difference(Record, frozen=True, kw_only=True):
    """One fact that differs between the sides, and what must not be compared because of it."""

    name: str
    base: str
    head: str
    forbids: tuple[Aspect, ...] = ()
    reason: str = ""
    is_failure: bool = False
    """One side's own evidence is bad, rather than unlike the other's."""


class Delta(Record, frozen=True, kw_only=True):
    """One quantity on both sides. `change` is head - base, `relative` is change / base."""

    metric: str
    base: Quantity
    head: Quantity
    change: int | float | None = None
    relative: float | None = None
    verdict: Verdict
    reason: str = ""


class TimeJudgement(Record, frozen=True, kw_only=True):
    """The verdict on step times. Relative numbers are head against base: 0.1 is 10 % slower."""

    verdict: Verdict
    reason: str
    method: str
    base_median_ns: float | None = None
    head_median_ns: float | None = None
    relative: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the interval at 1 - alpha."""
    p: float | None = None
    n_base: int = 0
    n_head: int = 0
    smallest_detectable: float | None = None
    alpha: float
    threshold: float


class OperatorChange(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """One operator class in which something changed; `deltas` holds what did."""

    op_class: str
    verdict: Verdict
    deltas: tuple[Delta, ...]
    ops: str = ""
    """What runs now instead of what ran, in words."""


class OpChange(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """Ops of one module (`*` stands for the layer) that changed alike in `layers` places."""

    verdict: Verdict
    op_class: str
    module: str
    head_module: str
    """Differs from `module` when the module was renamed."""
    layers: int
    base_ops: str
    head_ops: str
    calls_change: int
    bytes_change: int
    flops_change: int
    """Changes are sums over all places."""


class KernelChange(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """Kernels that changed: how, where, and what that did to launches, bytes and time."""

    kind: str
    """substituted, new, gone, count changed, bytes changed, launch shape changed, time changed."""
    verdict: Verdict
    reason: str
    op_class: str
    base_name: str = ""
    head_name: str = ""
    base_family: str = ""
    head_family: str = ""
    nvtx: tuple[str, ...] = ()
    rows: int = 1
    """Kernel rows that this line stands for."""
    launches: Delta
    moved_bytes: Delta
    time_ns: Delta


class FindingChange(Record, frozen=True, kw_only=True):
    """A finding that appeared, vanished, grew or shrank."""

    rule: str
    kind: str
    verdict: Verdict
    title: str
    saving_bytes: Delta
    note: str = ""


class Pattern(Record, frozen=True, kw_only=True):
    """What several changes mean together, in one sentence."""

    id: str
    verdict: Verdict
    sentence: str


class Side(Record, frozen=True, kw_only=True):
    """One side of a comparison."""

    name: str
    runs: int
    created_at: tuple[str, ...]
    command: str
    evidence: tuple[str, ...]
    labels: dict[str, str] = {}


class Comparison(Record, frozen=True, kw_only=True):
    """Everything that a comparison says."""

    comparison_version: int = COMPARISON_VERSION
    verdict: Verdict
    sentence: str
    """The answer in one sentence."""
    reasons: tuple[str, ...]
    """Why the verdict is what it is, most important first."""
    base: Side
    head: Side
    environment: tuple[Difference, ...]
    notes: tuple[str, ...]
    totals: tuple[Delta, ...]
    time: TimeJudgement
    operators: tuple[OperatorChange, ...]
    ops: tuple[OpChange, ...]
    kernels: tuple[KernelChange, ...]
    findings: tuple[FindingChange, ...]
    patterns: tuple[Pattern, ...]
    differences: tuple[Finding, ...] = ()
    """Answers of the rules that need two runs, about the first run of each side."""
    rules: tuple[str, ...] = ()
    """Rules of findings that the head could look at and that both sides asked."""
    renamed_modules: int = 0
    matched_kernels: int = 0
    workload: str = ""
    """What was compared, in words."""
