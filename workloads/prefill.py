"""Prefill: `prompt` new tokens at once; with `context` > 0 one later chunk of a longer prompt."""

from __future__ import annotations

from rooflens.workloads.models import LoadedModel
from rooflens.workloads.spec import StepSpec
from rooflens.workloads.step import ModelStep, model_step


def build(spec: StepSpec, loaded: LoadedModel) -> ModelStep:
    """The step, ready to run."""
    return model_step(spec, loaded)
