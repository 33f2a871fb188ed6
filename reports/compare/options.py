"""What a comparison may be told: limits below which a difference is not called a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rooflens.reports.compare.times import TimeRules


@dataclass(frozen=True)
class Options:
    """Settings of one comparison; the defaults are the documented ones."""

    times: TimeRules = field(default_factory=TimeRules)
    moved_tolerance: float = 0.01
    """Relative difference that hardware counters show from run to run."""
    kernel_share: float = 0.01
    """Share of all kernel time from which on one kernel's time matters."""
    drop_reasons: Mapping[str, str] = field(default_factory=dict)
    """Why an operator class is allowed to be gone, by class."""
    base_name: str = "base"
    head_name: str = "head"
