"""Decode: one new token per sequence on a cache of `context` tokens."""

from __future__ import annotations

from rooflens.errors import UsageError
from rooflens.workloads.models import LoadedModel
from rooflens.workloads.spec import StepSpec
from rooflens.workloads.step import ModelStep, model_step


def build(spec: StepSpec, loaded: LoadedModel) -> ModelStep:
    """The step, ready to run. Raises UsageError when more than one token is asked for."""
    if spec.prompt is not None:
        raise UsageError("decode takes no --prompt.", "Use prefill, or --context for the cache.")
    if spec.query_tokens != 1:
        raise UsageError(
            f"decode computes 1 token per sequence, not {spec.query_tokens}.",
            "Use the workload verify for --query-tokens.",
        )
    return model_step(spec, loaded)
