"""Count a step: every op of all layers, with bytes and FLOPs, on the meta device.

Counting needs neither memory nor the machine that the step will run on, and always covers all
layers, so counts never depend on where they were made.
"""

from __future__ import annotations

from rooflens.model import Op
from rooflens.reports.classify import classify
from rooflens.workloads.registry import workload
from rooflens.workloads.spec import StepSpec


def count_step(spec: StepSpec) -> tuple[Op, ...]:
    """Classified ops of one step of the whole model, whatever device the spec runs on."""
    from rooflens.harness.recorder import record
    from rooflens.workloads.models import load_model

    counted = spec.on("meta", layers=spec.layers)
    loaded = load_model(counted)
    step = workload(spec.workload).build(counted, loaded)
    return classify(record(step.run, loaded.model, cache=step.cache))
