"""Verify: several drafted tokens per sequence at once, as speculative decoding checks them.

Every drafted token needs its logits to be accepted or refused, so all positions keep theirs.
"""

from __future__ import annotations

from dataclasses import replace

from rooflens.errors import UsageError
from rooflens.workloads.models import LoadedModel
from rooflens.workloads.spec import StepSpec
from rooflens.workloads.step import ModelStep, model_step


def build(spec: StepSpec, loaded: LoadedModel) -> ModelStep:
    """The step, ready to run, with logits of every drafted position."""
    if spec.prompt is not None:
        raise UsageError("verify takes no --prompt.", "Use --query-tokens.")
    return model_step(replace(spec, logits="all"), loaded)
