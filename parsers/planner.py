"""Which counters to ask ncu for on a chip, in how many passes, with which command line.

    plan = plan_metrics("gh100", "bfloat16")
    plan.metrics      names that exist on that chip
    plan.passes       predicted, not measured
    ncu_arguments(plan, "step", ("python", "serve.py"))

`minimal` is one pass: time, DRAM bytes and the tensor counter of the dtype. `standard` adds SASS
counters and L2 bytes in one more pass: without them kernels that compute outside the tensor cores
(gemv at batch 1, norms) have no FLOPs. `full` counts every tensor format, about one per pass.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from rooflens.errors import UsageError, did_you_mean
from rooflens.parsers.chips import (
    TENSOR_PREFIX,
    chip_names,
    chip_source,
    exists,
    has_dram_counters,
    listed_metrics,
    tensor_counters,
    tensor_parents,
)
from rooflens.quantity import Record

SETS = ("standard", "minimal", "full")
DTYPES = ("bfloat16", "float16", "float32", "float64", "fp8", "int8", "fp4")

_TENSOR_OF_DTYPE: dict[str, tuple[str, ...]] = {
    "bfloat16": ("src_bf16_dst_fp32", "src_fp16_bf16_tf32_dst_fp32"),
    "float16": ("src_fp16", "src_fp16_dst_fp32", "src_fp16_bf16_tf32_dst_fp32",
                "src_fp16_dst_fp16"),
    "float32": ("src_tf32_dst_fp32",),
    "float64": ("src_fp64",),
    "fp8": ("src_fp8", "src_fp8_dst_fp32", "src_fp8_dst_fp16", "src_fp4_fp6_fp8_dst_fp32",
            "src_fp4_fp6_fp8_dst_fp16"),
    "int8": ("src_int8",),
    "fp4": ("src_fp4_dst_fp32",),
}  # fmt: skip
"""Parents that can count a dtype's products; of these, those of the chip are asked for."""

_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on"
_SASS_OPS = ("fadd", "fmul", "ffma", "fadd2", "fmul2", "ffma2", "hadd", "hmul", "hfma",
             "dadd", "dmul", "dfma")  # fmt: skip
_NO_BF16 = ("gv100", "gv11b", "tu102", "tu104", "tu106", "tu116", "tu117")
_SUFFIXES = (".sum", ".avg", ".max", ".min", ".pct", ".ratio", ".max_rate")


class Metric(Record, frozen=True, kw_only=True):
    """One metric to collect and what for."""

    name: str
    why: str


class MetricPlan(Record, frozen=True, kw_only=True):
    """Metrics for one chip and dtype."""

    chip: str
    dtype: str
    set: str
    metrics: tuple[Metric, ...]
    passes: int
    """Predicted from the metric database; real ncu was not counted."""
    source: str
    notes: tuple[str, ...] = ()


def plan_metrics(
    chip: str, dtype: str, set: str = "standard", add: Sequence[str] = ()
) -> MetricPlan:
    """Plan the counters for a chip and dtype.

    Raises UsageError for a chip, dtype, set or metric that is not known; an unknown metric would
    come back as a blank column.
    """
    if chip not in chip_names():
        raise UsageError(
            f'No counter list for the chip "{chip}".', did_you_mean(chip, chip_names())
        )
    if dtype not in DTYPES:
        raise UsageError(f'No tensor counter for "{dtype}".', did_you_mean(dtype, DTYPES))
    if set not in SETS:
        raise UsageError(f'No set "{set}".', did_you_mean(set, SETS))
    tensors = _tensors(chip, dtype, set)
    metrics = [*_base(chip), *_tensor_metrics(chip, tensors)]
    sass = set != "minimal" or dtype == "float32"
    if sass:
        metrics += _sass(chip)
    if set != "minimal":
        metrics += _caches(chip, set)
    metrics += [Metric(name=_checked(name, chip), why="asked for") for name in add]
    unique = tuple({metric.name: metric for metric in metrics}.values())
    return MetricPlan(
        chip=chip,
        dtype=dtype,
        set=set,
        metrics=unique,
        passes=_passes(chip, len(tensors), sass, set != "minimal"),
        source=chip_source(chip),
        notes=tuple(_notes(chip, dtype, tensors, sass, add)),
    )


def ncu_arguments(
    plan: MetricPlan, output: str, command: Sequence[str], nvtx: str = ""
) -> tuple[str, ...]:
    """The ncu command line of a plan, as an argument list. `nvtx` is a filter such as `step/`."""
    only = ("--nvtx", "--nvtx-include", nvtx) if nvtx else ()
    return (
        "ncu", "--target-processes", "all", "--graph-profiling", "node", "--clock-control", "base",
        "--cache-control", "all", *only, "--metrics", ",".join(m.name for m in plan.metrics),
        "-o", output, *command,
    )  # fmt: skip


def _base(chip: str) -> list[Metric]:
    found = [
        Metric(name="gpu__time_duration.sum", why="time of the replayed kernel"),
        Metric(name="sm__cycles_elapsed.avg.per_second", why="SM clock that was held"),
    ]
    if not has_dram_counters(chip):
        return [*found, Metric(name="lts__t_bytes.sum", why="L2 bytes: there is no DRAM counter")]
    read = "dram__bytes_read" if exists(chip, "dram__bytes_read") else "dram__bytes_op_read"
    write = read.replace("read", "write")
    return [
        *found,
        Metric(name="dram__bytes.sum", why="bytes that DRAM moved"),
        Metric(name=f"{read}.sum", why="bytes read"),
        Metric(name=f"{write}.sum", why="bytes written"),
        Metric(name="dram__bytes.sum.peak_sustained", why="width of the DRAM interface"),
        Metric(name="dram__cycles_elapsed.avg.per_second", why="DRAM clock that was held"),
    ]


def _tensors(chip: str, dtype: str, set: str) -> list[str]:
    parents = tensor_parents(chip)
    if set == "full":
        return [name for name in parents if not name.startswith(("src_int1", "src_int4"))]
    return [name for name in _TENSOR_OF_DTYPE[dtype] if name in parents]


def _tensor_metrics(chip: str, parents: Sequence[str]) -> list[Metric]:
    found = []
    for parent in parents:
        found.append(Metric(name=f"{TENSOR_PREFIX}{parent}.sum", why="tensor operations, 1 = FLOP"))
        dense = _dense_part(chip, parent)
        if dense:
            found.append(
                Metric(name=f"{TENSOR_PREFIX}{dense}.sum.peak_sustained", why="dense tensor peak")
            )
    return found


def _dense_part(chip: str, parent: str) -> str:
    """The counter whose peak is the dense one: the parent's own is the sparse peak."""
    names = tensor_counters(chip)
    suffix = f"{parent}_sparsity_off"
    parts = [name for name in names if name == suffix or name.endswith(f"_{suffix}")]
    fastest = ("op_hgmma", "op_utc", "op_igmma", "src")
    return min(
        parts,
        key=lambda n: next((i for i, word in enumerate(fastest) if n.startswith(word)), 9),
        default="",
    )


def _sass(chip: str) -> list[Metric]:
    made = [
        Metric(name=f"{_SASS.format(op)}.sum", why="FLOPs outside the tensor cores")
        for op in _SASS_OPS
        if exists(chip, _SASS.format(op))
    ]
    peak = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
    return [*made, Metric(name=peak, why="FP32 peak")]


def _caches(chip: str, set: str) -> list[Metric]:
    names = ["lts__t_bytes.sum", "lts__t_sector_hit_rate.pct"]
    names += ["l1tex__t_bytes.sum"] if set == "full" else []
    return [
        Metric(name=name, why="cache traffic") for name in names if exists(chip, base_name(name))
    ]


@lru_cache(maxsize=1)
def _families() -> list[dict[str, Any]]:
    text = resources.files("rooflens.parsers").joinpath("data/ncu_passes.toml").read_text("utf-8")
    families = tomllib.loads(text)["family"]
    assert isinstance(families, list)
    return families


def _passes(chip: str, tensors: int, sass: bool, caches: bool) -> int:
    family = next(row for row in _families() if chip in row["chips"])
    passes = max(1, min(tensors, int(family["all_tensor"])))
    # Cache bytes cost a pass of their own only where the tensor counters leave no room.
    crowded = tensors > 1 and caches
    return passes + int(family["sass"]) * sass + int(family["caches"]) * crowded


def base_name(metric: str) -> str:
    """A metric without roll-up and sub-metric: `dram__bytes.sum.per_second` -> `dram__bytes`."""
    return metric.partition(".")[0]


def _checked(metric: str, chip: str) -> str:
    base = base_name(metric)
    if not exists(chip, base):
        elsewhere = base in listed_metrics()
        where = f"does not exist on {chip}" if elsewhere else "is in no list of counters"
        here = [name for name in listed_metrics() if exists(chip, name)]
        raise UsageError(f'The metric "{metric}" {where}.', did_you_mean(base, here))
    if metric != base and not metric[len(base) :].startswith(_SUFFIXES):
        raise UsageError(f'The metric "{metric}" has no such roll-up.', "Use e.g. .sum or .avg.")
    return metric if metric != base else f"{base}.sum"


def _notes(
    chip: str, dtype: str, tensors: Sequence[str], sass: bool, add: Sequence[str]
) -> list[str]:
    notes = []
    if not has_dram_counters(chip):
        notes.append(f"{chip} has no DRAM counters: L2 bytes are a proxy, and are labelled so.")
    if not tensors:
        notes.append(f"{chip} has no tensor counter for {dtype}.")
    if dtype == "bfloat16" and chip in _NO_BF16:
        notes.append(f"{chip} has no BF16 tensor cores: such kernels run on FP32 units.")
    if not sass:
        notes.append(
            "Kernels that compute outside the tensor cores (gemv at batch 1, norms) will have no "
            "FLOPs: the standard set counts them in one more pass."
        )
    if chip in ("gb202", "gb203", "gb205", "gb206", "gb207") and dtype == "fp4":
        notes.append("FP4 mma.sync on these chips was seen to count 0 (kekzl/imp).")
    if add:
        notes.append("Metrics that were added may need further passes.")
    return notes
