"""Timeline evidence of a run: real captures of a tiny step, by nsys and by torch's profiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.harness.collectors import child
from rooflens.harness.plan import RunOptions, make_plan
from rooflens.harness.progress import Progress
from rooflens.harness.running import run_step
from rooflens.model import Run

LAYERS = 2


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64,
        "intermediate_size": 160, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "max_position_embeddings": 4096, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }))  # fmt: skip
    return file


def run_with_timeline(config: Path, captures: Path) -> Run:
    captures.mkdir()
    options = RunOptions(
        workload="decode", model=str(config), context=33, evidence=("timeline",), steps=2
    )
    return run_step(make_plan(options), Progress(), captures)


def assert_is_our_step(run: Run) -> None:
    assert "timeline" in run.evidence
    assert run.timeline is not None
    assert [step.phase for step in run.timeline.steps] == ["step", "step"]
    counts = {entry.path[-1]: entry.count for entry in run.timeline.ranges}
    assert counts["layer *"] == 2 * LAYERS
    assert counts["model.layers.*.mlp.down_proj"] == 2 * LAYERS
    assert len(run.step_times_ns) == 2  # those of the undisturbed steps
    assert run.kernels == ()
    assert not [c for c in run.checks if c.outcome == "failed"]


@pytest.mark.nsight
@pytest.mark.slow
def test_nsys_records_the_step_of_a_run(config: Path, tmp_path: Path) -> None:
    run = run_with_timeline(config, tmp_path / "captures")
    assert_is_our_step(run)
    assert run.timeline is not None and run.timeline.source == "nsys"
    assert [capture.file for capture in run.captures] == ["step.nsys-rep"]
    assert "nsys profile -t nvtx,osrt" in run.captures[0].regime["command"]
    assert (tmp_path / "captures" / "step.nsys-rep").stat().st_size > 10_000


@pytest.mark.slow
def test_torch_profiler_takes_over_where_there_is_no_nsys(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nsys" else which(name))
    run = run_with_timeline(config, tmp_path / "captures")
    assert_is_our_step(run)
    assert run.timeline is not None and run.timeline.source == "torch"
    said = {check.id: check.message for check in run.checks}
    assert "torch's profiler" in said["timeline-fallback"]


def test_the_step_gets_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    monkeypatch.setenv("CUDA_API_KEY", "planted")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    given = child.step_environment()
    assert "planted" not in " ".join(given.values())
    assert given["CUDA_VISIBLE_DEVICES"] == "0"
    assert "PATH" in given


@pytest.mark.nsight
@pytest.mark.slow
def test_wrap_records_and_imports_any_command(tmp_path: Path) -> None:
    program = (
        "import time, nvtx\n"
        "for _ in range(4):\n"
        "    with nvtx.annotate('step', domain='rooflens'):\n"
        "        time.sleep(0.02)\n"
        "time.sleep(0.8)\n"
    )
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", "wrap", "--time-limit", "200", "-o", str(out), "--",
         sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Wrote" in done.stdout
    run = json.loads((out / "run.json").read_text())
    assert len(run["timeline"]["steps"]) == 4
    assert all(step["wall_ns"] >= 20e6 for step in run["timeline"]["steps"])
    assert (out / "captures" / "capture.nsys-rep").is_file()


@pytest.mark.nsight
@pytest.mark.slow
def test_wrap_of_a_program_that_records_nothing_is_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", "wrap", "--time-limit", "200", "--",
         sys.executable, "-c", "exit(3)"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "neither kernels nor ranges (the program ended with code 3)" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["wrap"], 2, "Missing argument"),
        (["wrap", "--", "no-such-program"], 2, 'There is no program "no-such-program"'),
        (["wrap", "--tool", "ncu", "--", "true"], 4, "Name it: --gpu"),
    ],
)
def test_wrap_refuses_what_cannot_be(
    arguments: list[str], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rooflens.harness.cli import main

    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == code
    assert says in capsys.readouterr().err
