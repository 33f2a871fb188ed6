"""What a rule is and what it may answer.

A rule is one file with a `RULE = Rule(...)`; `catalogue.py` lists them. Its `detect` sees only an
`Evidence` (ops, kernels, timeline, theory per operator; never the options of the run) and answers

    Claim        the defect is there: which ops lose how many bytes, with proof and remedy
    CannotLook   this evidence cannot show the defect, and why
    None         looked, and it is not there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rooflens.model import Confidence
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.thresholds import Threshold

Need = Literal["ops", "kernels", "timeline", "captures", "baseline"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A defect that a rule found, before savings are shared between rules."""

    title: str
    """The fact, with its numbers."""
    saved: Mapping[int, int] = field(default_factory=dict)
    """Op index -> requested bytes of that op which disappear under the remedy."""
    consumers: Mapping[int, int] = field(default_factory=dict)
    """Op index -> requested bytes which the op saves because it reads the remedy's tensors."""
    saved_flops: int = 0
    """Matrix FLOPs that disappear; they count in time where they outweigh the bytes."""
    kernel_bytes: Mapping[int, float] = field(default_factory=dict)
    """Kernel row -> moved bytes (all its launches of a step) that disappear."""
    kernel_ns: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Kernel row -> low and high time (all its launches of a step) that can be won back."""
    idle_ns: float | None = None
    """Idle time of a step that can be won back."""
    no_bytes: str = ""
    """Why the saving has no bytes: the rule is about time, waiting or trust."""
    confidence: Confidence
    confidence_reason: str
    remedy: str = ""
    """The remedy with this run's code pointer; empty takes the rule's own."""
    evidence: tuple[str, ...]
    ops: tuple[int, ...] = ()
    """Further ops that the claim rests on."""
    kernels: tuple[int, ...] = ()


@dataclass(frozen=True)
class CannotLook:
    """The rule could not look, and why."""

    reason: str


Answer = Claim | CannotLook | None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One entry of the catalogue."""

    id: str
    """`R03-repeat-kv-expand`."""
    needs: tuple[Need, ...]
    """Any one of these is enough to look."""
    looks_for: str
    clear: str
    """What is true when nothing was found."""
    why: str
    remedy: str
    fixed_in: str = ""
    """The version in which a fix exists, or what to know about versions."""
    example: str
    limits: str = ""
    """Where the rule goes wrong or must not preach."""
    thresholds: tuple[Threshold, ...] = ()
    detect: Callable[[Evidence], Answer]

    @property
    def number(self) -> str:
        """`R03`."""
        return self.id.partition("-")[0]

    @property
    def slug(self) -> str:
        """`repeat-kv-expand`."""
        return self.id.partition("-")[2]
