"""What the theory's tests share: the reference model, its number format, a GEMM's intensity."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from rooflens.architectures import load_config
from rooflens.model import Roof
from rooflens.reports.theory.architecture import Architecture
from rooflens.reports.theory.formats import Format, activation_format
from rooflens.reports.theory.gpus import gpu
from rooflens.reports.theory.operators import OperatorTheory, gemm
from rooflens.reports.theory.step import StepShape, StepTheory, step_theory

# A busy machine must not fail a property.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def qwen() -> Architecture:
    return Architecture.from_config(load_config("qwen2.5-7b"), "qwen2.5-7b")


@pytest.fixture(scope="session")
def bf16() -> Format:
    return activation_format("bfloat16")


@pytest.fixture(scope="session")
def rtx4090() -> Roof:
    return gpu("4090").roof("bfloat16")


@pytest.fixture(scope="session")
def product(bf16: Format) -> Callable[[int, int, int], OperatorTheory]:
    """A bfloat16 product [m, k] x [k, n]."""
    return lambda m, k, n: gemm(m, k, n, activation=bf16, weight=bf16)


@pytest.fixture(scope="session")
def decode(qwen: Architecture) -> StepTheory:
    return step_theory(qwen, StepShape())


@pytest.fixture(scope="session")
def decode32(qwen: Architecture) -> StepTheory:
    return step_theory(qwen, StepShape(batch=32))


@pytest.fixture(scope="session")
def prefill(qwen: Architecture) -> StepTheory:
    return step_theory(qwen, StepShape(workload="prefill", context=0, query_tokens=2048))
