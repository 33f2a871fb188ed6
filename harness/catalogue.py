"""The names that other commands take: workloads, models, GPUs. Needs no torch."""

from __future__ import annotations

import msgspec

from rooflens.architectures import DEFAULT_MODEL, load_config, names
from rooflens.errors import UsageError
from rooflens.quantity import Record
from rooflens.reports.format import bandwidth_text, count_text, flop_rate_text
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.gpus import gpu, gpu_names
from rooflens.workloads.registry import WORKLOADS

LISTED_DTYPE = "bfloat16"


class WorkloadEntry(Record, frozen=True, kw_only=True):
    """One workload of `profile run`."""

    name: str
    version: int
    summary: str
    defaults: dict[str, str | int]


class ModelEntry(Record, frozen=True, kw_only=True):
    """One shipped configuration."""

    name: str
    params: int
    layers: int
    default: bool


class GpuEntry(Record, frozen=True, kw_only=True):
    """One GPU for `--gpu`."""

    name: str
    label: str
    bandwidth_bytes_per_s: float
    bfloat16_flops_per_s: float | None
    """Dense peak; None where the GPU has no such units."""


class Catalogue(Record, frozen=True, kw_only=True):
    """Everything that has a name."""

    workloads: tuple[WorkloadEntry, ...]
    models: tuple[ModelEntry, ...]
    gpus: tuple[GpuEntry, ...]


def catalogue() -> Catalogue:
    """Collect the names."""
    return Catalogue(
        workloads=tuple(
            WorkloadEntry(
                name=kind.name, version=kind.version, summary=kind.summary, defaults=kind.defaults
            )
            for kind in WORKLOADS
        ),
        models=tuple(_model(name) for name in names()),
        gpus=tuple(_gpu(name) for name in gpu_names()),
    )


def render_text(found: Catalogue) -> str:
    """Three lists, one line an entry."""
    lines = ["Workloads (profile run NAME)"]
    lines += [f"  {w.name:<10}{w.summary}" for w in found.workloads]
    lines += ["", "Models (--model NAME, a Hugging Face directory or a config.json)"]
    lines += [
        f"  {m.name:<16}{count_text(m.params)} parameters, {m.layers} layers"
        + (" (default)" if m.default else "")
        for m in found.models
    ]
    lines += ["", "GPUs (--gpu NAME; bandwidth and dense bf16 peak from data sheets)"]
    width = max((len(g.name) for g in found.gpus), default=0) + 2
    for g in found.gpus:
        peak = g.bfloat16_flops_per_s
        rate = flop_rate_text(peak) if peak is not None else "no bf16"
        lines.append(
            f"  {g.name:<{width}}{bandwidth_text(g.bandwidth_bytes_per_s):>12}  {rate:>15}"
        )
    return "\n".join(lines)


def render_json(found: Catalogue) -> str:
    """The same as JSON."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()


def _model(name: str) -> ModelEntry:
    model = Architecture.from_config(load_config(name), name=name)
    return ModelEntry(
        name=name, params=model.params, layers=model.layers, default=name == DEFAULT_MODEL
    )


def _gpu(name: str) -> GpuEntry:
    found = gpu(name)
    try:
        peak = found.peak_flops(LISTED_DTYPE)
    except UsageError:
        peak = None
    return GpuEntry(
        name=found.name,
        label=found.label,
        bandwidth_bytes_per_s=found.bandwidth_bytes_per_s,
        bfloat16_flops_per_s=peak,
    )
