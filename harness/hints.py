"""What a person can say about a capture that does not say it itself: model, batch, context, GPU.

With a model and a workload the theory of the step stands beside what was measured. Nothing here
imports torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rooflens.architectures import DEFAULT_MODEL, load_config
from rooflens.errors import UsageError
from rooflens.model import Check, Launch, Machine, Model, Roof, Workload
from rooflens.parsers.chips import has_tensor_cores
from rooflens.quantity import Record
from rooflens.reports.format import bandwidth_text, flop_rate_text
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.gpus import Gpu, gpu
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

DEFAULT_CONTEXT = 2047
DEFAULT_PROMPT = 2048
DEFAULT_DTYPE = "bfloat16"


class ImportOptions(Record, frozen=True, kw_only=True):
    """What may be said about a capture. None leaves it unsaid."""

    gpu: str | None = None
    workload: str | None = None
    model: str | None = None
    batch: int | None = None
    context: int | None = None
    prompt: int | None = None
    query_tokens: int | None = None
    logits: str = "last"
    dtype: str | None = None
    layers: int | None = None
    """Layers of the model, when the capture covers some of them."""
    steps: int = 1
    """Equal steps that the capture covers."""
    labels: dict[str, str] = {}
    command: tuple[str, ...] = ()


class Hints(Record, frozen=True, kw_only=True):
    """The hints, checked, with the theory of the step where they allow one."""

    options: ImportOptions
    workload: Workload
    model: Model
    gpu: Gpu | None
    theory: StepTheory | None
    layers_model: int | None


def read_hints(options: ImportOptions) -> Hints:
    """Check the hints. Raises UsageError for what cannot be."""
    named = gpu(options.gpu) if options.gpu else None
    said = (options.workload, options.model, options.batch, options.context, options.prompt,
            options.query_tokens)  # fmt: skip
    if all(word is None for word in said):
        workload = Workload(name="import", device="cuda", dtype=options.dtype or "")
        return Hints(
            options=options, workload=workload, model=Model(name="unknown"), gpu=named, theory=None,
            layers_model=options.layers,
        )  # fmt: skip
    model = options.model or DEFAULT_MODEL
    config = load_config(model)
    architecture = Architecture.from_config(config)
    shape = _shape(options, architecture)
    layers = options.layers or architecture.layers
    return Hints(
        options=options,
        workload=Workload(
            name=shape.workload, batch=shape.batch, context=shape.context, prompt=options.prompt,
            query_tokens=shape.query_tokens, dtype=shape.dtype, device="cuda", layers_model=layers,
            logits=options.logits,
        ),
        model=Model(name=_name(model), params=architecture.params),
        gpu=named,
        theory=step_theory(architecture, shape),
        layers_model=layers,
    )  # fmt: skip


def _name(model: str) -> str:
    """A shipped model's name, or the last part of a path and never the path."""
    return model.rstrip("/").replace("\\", "/").rpartition("/")[2].removesuffix(".json")


def _shape(options: ImportOptions, architecture: Architecture) -> StepShape:
    name = options.workload or ("prefill" if options.prompt else "decode")
    if name == "prefill" and options.query_tokens:
        raise UsageError("--query-tokens belongs to verify; a prefill has --prompt.")
    if name != "prefill" and options.prompt:
        raise UsageError(f"--prompt belongs to prefill, not to {name}.")
    if name == "prefill":
        context = options.context or 0
        tokens = options.prompt or DEFAULT_PROMPT
    else:
        context = DEFAULT_CONTEXT if options.context is None else options.context
        tokens = options.query_tokens or (1 if name == "decode" else 4)
    return StepShape(
        workload=name,
        batch=options.batch or 1,
        context=context,
        query_tokens=tokens,
        logits=options.logits,
        dtype=options.dtype or architecture.dtype,
    )


def choose_import_roofs(
    hints: Hints, machine: Machine, launches: Sequence[Launch]
) -> tuple[tuple[Roof, ...], tuple[Check, ...]]:
    """Data sheet of the named GPU, else of the GPU in the capture; then the roof that was held."""
    dtype = hints.theory.shape.dtype if hints.theory else hints.options.dtype or DEFAULT_DTYPE
    captured = _gpu_of(machine.gpu)
    chosen = hints.gpu or captured
    roofs: list[Roof] = []
    checks: list[Check] = []
    if chosen is not None:
        other = captured is not None and captured.name != chosen.name
        try:
            roofs.append(chosen.roof(dtype, prediction=other))
        except UsageError as error:
            if hints.gpu is not None:
                raise
            checks.append(Check(id="roof", outcome="warning", message=error.message))
        if other:
            checks.append(Check(
                id="import-gpu", outcome="warning",
                message=f"--gpu {chosen.name} is not the GPU of the capture ({machine.gpu}): its "
                "roof is a prediction.",
            ))  # fmt: skip
    held = held_roof(machine, launches, dtype)
    if held is not None and not any(roof.prediction for roof in roofs):
        roofs.append(held)
    return tuple(roofs), tuple(checks)


def _gpu_of(name: str) -> Gpu | None:
    try:
        return gpu(name) if name else None
    except UsageError:
        return None


def held_roof(machine: Machine, launches: Sequence[Launch], dtype: str) -> Roof | None:
    """Peak rates per cycle times the clocks that were held during the capture (medians).

    None without a tensor peak in the capture: the FP32 peak would be no roof for products, except
    on a chip without tensor cores.
    """
    bandwidth = _median(launches, "held_dram_bytes_per_s")
    peak, kind = _median(launches, "held_tensor_flops_per_s"), "tensor"
    if peak is None and has_tensor_cores(machine.gpu_chip) is False:
        peak, kind = _median(launches, "held_fp32_flops_per_s"), "FP32"
    if bandwidth is None or peak is None:
        return None
    clock = _median(launches, "sm_clock_hz")
    at = f" at {clock / 1e9:.2f} GHz" if clock else ""
    return Roof(
        name=f"{machine.gpu or 'this GPU'}{at}, as captured",
        kind="measured",
        peak_flops_per_s=peak,
        bandwidth_bytes_per_s=bandwidth,
        dtype=dtype if kind == "tensor" else "float32",
        source=f"ncu: peak_sustained x the clocks held during the capture ({kind} "
        f"{flop_rate_text(peak)}, DRAM {bandwidth_text(bandwidth)})",
        l2_bytes=machine.last_level_cache_bytes,
    )


def _median(launches: Sequence[Launch], name: str) -> float | None:
    values = [
        float(found.value)
        for launch in launches
        if (found := launch.metrics.get(name)) is not None and found.value
    ]
    return statistics.median(values) if values else None
