"""One step of a transformers model: its inputs, its cache, and how to run it again and again."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from rooflens.errors import UsageError
from rooflens.workloads.fill import BLOCK_ELEMENTS, fill, random_block
from rooflens.workloads.models import LoadedModel
from rooflens.workloads.spec import StepSpec

PLAIN_CACHES = frozenset(
    {"llama", "mistral", "mixtral", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}
)
"""Architectures whose layers cache `num_key_value_heads` heads of `head_dim`, keys and values."""


@dataclass
class ModelStep:
    """A forward pass over `new_tokens` per sequence, on a cache of exactly `context` tokens.

    Call `reset` before every `run`, outside the timed range: a step appends to the cache, and a
    growing cache would change the next step.
    """

    model: torch.nn.Module
    input_ids: torch.Tensor
    cache: Any
    options: dict[str, Any]
    _saved: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._saved = [dict(vars(layer)) for layer in self.cache.layers]

    def reset(self) -> None:
        """Put the cache back to its first state (pointers only, nothing is copied)."""
        for layer, state in zip(self.cache.layers, self._saved, strict=True):
            vars(layer).update(state)

    def run(self) -> torch.Tensor:
        """One forward pass; returns the logits (batch, positions kept, vocabulary)."""
        with torch.no_grad(), _autocast_on_meta(self.input_ids.device):
            output = self.model(input_ids=self.input_ids, **self.options)
        logits: torch.Tensor = output.logits
        return logits


@contextlib.contextmanager
def _autocast_on_meta(device: torch.device) -> Iterator[None]:
    """Let models switch autocast off on meta, for which torch has no autocast at all.

    transformers before 5.0 does so in its rotary embedding, on whatever device its input is.
    """
    if device.type != "meta":
        yield
        return
    original = torch.autocast

    def autocast(device_type: str, *args: Any, **options: Any) -> AbstractContextManager[Any]:
        if device_type == "meta":
            return contextlib.nullcontext()
        return original(device_type, *args, **options)

    torch.autocast = autocast  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        torch.autocast = original  # type: ignore[misc]


def model_step(spec: StepSpec, loaded: LoadedModel) -> ModelStep:
    """Build the step of a causal language model: random token ids, random cache."""
    config = loaded.model.config
    tokens = _token_ids(spec, int(config.vocab_size))
    parameters = inspect.signature(loaded.model.forward).parameters
    # transformers calls the argument `cache` from 5.24 on and `past_key_values` before.
    name = "cache" if "cache" in parameters else "past_key_values"
    cache = _filled_cache(spec, loaded, name)
    options: dict[str, Any] = {name: cache, "use_cache": True}
    if "logits_to_keep" in parameters:
        options["logits_to_keep"] = 0 if spec.logits == "all" else 1
    return ModelStep(loaded.model, tokens, cache, options)


def _token_ids(spec: StepSpec, vocabulary: int) -> torch.Tensor:
    shape = (spec.batch, spec.new_tokens)
    if spec.device == "meta":
        return torch.empty(shape, dtype=torch.long, device="meta")
    generator = torch.Generator().manual_seed(spec.seed)
    return torch.randint(vocabulary, shape, generator=generator).to(spec.device)


def _filled_cache(spec: StepSpec, loaded: LoadedModel, name: str) -> Any:
    """A DynamicCache of `context` random tokens, made directly instead of by a prefill."""
    cache = _empty_cache(loaded)
    block = None if spec.device == "meta" else random_block(loaded.dtype, spec.seed + 1, scale=1.0)
    shapes = _cache_shapes(spec, loaded, name)
    with torch.no_grad():
        for layer, pair in enumerate(shapes):
            tensors = [
                torch.empty(
                    (spec.batch, heads, spec.context, size),
                    dtype=loaded.dtype, device=spec.device,
                )
                for heads, size in pair
            ]  # fmt: skip
            for place, tensor in enumerate(tensors):
                if block is not None:
                    part = 2 * layer + place
                    fill(tensor, block, offset=part * BLOCK_ELEMENTS // (2 * len(shapes)))
            cache.update(*tensors, layer)
    return cache


def _empty_cache(loaded: LoadedModel) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=loaded.model.config)


def _cache_shapes(
    spec: StepSpec, loaded: LoadedModel, name: str
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(heads, head size) of the keys and the values that each layer caches."""
    config = loaded.model.config
    if config.model_type in PLAIN_CACHES:
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return [((heads, size), (heads, size))] * config.num_hidden_layers
    # Other architectures cache in their own way (MLA, parallel heads): one token shows how.
    cache = _empty_cache(loaded)
    token = torch.zeros((1, 1), dtype=torch.long, device=spec.device)
    with torch.no_grad(), _autocast_on_meta(token.device):
        loaded.model(input_ids=token, use_cache=True, **{name: cache})
    try:
        return [
            ((k.shape[1], k.shape[3]), (v.shape[1], v.shape[3]))
            for k, v in ((layer.keys, layer.values) for layer in cache.layers)
        ]
    except (AttributeError, IndexError):
        raise UsageError(
            f'A cache of the architecture "{config.model_type}" cannot be filled directly.',
            "Use a model whose layers all cache keys and values.",
        ) from None
