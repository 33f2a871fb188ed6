"""Runs for page tests: small, but with every kind of evidence a page can show.

The numbers are those of a model of two layers that nobody has: round, so that a reader of a golden
file can check every ratio by head.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rooflens.model import (
    Capture,
    Check,
    Finding,
    Gap,
    GraphRow,
    Join,
    KernelRow,
    Machine,
    Model,
    OperatorRow,
    Quantity,
    RangeTime,
    Roof,
    Run,
    Shape,
    StepTime,
    Timeline,
    TimeRange,
    Workload,
    absent,
    known,
)
from tests import builders

HOSTILE = "</script><img src=x onerror=alert(1)>`|*_[a](javascript:alert(1))\u202e"
"""A name that tries HTML, Markdown, a link and a change of writing direction."""
NO_COUNTERS = absent("not collected: no counter capture in this run")
PREDICTED = Roof(
    name="Test GPU",
    kind="data sheet",
    peak_flops_per_s=100e12,
    bandwidth_bytes_per_s=1e12,
    dtype="bfloat16",
    source="data sheet of a test",
    prediction=True,
)
SPEC: tuple[tuple[str, int, int, int, int], ...] = (
    ("norm", 20, 1_000_000, 4_000_000, 0),
    ("q_proj", 2, 100_000_000, 100_000_000, 100_000_000),
    ("attention", 12, 50_000_000, 400_000_000, 350_000_000),
    ("gate_proj", 2, 400_000_000, 400_000_000, 400_000_000),
    ("down_proj", 2, 400_000_000, 400_000_000, 400_000_000),
    ("lm_head", 1, 49_000_000, 49_000_000, 49_000_000),
    ("mask", 3, 0, 1_000_000, 0),
)
"""Class, ops, minimum bytes, requested bytes, FLOPs; 1.0 GB minimum and 1.354 GB requested."""


def _row(spec: tuple[str, int, int, int, int], roof: Roof | None, **fields: Any) -> OperatorRow:
    name, count, minimum, requested, flops = spec
    floor = absent("no roof")
    if roof is not None:
        seconds = max(minimum / roof.bandwidth_bytes_per_s, flops / roof.peak_flops_per_s)
        floor = known(seconds * 1e9, "ns", "theory")
    intensity = known(flops / minimum, "flop/byte", "theory") if minimum else absent("no bytes")
    values: dict[str, Any] = {
        "count": count,
        "minimum_bytes": known(minimum, "byte", "theory"),
        "requested_bytes": known(requested, "byte", "counted"),
        "moved_bytes": NO_COUNTERS,
        "minimum_flops": known(flops, "flop", "theory"),
        "requested_flops": known(flops, "flop", "counted"),
        "executed_flops": NO_COUNTERS,
        "elementwise_flops": known(0, "flop", "counted"),
        "time_ns": absent("nothing ran: --device meta"),
        "floor_ns": floor,
        "intensity_measured": NO_COUNTERS,
        "intensity_minimum": intensity,
        "bound": "none" if roof is None else "memory",
    }
    return builders.operator(name, **(values | fields))


def _totals(roof: Roof | None, **fields: Any) -> Any:
    floor = absent("no roof") if roof is None else known(990_000, "ns", "theory")
    values: dict[str, Any] = {
        "minimum_bytes": known(1_000_000_000, "byte", "theory"),
        "compulsory_bytes": known(990_000_000, "byte", "theory"),
        "requested_bytes": known(1_354_000_000, "byte", "counted"),
        "moved_bytes": NO_COUNTERS,
        "minimum_flops": known(1_299_000_000, "flop", "theory"),
        "requested_flops": known(1_299_000_000, "flop", "counted"),
        "executed_flops": NO_COUNTERS,
        "elementwise_flops": known(0, "flop", "counted"),
        "intensity": known(1_299 / 990, "flop/byte", "theory"),
        "step_time_ns": absent("nothing ran: --device meta"),
        "floor_ns": floor,
        "operator_floor_ns": floor if roof is None else known(1_000_000, "ns", "theory"),
        "coverage": known(1, "1", "counted"),
    }
    return builders.totals(**(values | fields))


def findings(roof: Roof | None) -> tuple[Finding, ...]:
    """Two findings in the wrong order, one clear rule, one that could not look."""
    nothing = absent("nothing found")

    def found(rule: str, title: str, saving: int, **fields: Any) -> Finding:
        time = None if roof is None else TimeRange(low=saving / 2000, high=saving / 1000)
        return Finding(
            rule=rule, outcome="found", title=title, saving_ns=time, confidence="high",
            saving_bytes=known(saving, "byte", "counted"), consumer_bytes=nothing, **fields,
        )  # fmt: skip

    return (
        found("R04-kv-append-copies-cache", "Every step copies the whole KV cache", 30_000_000,
              why="Concatenation allocates a new cache.", remedy="Write in place.",
              confidence_reason="the copy is in the recorded ops"),
        found("R03-repeat-kv-expand", "Keys and values are copied for the query heads", 250_000_000,
              why="repeat_kv writes every key once per query head.",
              remedy='Use attn_implementation="sdpa".', saving_note="at 1.000 TB/s",
              confidence_reason="a copy of an expanded K is read by attention",
              evidence=("4 ops of 62.50 MB",)),
        Finding(rule="R08-logits", outcome="clear", title="Logits for the last position only",
                saving_bytes=nothing, consumer_bytes=nothing),
        Finding(rule="R16-uncoalesced", outcome="could_not_look", title="Needs L2 counters",
                saving_bytes=nothing, consumer_bytes=nothing),
    )  # fmt: skip


CHECKS = (
    Check(id="coverage", outcome="passed", message="Every byte belongs to a class."),
    Check(id="samples", outcome="warning", message="3 steps: too few.", fix="Use --steps 10."),
    Check(id="clocks", outcome="failed", message="Clocks were not locked.", fix="nvidia-smi -lgc."),
    Check(id="replay", outcome="could_not_look", message="No counters."),
)
WORKLOAD = Workload(
    name="decode", batch=1, context=2047, prompt=None, query_tokens=1, attention="eager",
    dtype="bfloat16", device="meta", layers_run=0, layers_model=2, logits="last", steps=0, seed=0,
)  # fmt: skip
MODEL = Model(name="test-model", params=500_000_000, weights="dummy")


def counted_run(roof: Roof | None = PREDICTED, **fields: Any) -> Run:
    """A counted decode step on meta, with the roof of another device (or none)."""
    values: dict[str, Any] = {
        "command": ("profile", "run", "decode", "--device", "meta", "--gpu", "test"),
        "workload": WORKLOAD,
        "model": MODEL,
        "roofs": () if roof is None else (roof,),
        "operators": tuple(_row(spec, roof) for spec in SPEC),
        "totals": _totals(roof),
        "findings": findings(roof),
        "checks": CHECKS,
    }
    return builders.run(**(values | fields))


def gpu_run(**fields: Any) -> Run:
    """The same step on the GPU itself, with timeline and counters."""
    roof = Roof(
        name="Test GPU", kind="data sheet", peak_flops_per_s=100e12, bandwidth_bytes_per_s=1e12,
        dtype="bfloat16", source="data sheet of a test",
    )  # fmt: skip
    moved = [
        _row(
            spec, roof,
            moved_bytes=known(round(spec[3] * 1.1), "byte", "counters"),
            executed_flops=known(spec[4], "flop", "counters"),
            intensity_measured=known(spec[4] / (spec[3] * 1.1), "flop/byte", "counters"),
            time_ns=known(spec[3] * 1.5 / 1000, "ns", "timeline"),
        )
        for spec in SPEC
    ]  # fmt: skip
    values: dict[str, Any] = {
        "evidence": ("theory", "counted", "timeline", "counters"),
        "machine": Machine(device="cuda", gpu="Test GPU", gpu_count=1, driver="570.1", cuda="12.8",
                           sm_clock_hz=1.98e9, memory_clock_hz=3.2e9),
        "workload": replace(WORKLOAD, device="cuda", layers_run=2, steps=10, warmup=3),
        "roofs": (roof,),
        "operators": tuple(moved),
        "totals": _totals(
            roof,
            moved_bytes=known(1_489_400_000, "byte", "counters"),
            executed_flops=known(1_299_000_000, "flop", "counters"),
            step_time_ns=known(2_500_000, "ns", "timeline"),
        ),
        "step_times_ns": tuple(2_500_000.0 + step * 1000 for step in range(-4, 6)),
        "kernels": kernels(),
        "graphs": (GraphRow(id=7, launches=3, duration_ns=known(40_000, "ns", "timeline")),),
        "timeline": timeline(),
        "captures": (
            Capture(file="step.ncu-rep", format="ncu-rep", tool="ncu 2024.3", rows=8,
                    regime={"clock control": "base", "cache control": "all", "replay": "kernel",
                            "passes": "1", "command": "ncu --set none python step.py"}),
        ),
    }  # fmt: skip
    return counted_run(roof, **(values | fields))


def calm_run() -> Run:
    """The GPU run with checks that all passed, so that it can be compared."""
    return gpu_run(checks=CHECKS[:1])


def changed_run() -> Run:
    """`calm_run` after a change: attention asks for more, one kernel is another, slower steps."""
    run = calm_run()
    rows = tuple(
        replace(row, requested_bytes=counted(500_000_000)) if row.op_class == "attention" else row
        for row in run.operators
    )
    totals = replace(run.totals, requested_bytes=counted(1_454_000_000))
    kernels = (
        replace(run.kernels[0], name="other_gemv", short_name="other_gemv"),
        *run.kernels[1:],
    )
    return replace(
        run, operators=rows, totals=totals, kernels=kernels, findings=run.findings[:1],
        step_times_ns=tuple(time * 1.2 for time in run.step_times_ns),
    )  # fmt: skip


def kernel(
    name: str, count: int, time: float, nbytes: float, flops: float, **fields: Any
) -> KernelRow:
    """A kernel with counters; `fields` override."""
    values: dict[str, Any] = {
        "count": count,
        "duration_ns": known(time, "ns", "timeline"),
        "dram_bytes": known(nbytes, "byte", "counters"),
        "flops": known(flops, "flop", "counters"),
        "intensity": known(flops / nbytes, "flop/byte", "counters"),
        "join": Join(method="op id", confidence="high"),
    }
    return builders.kernel(name, **(values | fields))


def kernels() -> tuple[KernelRow, ...]:
    """A GEMM, an attention kernel, a copy above the roof, and one without counters."""
    full = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_64x64>(Params)"
    impossible = {"dram_percent_of_roof": known(130, "1", "counters")}
    fine = {"dram_percent_of_roof": known(92, "1", "counters"),
            "tensor_percent_of_roof": known(3, "1", "counters")}  # fmt: skip
    return (
        kernel("gemv_bf16", 6, 210_000, 220e6, 200e6, family="cublas", op_class="gate_proj",
               metrics=fine),
        kernel(full, 2, 60_000, 50e6, 175e6, short_name="cutlass gemm 64x64", op_class="attention",
               family="cutlass"),
        kernel("copy_kernel", 4, 20_000, 26e6, 1e3, op_class="kv_write", metrics=impossible),
        builders.kernel("mystery_kernel", count=3, duration_ns=known(9_000, "ns", "timeline"),
                        dram_bytes=absent("not collected: ERR_NVGPUCTRPERM")),
    )  # fmt: skip


def timeline() -> Timeline:
    """One step of 2.5 ms: launches, one stream, two NVTX rows, two gaps."""
    shapes = [
        Shape(row="stream 7", start_ns=200_000.0 * i, duration_ns=180_000, label=f"kernel {i}",
              kind="kernel")
        for i in range(11)
    ]  # fmt: skip
    shapes += [
        Shape(row="CPU launches", start_ns=20_000.0 * i, duration_ns=9_000, label="launch",
              kind="launch")
        for i in range(60)
    ]  # fmt: skip
    shapes += [
        Shape(row="NVTX layer", start_ns=1_200_000.0 * i, duration_ns=1_100_000, label=f"layer {i}",
              kind="range")
        for i in range(2)
    ]  # fmt: skip
    steps = tuple(
        StepTime(index=i, start_ns=i * 3e6, wall_ns=2_500_000 + i, busy_ns=2_031_000,
                 idle_ns=469_000 + i, launches=60, kernels=11, phase="decode")
        for i in range(3)
    )  # fmt: skip
    return Timeline(
        source="nsys",
        steps=steps,
        representative_step=1,
        gaps=(
            Gap(start_ns=380_000, duration_ns=20_000, cause="launch latency"),
            Gap(start_ns=2_180_000, duration_ns=320_000, cause="cudaStreamSynchronize"),
        ),
        shapes=tuple(shapes),
        ranges=(
            RangeTime(path=("step", "layer 0"), count=1, host_ns=known(1_100_000, "ns", "timeline"),
                      device_ns=known(1_000_000, "ns", "timeline")),
        ),
        bound="device",
        bound_reason="the launch queue is never empty",
        facts=("One CUDA graph is launched 3 times without node records.",),
    )  # fmt: skip


def hostile_run() -> Run:
    """Every name that a stranger can choose is hostile."""
    run = gpu_run(
        model=Model(name=HOSTILE, weights=HOSTILE),
        command=("profile", "run", HOSTILE, "--note", "/home/somebody/secret-place"),
        labels={"branch": HOSTILE},
        checks=(Check(id=HOSTILE, outcome="failed", message=HOSTILE, fix=HOSTILE),),
        kernels=tuple(
            kernel(HOSTILE + str(i), 1, 1000, 1e6, 1e6, short_name=HOSTILE, family=HOSTILE,
                   op_class=HOSTILE)
            for i in range(3)
        ),
        captures=(Capture(file=HOSTILE, format=HOSTILE, tool=HOSTILE, rows=1,
                          regime={HOSTILE: HOSTILE, "command": HOSTILE}, note=HOSTILE),),
        findings=(
            Finding(rule=HOSTILE, outcome="found", title=HOSTILE, why=HOSTILE, remedy=HOSTILE,
                    saving_bytes=known(1, "byte", "counted"), consumer_bytes=absent(HOSTILE),
                    confidence="low", confidence_reason=HOSTILE, evidence=(HOSTILE,),
                    saving_note=HOSTILE),
        ),
    )  # fmt: skip
    shape = Shape(row=HOSTILE, start_ns=0, duration_ns=1e6, label=HOSTILE, kind=HOSTILE)
    gap = Gap(start_ns=1e6, duration_ns=1e5, cause=HOSTILE)
    strip = Timeline(
        source=HOSTILE, steps=(), representative_step=None, shapes=(shape,), gaps=(gap,),
        facts=(HOSTILE,), bound=HOSTILE, bound_reason=HOSTILE,
    )  # fmt: skip
    rows = (builders.operator(HOSTILE, requested_bytes=known(1, "byte", "counted")),)
    return replace(run, timeline=strip, operators=rows)


def many_kernels(count: int, name_length: int = 900) -> tuple[KernelRow, ...]:
    """Kernel rows with 500 different long C++ names, each a little faster than the last."""
    arguments = "T, " * (name_length // 3)
    return tuple(
        kernel(f"void ns::kernel_{i % 500}<{arguments}>", 3, 50_000 - i % 40_000, 1e6, 1e6,
               short_name=f"kernel_{i}", op_class="other")
        for i in range(count)
    )  # fmt: skip


def counted(nbytes: int) -> Quantity:
    """Counted bytes."""
    return known(nbytes, "byte", "counted")
