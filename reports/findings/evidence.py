"""What rules may look at: a run without its options, command and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rooflens.model import (
    Capture,
    Check,
    GraphRow,
    KernelRow,
    Machine,
    Op,
    OperatorRow,
    Roof,
    Run,
    Timeline,
)
from rooflens.reports.findings.attention import Composite, Fused, composites, fused_calls
from rooflens.reports.findings.dataflow import Flow
from rooflens.reports.findings.kernel_names import kind_of
from rooflens.reports.format import count_text, plural


@dataclass(frozen=True)
class Evidence:
    """The facts of a run. `Run.workload`, `command` and `labels` are left out on purpose: a rule
    must find eager attention by its ops, whatever `--attention` said."""

    ops: tuple[Op, ...]
    kernels: tuple[KernelRow, ...]
    graphs: tuple[GraphRow, ...]
    operators: tuple[OperatorRow, ...]
    """Theory beside counts, per operator class; the only place where a rule meets theory."""
    timeline: Timeline | None
    captures: tuple[Capture, ...]
    checks: tuple[Check, ...]
    machine: Machine
    roof: Roof | None
    requested_bytes: float | None
    baseline: Evidence | None = None

    @classmethod
    def of(cls, run: Run, baseline: Run | None = None) -> Evidence:
        """Keep of a run what rules may see."""
        return cls(
            ops=run.ops,
            kernels=run.kernels,
            graphs=run.graphs,
            operators=run.operators,
            timeline=run.timeline,
            captures=run.captures,
            checks=run.checks,
            machine=run.machine,
            roof=run.roofs[0] if run.roofs else None,
            requested_bytes=run.totals.requested_bytes.value,
            baseline=None if baseline is None else cls.of(baseline),
        )

    @cached_property
    def flow(self) -> Flow:
        """Who writes and who reads each tensor."""
        return Flow(self.ops)

    @cached_property
    def composites(self) -> list[Composite]:
        """Attentions that write their scores."""
        return composites(self.ops, self.flow)

    @cached_property
    def fused(self) -> list[Fused]:
        """Fused attention calls."""
        return fused_calls(self.ops)

    @cached_property
    def step_bytes(self) -> float:
        """Requested bytes of the step, for shares."""
        if self.requested_bytes is not None:
            return self.requested_bytes
        return sum(op.bytes_in + op.bytes_out for op in self.ops)

    @cached_property
    def moved_by_op(self) -> dict[int, float]:
        """Moved bytes by op index, where counters were joined to the op with some confidence.

        A kernel row that serves several ops is split by their requested bytes.
        """
        weights = {op.index: op.bytes_in + op.bytes_out for op in self.ops}
        moved: dict[int, float] = {}
        for kernel in self.kernels:
            bytes_moved = kernel.dram_bytes.value
            total = sum(weights.get(index, 0) for index in kernel.join.ops)
            if bytes_moved is None or kernel.join.confidence == "low" or not total:
                continue
            for index in kernel.join.ops:
                part = bytes_moved * kernel.count * weights.get(index, 0) / total
                moved[index] = moved.get(index, 0.0) + part
        return moved

    @cached_property
    def _by_kind(self) -> dict[str, list[int]]:
        kinds: dict[str, list[int]] = {}
        for row, kernel in enumerate(self.kernels):
            kinds.setdefault(kind_of(kernel), []).append(row)
        return kinds

    def rows_of(self, *kinds: str) -> list[int]:
        """Indices of the kernel rows of these kinds (kernel_names.py)."""
        return sorted(row for kind in kinds for row in self._by_kind.get(kind, ()))

    @cached_property
    def kernel_ns(self) -> float:
        """Time of all kernels of a step."""
        return self.time_of(range(len(self.kernels)))

    def time_of(self, rows: Iterable[int]) -> float:
        """Time (ns) of these kernel rows in a step; rows without a duration count as none."""
        return sum(
            (self.kernels[row].duration_ns.value or 0) * self.kernels[row].count for row in rows
        )

    def moved_of(self, rows: Iterable[int]) -> dict[int, float]:
        """Moved bytes of a step by kernel row, for the rows whose bytes were measured."""
        return {
            row: moved * self.kernels[row].count
            for row in rows
            if (moved := self.kernels[row].dram_bytes.value) is not None
        }

    def names_of(self, rows: Iterable[int], limit: int = 4) -> tuple[str, ...]:
        """`56 × flash_fwd_kernel` lines, equal names added up, most launches first."""
        counts: Counter[str] = Counter()
        for row in rows:
            counts[self.kernels[row].short_name] += self.kernels[row].count
        return tuple(f"{count_text(count)} × {name}" for name, count in counts.most_common(limit))

    def of_class(self, *classes: str) -> list[Op]:
        """The ops of these operator classes."""
        return [op for op in self.ops if op.op_class in classes]


def source_of(ops: Iterable[Op]) -> str:
    """Where in the model's code the ops come from, as ` (file.py:12 in f)`, or nothing."""
    lines = dict.fromkeys(op.source_line for op in ops if op.source_line)
    if not lines:
        return ""
    shown = list(lines)[:2]
    rest = len(lines) - len(shown)
    more = f" and {plural(rest, 'more place')}" if rest else ""
    return f" ({'; '.join(shown)}{more})"
