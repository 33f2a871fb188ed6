"""The one data model: what parsers write, reports read and `run.json` holds.

Every measured or derived number is a `Quantity`: a value with its unit and source, or an absence
with a reason; never 0 and never NaN for "not measured". Records are frozen. Fields whose JSON name
is a Python keyword are renamed (`op_class` is "class", `imported_from` stays).

Reading and writing `run.json` is `rooflens/runfile.py`; `rooflens/run.schema.json` is generated
from these classes.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

from rooflens.quantity import (
    CheckOutcome,
    Confidence,
    Outcome,
    Quantity,
    Record,
    Source,
    Unit,
    absent,
    known,
)
from rooflens.timing import PhaseTime, StepStatistics

SCHEMA_VERSION = 1

__all__ = [  # the words that every user of the model needs, from one place
    "SCHEMA_VERSION", "Capture", "Check", "CheckOutcome", "Confidence", "Finding", "Gap",
    "GraphRow", "Join", "KernelRow", "Launch", "Machine", "Model", "Op", "OperatorRow", "Outcome",
    "PhaseTime", "Quantity", "RangeTime", "Record", "Roof", "Run", "Shape", "Source",
    "StepStatistics", "StepTime", "Tensor", "TimeRange", "Timeline", "Totals", "Unit", "Workload",
    "absent", "known",
]  # fmt: skip


class Tensor(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor as one op touches it. `bytes` is the storage read or written, not shape x size."""

    id: int
    """Storage identity within one recording: equal ids share memory."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    role: Literal["weight", "cache", "input", "activation"] = "activation"
    name: str = ""
    """Parameter or buffer name of a weight, else empty."""
    expanded: bool = False
    """Some stride is 0: a broadcast view over less storage than its shape says."""
    contiguous: bool = True


class Op(Record, frozen=True, kw_only=True, omit_defaults=True, rename={"op_class": "class"}):
    """One operator call of a step as the model asked for it. Views are not ops."""

    index: int
    name: str
    """Dispatcher name, e.g. `aten.mm` or `aten.scaled_dot_product_attention` (one fused call)."""
    module: str
    """Module path, e.g. `model.layers.0.self_attn.q_proj`; empty outside any module."""
    module_class: str = ""
    layer: int | None = None
    op_class: str = "other"
    part: str | None = None
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    bytes_in: int = 0
    """Unique bytes read (equal storage counted once)."""
    bytes_out: int = 0
    flops: int = 0
    """Matrix-product and attention FLOPs, 1 MAC = 2."""
    elementwise_flops: int = 0
    time_ns: float | None = None
    """Host time of the call on a CPU run; None where it was not timed."""
    source_line: str = ""
    """`file.py:line in function` of the innermost frame outside torch."""
    attributes: dict[str, str | int | float | bool] = {}
    """Arguments that change the work: is_causal, enable_gqa, scale, dim ..."""


class OperatorRow(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """One operator class (and part) of one step of the whole model."""

    op_class: str
    part: str | None = None
    count: int
    """Recorded ops per step; 0 when there are only kernels or theory."""
    minimum_bytes: Quantity
    requested_bytes: Quantity
    moved_bytes: Quantity
    minimum_flops: Quantity
    requested_flops: Quantity
    executed_flops: Quantity
    elementwise_flops: Quantity
    time_ns: Quantity
    floor_ns: Quantity
    intensity_measured: Quantity
    intensity_minimum: Quantity
    bound: str
    """memory, compute, at the ridge, or none (no roof)."""


class Join(Record, frozen=True, kw_only=True):
    """How a kernel found its op, and how far to trust that."""

    method: Literal["op id", "nvtx path", "order", "name class", "none"]
    confidence: Confidence
    ops: tuple[int, ...] = ()


class KernelRow(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """Launches equal in name, grid, block, class and NVTX path. Quantities are means per launch."""

    name: str
    short_name: str
    family: str
    op_class: str
    count: int
    """Launches per step (per capture where the capture has no steps)."""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    nvtx: tuple[str, ...] = ()
    device: int | None = None
    duration_ns: Quantity
    dram_bytes: Quantity
    l2_bytes: Quantity
    flops: Quantity
    intensity: Quantity
    metrics: dict[str, Quantity] = {}
    """Further per-launch values: occupancy, registers, dram_percent_of_roof, waves ..."""
    paths: dict[str, str] = {}
    """Which counters each quantity was made of, e.g. dram_bytes: "dram__bytes.sum"."""
    join: Join


class Launch(Record, frozen=True, kw_only=True):
    """One kernel launch as a counter report holds it, before launches are grouped."""

    index: int
    name: str
    demangled: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    device: int | None = None
    stream: int | None = None
    process: int | None = None
    nvtx: tuple[str, ...] = ()
    """Enclosing push/pop ranges, outermost first, without domain prefix."""
    duration_ns: Quantity
    dram_bytes: Quantity
    l2_bytes: Quantity
    flops: Quantity
    metrics: dict[str, Quantity] = {}
    paths: dict[str, str] = {}


class GraphRow(Record, frozen=True, kw_only=True):
    """A CUDA graph whose nodes are not in the capture."""

    id: int
    launches: int
    duration_ns: Quantity


class StepTime(Record, frozen=True, kw_only=True):
    """Where one step's time went on the device (ns; unions over streams, so busy <= wall)."""

    index: int
    start_ns: float
    wall_ns: float
    busy_ns: float
    idle_ns: float
    copy_ns: float = 0
    communication_ns: float = 0
    launches: int = 0
    kernels: int = 0
    phase: str = ""


class Gap(Record, frozen=True, kw_only=True):
    """A stretch of one step in which no stream of the device had work."""

    start_ns: float
    duration_ns: float
    cause: str


class Shape(Record, frozen=True, kw_only=True):
    """One rectangle of the timeline strip; times relative to the step's start."""

    row: str
    start_ns: float
    duration_ns: float
    label: str
    kind: str


class RangeTime(Record, frozen=True, kw_only=True):
    """One NVTX path: host time and, where kernels were traced, its projection on the device."""

    path: tuple[str, ...]
    count: int
    host_ns: Quantity
    device_ns: Quantity


class Timeline(Record, frozen=True, kw_only=True):
    """What a timeline capture says about time. Shapes and gaps are of the representative step."""

    source: str
    steps: tuple[StepTime, ...]
    representative_step: int | None
    gaps: tuple[Gap, ...] = ()
    shapes: tuple[Shape, ...] = ()
    ranges: tuple[RangeTime, ...] = ()
    bound: str = ""
    """host, device, or empty when it cannot be said; `bound_reason` says why."""
    bound_reason: str = ""
    phase_method: str = ""
    """`ranges`, or `launch pattern (confidence)`, or empty."""
    facts: tuple[str, ...] = ()
    """CUDA-graph, multi-GPU and similar facts, as sentences."""
    phases: tuple[PhaseTime, ...] = ()
    statistics: tuple[StepStatistics, ...] = ()


class TimeRange(Record, frozen=True, kw_only=True):
    """A saving in time: `low` to `high` (ns)."""

    low: float
    high: float


class Finding(Record, frozen=True, kw_only=True):
    """The answer of one rule."""

    rule: str
    outcome: Outcome
    title: str
    saving_bytes: Quantity
    consumer_bytes: Quantity
    saving_ns: TimeRange | None = None
    saving_note: str = ""
    """At which bandwidth, and whether a saving is shared with an earlier rule."""
    confidence: Confidence | None = None
    confidence_reason: str = ""
    why: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    ops: tuple[int, ...] = ()
    """Indices into `Run.ops`."""
    kernels: tuple[int, ...] = ()
    """Indices into `Run.kernels`."""


class Check(Record, frozen=True, kw_only=True):
    """One answer to "can these numbers be trusted?"."""

    id: str
    outcome: CheckOutcome
    message: str
    fix: str = ""


class Roof(Record, frozen=True, kw_only=True):
    """Ceilings that floors are computed from (dense, for the run's dtype)."""

    name: str
    kind: Literal["data sheet", "measured"]
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float
    dtype: str
    source: str
    l2_bytes: int | None = None
    prediction: bool = False
    """True when the run was not made on this device."""


class Machine(Record, frozen=True, kw_only=True):
    """Facts from an allow-list; never a host name, user name, home path or environment value."""

    device: str
    """cpu, cuda, meta or imported."""
    cpu: str = ""
    cores: int | None = None
    memory_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    gpu: str = ""
    gpu_count: int | None = None
    gpu_chip: str = ""
    compute_capability: str = ""
    driver: str = ""
    cuda: str = ""
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None


class Workload(Record, frozen=True, kw_only=True):
    """What was run. `None` means that an imported capture does not say."""

    name: str
    version: int = 1
    batch: int | None = None
    context: int | None = None
    """Tokens in the KV cache before the step."""
    prompt: int | None = None
    query_tokens: int | None = None
    """New tokens per sequence of the step."""
    attention: str = ""
    dtype: str = ""
    device: str = ""
    layers_run: int | None = None
    layers_model: int | None = None
    logits: str = ""
    steps: int | None = None
    warmup: int | None = None
    seed: int | None = None


class Model(Record, frozen=True, kw_only=True):
    """The model of the run; `params` is the logical count, whatever storage is shared."""

    name: str
    params: int | None = None
    weights: str = ""
    config: dict[str, str | int | float | bool | None] = {}
    """Shape fields of the config that theory needs."""


class Totals(Record, frozen=True, kw_only=True):
    """Sums per step of the whole model; times are of the median step."""

    minimum_bytes: Quantity
    compulsory_bytes: Quantity
    requested_bytes: Quantity
    moved_bytes: Quantity
    minimum_flops: Quantity
    requested_flops: Quantity
    executed_flops: Quantity
    elementwise_flops: Quantity
    intensity: Quantity
    step_time_ns: Quantity
    floor_ns: Quantity
    operator_floor_ns: Quantity
    coverage: Quantity
    """Share of requested bytes that belong to a class other than `other`."""


class Capture(Record, frozen=True, kw_only=True):
    """A raw file that the run rests on, and the regime under which it was taken."""

    file: str
    """Name inside the run's `captures/` (never a full path)."""
    format: str
    tool: str
    rows: int
    regime: dict[str, str] = {}
    """clock control, cache control, replay mode, passes, filters, command ..."""
    note: str = ""


class Run(Record, frozen=True, kw_only=True):
    """One run: the content of `run.json`."""

    schema_version: int
    created_at: str
    """UTC, ISO 8601."""
    command: tuple[str, ...]
    evidence: tuple[str, ...]
    machine: Machine
    tools: dict[str, str]
    workload: Workload
    model: Model
    roofs: tuple[Roof, ...]
    """The roof that floors use is the first; empty means no roof."""
    totals: Totals
    step_times_ns: tuple[float, ...]
    """Wall time of every timed step, warm-up excluded; empty when nothing was timed."""
    operators: tuple[OperatorRow, ...]
    ops: tuple[Op, ...]
    kernels: tuple[KernelRow, ...]
    graphs: tuple[GraphRow, ...]
    timeline: Timeline | None
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    captures: tuple[Capture, ...] = ()
    labels: dict[str, str] = {}
    """Set by the user (`--label commit=abc`): commit, branch ..."""

    def to_frames(self) -> dict[str, Any]:
        """The run as pandas DataFrames; reports/frames.py describes them."""
        # By name, when called: imports go from reports to this module, not back.
        return dict(importlib.import_module("rooflens.reports.frames").to_frames(self))
