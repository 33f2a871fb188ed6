"""`profile list` as data and as text."""

from __future__ import annotations

import json

from rooflens.architectures import names
from rooflens.harness.catalogue import catalogue, render_json, render_text
from rooflens.reports.theory.gpus import gpu_names
from rooflens.workloads.registry import WORKLOADS


def test_everything_is_listed() -> None:
    found = catalogue()
    assert [w.name for w in found.workloads] == [kind.name for kind in WORKLOADS]
    assert [m.name for m in found.models] == names()
    assert [g.name for g in found.gpus] == gpu_names()


def test_exactly_one_model_is_the_default_and_counts_are_right() -> None:
    (default,) = (model for model in catalogue().models if model.default)
    assert (default.name, default.params, default.layers) == ("qwen2.5-7b", 7_615_616_512, 28)


def test_a_gpu_without_bf16_says_so() -> None:
    peaks = {g.name: g.bfloat16_flops_per_s for g in catalogue().gpus}
    assert peaks["V100-SXM2"] is None
    assert peaks["H200-SXM"] == 989.4e12
    line = next(li for li in render_text(catalogue()).splitlines() if "V100-SXM2" in li)
    assert line.endswith("no bf16")


def test_json_is_the_same_list() -> None:
    made = json.loads(render_json(catalogue()))
    assert [m["name"] for m in made["models"]] == names()
    assert made["workloads"][0]["defaults"] == {"context": 2047}
