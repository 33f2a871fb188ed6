"""What a step spec accepts, and how it refuses the rest."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.errors import UsageError
from rooflens.workloads.registry import names, workload
from rooflens.workloads.spec import StepSpec


@pytest.mark.parametrize(
    ("option", "value", "flag"),
    [
        ("batch", 0, "--batch"),
        ("batch", -3, "--batch"),
        ("context", -1, "--context"),
        ("prompt", 0, "--prompt"),
        ("query_tokens", 0, "--query-tokens"),
        ("layers", 0, "--layers"),
        ("attention", "sdp", 'Did you mean "sdpa"?'),
        ("dtype", "bfloat", 'Did you mean "bfloat16"?'),
        ("device", "gpu", "--device"),
        ("logits", "first", "--logits"),
    ],
)
def test_bad_values_are_refused_by_name(option: str, value: Any, flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        StepSpec(**{option: value})


def test_unknown_workload_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match='Did you mean "decode"'):
        workload("decod")


def test_workloads_come_with_their_defaults() -> None:
    assert names()[:2] == ["decode", "prefill"]
    assert workload("decode").spec().keys == 2048
    assert workload("prefill").spec().new_tokens == 2048
    assert workload("decode").spec(context=None, batch=4).context == 2047
    assert workload("verify").spec().keys == 2051


def test_a_bare_spec_has_the_tokens_of_its_workload() -> None:
    assert StepSpec(workload="prefill").new_tokens == 2048
    assert StepSpec(workload="decode").keys == 2048
    assert StepSpec(workload="decode").prompt is None
    assert StepSpec(workload="decode", context=0).keys == 1
    assert StepSpec(workload="verify").new_tokens == 4


def test_dtypes_go_by_their_short_names() -> None:
    assert StepSpec(dtype="bf16").dtype == "bfloat16"


def test_the_same_step_elsewhere_has_all_layers_again() -> None:
    spec = StepSpec(layers=3, device="cpu").on("meta")
    assert (spec.device, spec.layers) == ("meta", None)
