"""The workloads that can be run: a plain list. To add one, write its module and add a row.

The list names modules instead of importing them, so that listing workloads needs no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rooflens.errors import UsageError, did_you_mean
from rooflens.workloads.spec import DEFAULTS, StepSpec

if TYPE_CHECKING:
    from rooflens.workloads.models import LoadedModel
    from rooflens.workloads.step import ModelStep


@dataclass(frozen=True)
class WorkloadKind:
    """A named, versioned thing to run. `version` rises whenever what it does changes."""

    name: str
    version: int
    summary: str
    module: str

    @property
    def defaults(self) -> dict[str, str | int]:
        """Token options that the workload sets when they are left out."""
        unset = {"context": 0, "query_tokens": 1}
        options = DEFAULTS.get(self.name, {})
        return {name: tokens for name, tokens in options.items() if unset.get(name) != tokens}

    def spec(self, **options: Any) -> StepSpec:
        """A spec with this workload's defaults; options that are None keep the default."""
        given = {name: value for name, value in options.items() if value is not None}
        return StepSpec(workload=self.name, **given)

    def build(self, spec: StepSpec, loaded: LoadedModel) -> ModelStep:
        """The step, ready to run: inputs made, cache filled to `context` tokens."""
        module = importlib.import_module(f"rooflens.workloads.{self.module}")
        build: Callable[[StepSpec, LoadedModel], ModelStep] = module.build
        return build(spec, loaded)


WORKLOADS: list[WorkloadKind] = [
    WorkloadKind(
        "decode", 1, "One new token per sequence, on a cache of --context tokens.", "decode",
    ),
    WorkloadKind(
        "prefill", 1, "A prompt of --prompt tokens at once; with --context a later chunk of one.",
        "prefill",
    ),
    WorkloadKind(
        "verify", 1, "Check --query-tokens drafted tokens per sequence in one step (speculative).",
        "verify",
    ),
]  # fmt: skip


def names() -> list[str]:
    """Names of the workloads, in the order of the list."""
    return [kind.name for kind in WORKLOADS]


def workload(name: str) -> WorkloadKind:
    """The workload of that name. Raises UsageError with the nearest name."""
    for kind in WORKLOADS:
        if kind.name == name:
            return kind
    raise UsageError(f'Unknown workload "{name}".', did_you_mean(name, names()))
