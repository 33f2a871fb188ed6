"""Options become a plan: defaults filled in, mistakes said before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.architectures import load_config
from rooflens.errors import InputError, ProfilerError, RooflensError, UsageError
from rooflens.harness.plan import RunOptions, layers_that_fit, make_plan
from tests import builders


def options(**fields: object) -> RunOptions:
    return RunOptions(**({"device": "meta"} | fields))  # type: ignore[arg-type]


def test_bare_decode_is_the_reference_step() -> None:
    plan = make_plan(options())
    assert (plan.spec.workload, plan.spec.batch, plan.spec.context) == ("decode", 1, 2047)
    assert (plan.spec.keys, plan.spec.attention, plan.dtype) == (2048, "sdpa", "bfloat16")
    # The hand count of issue and theory: decode batch 1 with 2048 keys.
    assert plan.theory.tensor_flops == 14_962_655_232
    assert plan.theory.compulsory_bytes == 14_258_990_088
    assert plan.architecture.params == 7_615_616_512


def test_bare_prefill_has_2048_new_tokens() -> None:
    plan = make_plan(options(workload="prefill"))
    assert (plan.spec.new_tokens, plan.spec.context) == (2048, 0)


def test_a_chunked_prefill_keeps_its_context() -> None:
    plan = make_plan(options(workload="prefill", prompt=512, context=1536))
    assert (plan.spec.new_tokens, plan.spec.context, plan.spec.keys) == (512, 1536, 2048)


def test_a_local_model_is_called_by_its_directory(tmp_path: Path) -> None:
    folder = builders.tiny_config(tmp_path / "my-model")
    for model in (folder, folder / "config.json"):
        plan = make_plan(options(model=str(model)))
        assert plan.architecture.name == "my-model"
        assert plan.architecture.layers == 2


def test_local_paths_hold_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builders.tiny_config(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    plan = make_plan(options(model="mine"))
    monkeypatch.chdir("/")
    assert load_config(plan.spec.model)["hidden_size"] == 64
    assert plan.architecture.name == "mine"


def test_all_layers_by_number_is_all() -> None:
    assert make_plan(options(layers="28")).spec.layers is None
    assert make_plan(options(layers="4")).spec.layers == 4
    assert make_plan(options(layers="all")).spec.layers is None


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"workload": "decod"}, UsageError, 'Did you mean "decode"'),
        ({"model": "qwen2.5-8b"}, UsageError, 'Did you mean "qwen2.5-7b"'),
        ({"model": "no/such/dir"}, InputError, "no/such/dir"),
        ({"gpu": "h2000"}, UsageError, "H200"),
        ({"gpu": "a100"}, UsageError, "A100-80GB-SXM"),
        ({"gpu": "v100"}, UsageError, "bfloat16"),
        ({"layers": "29"}, UsageError, "the model has 28"),
        ({"prompt": 16}, UsageError, "--prompt does not apply to decode"),
        ({"query_tokens": 2}, UsageError, "Use verify"),
        ({"seed": -1}, UsageError, "--seed -1"),
        ({"weights": "dummy-full"}, UsageError, "--device meta"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    fields: dict[str, object], error: type[RooflensError], words: str
) -> None:
    with pytest.raises(error) as caught:
        make_plan(options(**fields))
    assert words.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


def test_asking_for_an_absent_gpu_is_a_machine_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ProfilerError, match="torch sees no GPU"):
        make_plan(options(device="cuda"))
    assert make_plan(options(device="auto")).device == "cpu"


def test_layers_that_fit_in_ten_seconds() -> None:
    # 28 s for 28 layers and nothing outside: 1 s each, so 10 layers make 10 s.
    assert layers_that_fit(28.0, 28, 1.0) == 10
    # 2 of 30 s are outside layers: (10 - 2) s hold 8 layers of 1 s.
    assert layers_that_fit(30.0, 28, 28 / 30) == 8
    assert layers_that_fit(5.0, 28, 1.0) == 28
    assert layers_that_fit(10_000.0, 28, 1.0) == 1
