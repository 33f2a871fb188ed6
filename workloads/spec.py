"""What to run: one step of one workload, with every option that changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rooflens.architectures import DEFAULT_MODEL
from rooflens.errors import UsageError, did_you_mean
from rooflens.units import DTYPE_ALIASES

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
DEVICES = ("cpu", "cuda", "meta")
DTYPES = ("bfloat16", "float16", "float32")
LOGITS = ("last", "all")

DEFAULTS: dict[str, dict[str, int]] = {
    "decode": {"context": 2047, "query_tokens": 1},
    "prefill": {"context": 0, "query_tokens": 1, "prompt": 2048},
    "verify": {"context": 2047, "query_tokens": 4},
}
"""Tokens of each workload where none are given; the reference step of decode has 2048 keys."""

_NONE_GIVEN: Any = None


@dataclass(frozen=True)
class StepSpec:
    """One step of a workload. Checked on creation: raises UsageError naming the option.

    `context` counts tokens already in the cache, `prompt` the new tokens of a prefill,
    `query_tokens` the new tokens of a decode (1) or verify step; left out, they are DEFAULTS of the
    workload. `dtype` None is the model's own,
    `layers` None is all of them. `weights` is `auto` (the files of a local model, else dummy),
    `dummy`, `dummy-full` or a directory of safetensors.
    """

    workload: str = "decode"
    model: str = DEFAULT_MODEL
    weights: str = "auto"
    batch: int = 1
    context: int = _NONE_GIVEN
    prompt: int | None = None
    query_tokens: int = _NONE_GIVEN
    logits: str = "last"
    attention: str = "sdpa"
    dtype: str | None = None
    device: str = "cpu"
    layers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        fallback = {"context": 0, "query_tokens": 1}
        for name, tokens in (fallback | DEFAULTS.get(self.workload, {})).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, tokens)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", DTYPE_ALIASES.get(self.dtype, self.dtype))
        _at_least(self.batch, 1, "--batch")
        _at_least(self.context, 0, "--context")
        _at_least(self.query_tokens, 1, "--query-tokens")
        if self.prompt is not None:
            _at_least(self.prompt, 1, "--prompt")
        if self.layers is not None:
            _at_least(self.layers, 1, "--layers")
        _one_of(self.attention, ATTENTIONS, "--attention")
        _one_of(self.device, DEVICES, "--device")
        _one_of(self.logits, LOGITS, "--logits")
        if self.dtype is not None:
            _one_of(self.dtype, DTYPES, "--dtype")

    @property
    def new_tokens(self) -> int:
        """Tokens per sequence that the step computes."""
        return self.query_tokens if self.prompt is None else self.prompt

    @property
    def keys(self) -> int:
        """Keys that the last new token attends to."""
        return self.context + self.new_tokens

    def on(self, device: str, layers: int | None = None) -> StepSpec:
        """The same step on another device, with all layers unless given."""
        return replace(self, device=device, layers=layers)


def _at_least(value: int, minimum: int, option: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise UsageError(f"{option} must be at least {minimum}, not {value}.")


def _one_of(value: str, known: tuple[str, ...], option: str) -> None:
    if value not in known:
        raise UsageError(f'{option} "{value}" is not known.', did_you_mean(value, known))
