"""A counter that was not collected is no zero: rules that need it say so or are less sure."""

from __future__ import annotations

import msgspec

from rooflens.model import Finding, Run, absent, known
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.engine import find
from tests.defects.kernel_tables import attention


def answer(run: Run, rule: str) -> Finding:
    return next(item for item in find(run, RULES) if item.rule.startswith(rule))


def with_kernel(run: Run, **fields: object) -> Run:
    (kernel,) = run.kernels
    return msgspec.structs.replace(run, kernels=(msgspec.structs.replace(kernel, **fields),))


def test_an_underfilled_kernel_is_surer_with_flops_than_without() -> None:
    run = attention(0.09, 1.1, 28)
    assert run.kernels[0].flops.value is None
    without = answer(run, "R07")
    assert (without.outcome, without.confidence) == ("found", "medium")
    assert "bound by compute" in without.confidence_reason
    metrics = run.kernels[0].metrics | {"tensor_percent_of_roof": known(2, "1", "counters")}
    measured = answer(with_kernel(run, metrics=metrics), "R07")
    assert (measured.outcome, measured.confidence) == ("found", "high")


def test_unknown_bytes_are_not_few_bytes() -> None:
    run = with_kernel(attention(0.09, 1.1, 28), dram_bytes=absent("not collected"))
    assert answer(run, "R07").outcome == "could_not_look"


def test_unpacked_groups_are_surer_with_flops_than_without() -> None:
    run = attention(0.35, 6.8)
    assert answer(run, "R06").confidence == "low"
    metrics = run.kernels[0].metrics | {"tensor_percent_of_roof": known(2, "1", "counters")}
    assert answer(with_kernel(run, metrics=metrics), "R06").confidence == "medium"
