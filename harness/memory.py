"""Will the step fit? Said before anything is allocated, with what would fit instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rooflens.errors import ProfilerError
from rooflens.harness import machine
from rooflens.model import Machine, Op
from rooflens.quantity import Record
from rooflens.reports.format import bytes_text
from rooflens.reports.theory.architecture import Architecture
from rooflens.units import DTYPE_BYTES
from rooflens.workloads.spec import StepSpec

CACHE_COPIES = 2
"""The cache that every step starts from stays; the step appends to a copy of it."""
ACTIVATION_COPIES = 2
"""The largest op's tensors, and as much again for what its neighbours still hold."""
USABLE = 0.95
_CONTEXT_STEP = 256


class MemoryNeed(Record, frozen=True, kw_only=True):
    """Bytes that a step holds at its peak."""

    weights: int
    cache: int
    activations: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.activations


def weight_bytes(model: Architecture, spec: StepSpec, dtype: str, *, shared: bool) -> int:
    """Memory for the weights; `shared`: dummy layers use one layer's, embedding and head one."""
    size = DTYPE_BYTES[dtype]
    layers = spec.layers or model.layers
    heads = 1 if shared or model.tied else 2
    copies = 1 if shared else layers
    elements = heads * model.embedding_params + copies * layer_params(model) + model.hidden
    return int(elements * size)


def shares_storage(model: Architecture, spec: StepSpec, dtype: str, facts: Machine) -> bool:
    """Whether the dummy weights of this step will share storage between layers.

    Raises UsageError when a weights directory was named that holds none.
    """
    from rooflens.workloads.models import ASSUMED_CACHE_BYTES, CACHE_MULTIPLE, real_weights

    if spec.weights == "dummy-full" or real_weights(spec) is not None:
        return False
    cache = facts.last_level_cache_bytes or ASSUMED_CACHE_BYTES
    return layer_params(model) * DTYPE_BYTES[dtype] >= CACHE_MULTIPLE * cache


def layer_params(model: Architecture) -> int:
    """Elements of one layer (the mean where layers differ)."""
    outside = model.embedding_params * (1 if model.tied else 2) + model.hidden
    return (model.params - outside) // model.layers


def memory_need(
    model: Architecture,
    spec: StepSpec,
    *,
    dtype: str,
    kv_bytes_per_token: int,
    shared: bool,
    ops: Sequence[Op] = (),
) -> MemoryNeed:
    """Estimate the peak; `kv_bytes_per_token` is for all layers of the model."""
    layers = spec.layers or model.layers
    tokens = spec.batch * spec.keys
    cache = CACHE_COPIES * tokens * kv_bytes_per_token * layers // model.layers
    return MemoryNeed(
        weights=weight_bytes(model, spec, dtype, shared=shared),
        cache=cache,
        activations=ACTIVATION_COPIES * max(map(_held_by, ops), default=0),
    )


def available_bytes(device: str) -> int | None:
    """Free memory where the step runs, or None when it cannot be told."""
    if device == "meta":
        return None
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    return machine.memory_available_bytes()


def refuse_if_too_large(need: MemoryNeed, spec: StepSpec, free: int | None, layers: int) -> None:
    """Raise ProfilerError when the step of `layers` layers does not fit, naming what would."""
    if free is None or need.total <= free * USABLE:
        return
    parts = [f"weights {bytes_text(need.weights)}", f"KV cache {bytes_text(need.cache)}"]
    if need.activations:
        parts.append(f"activations {bytes_text(need.activations)}")
    where = "on the GPU" if spec.device == "cuda" else "of memory"
    raise ProfilerError(
        f"Not enough memory: this step holds about {bytes_text(need.total)} "
        f"({', '.join(parts)}); {bytes_text(free)} {where} is free.",
        " ".join(
            (*_what_fits(need, spec, int(free * USABLE), layers), "--device meta needs no memory.")
        ),
    )


def _what_fits(need: MemoryNeed, spec: StepSpec, free: int, layers: int) -> Iterable[str]:
    """Smaller values of the options that decide the size, one at a time."""
    room = free - need.weights
    scales = need.cache + need.activations
    if room <= 0 or scales <= 0:
        if spec.weights not in ("auto", "dummy"):
            yield "Use --weights dummy, whose layers share storage."
        return
    share = room / scales
    batch = int(spec.batch * share)
    if 1 <= batch < spec.batch:
        yield f"--batch {batch} would fit."
    context = int(spec.context * share) // _CONTEXT_STEP * _CONTEXT_STEP
    if _CONTEXT_STEP <= context < spec.context:
        yield f"--context {context} would fit."
    if need.cache:
        # Every layer has its own cache; what is counted still covers all layers.
        fewer = int((room - need.activations) / need.cache * layers)
        if 1 <= fewer < layers:
            yield f"--layers {fewer} would fit."
    if spec.prompt is not None:
        # Eager scores grow with the square of the prompt, so the linear share is an upper bound.
        prompt = int(spec.prompt * share**0.5) // _CONTEXT_STEP * _CONTEXT_STEP
        if _CONTEXT_STEP <= prompt < spec.prompt:
            yield f"--prompt {prompt} would fit."


def _held_by(op: Op) -> int:
    """Bytes of an op's operands that are neither weights nor cache, each storage once."""
    sizes = {
        tensor.id: tensor.bytes
        for tensor in (*op.inputs, *op.outputs)
        if tensor.role in ("activation", "input")
    }
    return sum(sizes.values())
