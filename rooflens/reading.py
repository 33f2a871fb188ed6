"""What the parsers hand over: everything that one raw file says. Not part of `run.json`."""

from __future__ import annotations

from rooflens.model import Capture, Check, GraphRow, KernelRow, Launch, Machine, Timeline
from rooflens.quantity import Record, Source


class Reading(Record, frozen=True, kw_only=True):
    """One capture file as its parser read it.

    Counter readers fill `launches` (in launch order); timeline readers fill `kernels`, `graphs` and
    `timeline`, and for steps of our own also the `launches` of the representative step. A reader
    never returns an empty reading: it raises InputError and says what is missing, or a check here
    says it.
    """

    format: str
    """A format name of `rooflens.parsers.detect`."""
    evidence: Source
    """`counters`, `timeline` or `host`: what its numbers are."""
    capture: Capture
    machine: Machine = Machine(device="imported")
    launches: tuple[Launch, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    graphs: tuple[GraphRow, ...] = ()
    timeline: Timeline | None = None
    step_times_ns: tuple[float, ...] = ()
    checks: tuple[Check, ...] = ()
    tools: dict[str, str] = {}
    """Tool name to version, e.g. {"ncu": "2025.4.1"}."""
    extras: tuple[str, ...] = ()
    """Files beside it that belong to it, by name."""
