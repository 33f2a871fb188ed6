"""What will be run: options and defaults become a plan, and everything wrong is said now.

plan = make_plan(RunOptions(workload="decode", batch=1))
run = run_step(plan)                       harness/running.py
"""

from __future__ import annotations

from pathlib import Path

from rooflens.architectures import load_config
from rooflens.errors import ProfilerError, UsageError
from rooflens.quantity import Record
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.gpus import Gpu, gpu
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory
from rooflens.workloads.registry import workload
from rooflens.workloads.spec import StepSpec

DEFAULT_WARMUP = 1
DEFAULT_STEPS = 3
MAX_SEED = 2**62
PREFILL_STEP_S = 10.0
"""`--layers auto` executes as many layers of a prefill as keep a step on the CPU below this."""


class RunOptions(Record, frozen=True, kw_only=True):
    """What a person may choose. None (or `auto`) leaves the choice to the workload or machine."""

    workload: str = "decode"
    model: str | None = None
    weights: str | None = None
    batch: int = 1
    context: int | None = None
    prompt: int | None = None
    query_tokens: int | None = None
    logits: str = "last"
    attention: str = "sdpa"
    dtype: str | None = None
    layers: str = "auto"
    device: str = "auto"
    gpu: str | None = None
    evidence: tuple[str, ...] = ()
    """Levels by name; empty is auto."""
    steps: int = DEFAULT_STEPS
    warmup: int = DEFAULT_WARMUP
    seed: int = 0
    labels: dict[str, str] = {}
    refresh_ceilings: bool = False
    command: tuple[str, ...] = ()
    """The command line, for the record."""


class RunPlan(Record, frozen=True, kw_only=True):
    """A run that can start: every name is known and every default filled in."""

    options: RunOptions
    spec: StepSpec
    """On the device that it runs on; `layers` is None unless a number was asked for."""
    dtype: str
    architecture: Architecture
    theory: StepTheory
    gpu: Gpu | None

    @property
    def device(self) -> str:
        """Where the step runs: cpu, cuda or meta."""
        return self.spec.device


def make_plan(options: RunOptions) -> RunPlan:
    """Check the options and fill in the defaults.

    Raises UsageError for what cannot be, InputError for an unreadable model, and ProfilerError
    for a device that this machine does not have.
    """
    kind = workload(options.workload)
    _refuse_foreign_options(options)
    roof_of = gpu(options.gpu) if options.gpu else None
    # Absolute, because a profiler runs the same spec in a folder of its own.
    model = _absolute(options.model or StepSpec().model)
    config = load_config(model)
    architecture = Architecture.from_config(config, name=model_name(model))
    spec = kind.spec(
        model=model,
        weights=_absolute(options.weights) if options.weights else None,
        batch=options.batch,
        context=options.context,
        prompt=options.prompt,
        query_tokens=options.query_tokens,
        logits=options.logits,
        attention=options.attention,
        dtype=options.dtype,
        device=resolve_device(options.device),
        layers=_layers(options.layers, architecture.layers),
        seed=options.seed,
    )
    dtype = spec.dtype or architecture.dtype
    if roof_of is not None:
        roof_of.roof(dtype)  # says so when this GPU has no units for the dtype
    return RunPlan(
        options=options,
        spec=spec,
        dtype=dtype,
        architecture=architecture,
        theory=step_theory(architecture, step_shape(spec, dtype)),
        gpu=roof_of,
    )


def step_shape(spec: StepSpec, dtype: str) -> StepShape:
    """The step as theory sees it."""
    return StepShape(
        workload=spec.workload,
        batch=spec.batch,
        context=spec.context,
        query_tokens=spec.new_tokens,
        logits=spec.logits,
        dtype=dtype,
    )


def model_name(model: str) -> str:
    """What a run calls its model: a shipped name, or a local directory's own name."""
    path = Path(model)
    if not path.exists():
        return model
    return (path if path.is_dir() else path.parent).resolve().name


def resolve_device(wanted: str) -> str:
    """Turn `auto` into a device of this machine. Raises ProfilerError for an absent GPU."""
    if wanted in ("cpu", "meta"):
        return wanted
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise ProfilerError(
            "--device cuda: torch sees no GPU here.",
            "`profile doctor` says why; --device cpu or --device meta work without one.",
        )
    return "cpu"


def layers_that_fit(step_s: float, layers: int, layer_share: float) -> int:
    """How many layers keep a step below PREFILL_STEP_S, at least one.

    `step_s` is the estimate for all `layers`; `layer_share` the part of it spent in layers.
    """
    outside_s = step_s * (1 - layer_share)
    per_layer_s = step_s * layer_share / layers
    if per_layer_s <= 0:
        return layers
    return max(1, min(layers, int((PREFILL_STEP_S - outside_s) / per_layer_s)))


def _absolute(name_or_path: str) -> str:
    """A path of this machine made absolute; any other name as it is."""
    path = Path(name_or_path)
    return str(path.resolve()) if path.exists() else name_or_path


def _layers(wanted: str, total: int) -> int | None:
    if wanted in ("all", "auto"):
        return None
    number = int(wanted)
    if not 1 <= number <= total:
        raise UsageError(f"--layers {number}: the model has {total}.", "Use a number, all or auto.")
    return None if number == total else number


def _refuse_foreign_options(options: RunOptions) -> None:
    """An option that a workload does not read would silently not do what was asked."""
    name = options.workload
    if not 0 <= options.seed <= MAX_SEED:
        raise UsageError(f"--seed {options.seed}: it must be 0 to {MAX_SEED}.")
    if options.prompt is not None and name != "prefill":
        raise UsageError(
            f"--prompt does not apply to {name}.",
            "Use prefill, or --context for tokens already in the cache.",
        )
    if options.query_tokens not in (None, 1) and name != "verify":
        raise UsageError(
            f"--query-tokens {options.query_tokens} does not apply to {name}.",
            "Use verify for several new tokens, or prefill --prompt.",
        )
    if options.device == "meta" and options.weights not in (None, "auto", "dummy"):
        raise UsageError(
            f"--weights {options.weights} does not apply to --device meta, which holds none."
        )
