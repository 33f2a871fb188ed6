"""`profile run` end to end on a tiny model: what it writes, prints and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rooflens.harness import ceilings
from rooflens.harness.cli import main
from rooflens.harness.plan import RunOptions, make_plan
from rooflens.harness.running import run_step
from rooflens.model import Run
from rooflens.runfile import read_run
from tests import builders


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ceilings probe of milliseconds in a cache of its own, and an empty working folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ceilings, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(ceilings, "CPU_SIDES", (64,))
    monkeypatch.setattr(ceilings, "_buffer_bytes", lambda device: 1 << 20)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    return str(builders.tiny_config(tmp_path / "tiny-model"))


def run_options(tiny: str, **fields: Any) -> RunOptions:
    defaults: dict[str, Any] = {"model": tiny, "context": 31, "device": "cpu"}
    return RunOptions(**(defaults | fields))


def run_tiny(tiny: str, **fields: Any) -> Run:
    return run_step(make_plan(run_options(tiny, **fields)))


def profile(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["run", *arguments])
    return int(end.value.code or 0)


def rows(run: Run) -> dict[str, Any]:
    return {row.op_class: row for row in run.operators if row.part is None}


def test_cpu_run_has_times_of_every_class_and_a_measured_roof(tiny: str) -> None:
    run = run_tiny(tiny, attention="eager")
    assert run.evidence == ("theory", "counted")
    assert run.totals.step_time_ns.source == "host"
    assert len(run.step_times_ns) == 3
    assert [(roof.kind, roof.prediction) for roof in run.roofs] == [("measured", False)]
    assert run.totals.floor_ns.value is not None
    for name, row in rows(run).items():
        if row.count:
            assert row.time_ns.value is not None and row.time_ns.value > 0, name
    assert {check.id: check.outcome for check in run.checks}["op-order"] == "passed"


def test_requested_bytes_are_the_sum_of_ops_and_of_classes(tiny: str) -> None:
    run = run_tiny(tiny, device="meta")
    by_op = sum(op.bytes_in + op.bytes_out for op in run.ops)
    by_class = sum(row.requested_bytes.value or 0 for row in rows(run).values())
    assert run.totals.requested_bytes.value == by_op == by_class > 0
    assert run.totals.coverage.value == 1


def test_counts_do_not_depend_on_device_or_layers_run(tiny: str) -> None:
    meta = run_tiny(tiny, device="meta", attention="eager")
    cpu = run_tiny(tiny, layers="1", attention="eager")
    assert cpu.totals.requested_bytes == meta.totals.requested_bytes
    assert cpu.totals.requested_flops == meta.totals.requested_flops
    assert (cpu.workload.layers_run, cpu.workload.layers_model) == (1, 2)
    assert cpu.totals.step_time_ns.extrapolated_from == (0,)
    assert rows(cpu)["down_proj"].time_ns.extrapolated_from == (0,)
    assert rows(cpu)["lm_head"].time_ns.extrapolated_from == ()


def test_auto_layers_keep_a_prefill_short(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflens.harness import plan, running

    for module in (plan, running):
        monkeypatch.setattr(module, "PREFILL_STEP_S", 1e-9)
    prefill = {"workload": "prefill", "prompt": 8, "context": None, "steps": 1}
    auto = run_tiny(tiny, **prefill)
    assert auto.workload.layers_run == 1
    assert {check.id: check.outcome for check in auto.checks}["layers"] == "warning"
    assert run_tiny(tiny, **prefill, layers="all").workload.layers_run == 2
    assert run_tiny(tiny, steps=1).workload.layers_run == 2


def test_meta_run_has_no_time_and_no_roof_and_says_why(tiny: str) -> None:
    run = run_tiny(tiny, device="meta")
    assert run.roofs == () and run.step_times_ns == ()
    assert run.totals.step_time_ns.absent == "nothing ran: --device meta"
    assert rows(run)["lm_head"].time_ns.absent == "nothing ran: --device meta"
    assert "--gpu" in (run.totals.floor_ns.absent or "")
    outcomes = {check.id: check.outcome for check in run.checks}
    assert (outcomes["times"], outcomes["roof"]) == ("could_not_look", "could_not_look")
    assert run.machine.cpu == ""
    # Every layer ran on meta; no step was timed.
    assert (run.workload.layers_run, run.workload.layers_model, run.workload.steps) == (2, 2, 0)


def test_a_named_gpu_is_a_prediction(tiny: str) -> None:
    for device in ("meta", "cpu"):
        run = run_tiny(tiny, device=device, gpu="rtx4090")
        assert (run.roofs[0].name, run.roofs[0].prediction) == ("RTX 4090", True)
        assert run.totals.floor_ns.value is not None


def test_seed_labels_and_shape_are_kept(tiny: str) -> None:
    run = run_tiny(tiny, device="meta", seed=7, labels={"commit": "abc"}, batch=3)
    assert (run.workload.seed, run.workload.batch, run.workload.context) == (7, 3, 31)
    assert run.workload.query_tokens == 1
    assert run.labels == {"commit": "abc"}
    assert run.model.name == "tiny-model"
    assert run.model.config["hidden_size"] == 64


def test_a_run_directory_holds_everything_and_round_trips(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile("decode", "--model", tiny, "--context", "31", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    (directory,) = Path("rooflens-runs").iterdir()
    assert {path.name for path in directory.iterdir()} == {
        "run.json", "report.html", "summary.md", "captures",
    }  # fmt: skip
    assert directory.name == "decode-b1-c31-sdpa-cpu-1"
    assert shown.rstrip().endswith(f"Wrote {directory}/report.html")
    run = read_run(directory)
    assert run.totals.requested_bytes.value
    assert len((directory / "summary.md").read_text()) < 60_000


def test_directories_are_numbered(tiny: str) -> None:
    for _ in range(2):
        assert profile("decode", "--model", tiny, "--device", "meta") == 0
    names = sorted(path.name for path in Path("rooflens-runs").iterdir())
    assert names == ["decode-b1-c2047-sdpa-meta-1", "decode-b1-c2047-sdpa-meta-2"]


def test_json_is_the_only_thing_on_standard_output(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile("decode", "--model", tiny, "--device", "meta", "--json", "-o", "out") == 0
    captured = capsys.readouterr()
    made = json.loads(captured.out)
    assert made["directory"] == "out"
    assert made["totals"]["requested_bytes"]["source"] == "counted"
    assert "ops" not in made
    assert captured.err == "Wrote out/report.html\n"


def test_markdown_is_the_summary(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--model", tiny, "--device", "meta", "--format", "markdown", "-o", "out")
    assert profile("decode", *arguments) == 0
    assert capsys.readouterr().out == Path("out/summary.md").read_text("utf-8")


def test_an_existing_directory_is_refused_before_any_work(
    tiny: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.harness import running

    Path("out").mkdir()
    Path("out/run.json").write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr(running, "run_step", lambda *_: pytest.fail("work was done"))
        assert profile("decode", "--model", tiny, "--device", "meta", "-o", "out") == 2
    assert "--force" in capsys.readouterr().err
    assert profile("decode", "--model", tiny, "--device", "meta", "-o", "out", "--force") == 0
    assert read_run(Path("out")).model.name == "tiny-model"


def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    assert profile("decode", "--model", tiny, "--device", "meta", "-o", "file/x") == 2
    assert "file is no directory" in capsys.readouterr().err


def test_too_large_a_step_is_refused_before_allocation(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = profile("decode", "--model", tiny, "--device", "cpu", "--context", "1m",
                   "--batch", "100000")  # fmt: skip
    assert code == 4
    message = capsys.readouterr().err
    assert "Not enough memory" in message and "would fit" in message
    assert not Path("rooflens-runs").exists()


def test_named_counters_without_a_gpu_end_with_4(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = profile("decode", "--model", tiny, "--device", "cpu", "--evidence", "counters")
    assert code == 4
    assert "--evidence counters cannot be had here" in capsys.readouterr().err


def test_ctrl_c_leaves_nothing_behind(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflens.reports import markdown

    def interrupted(page: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(markdown, "render_markdown", interrupted)
    assert profile("decode", "--model", tiny, "--device", "meta") == 130
    assert list(Path().rglob("*")) in ([], [Path("rooflens-runs")])


def test_the_command_is_kept_without_the_home_folder(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["profile", "run", "decode", "--label", "key=/home/someone/x"])
    assert profile("decode", "--model", tiny, "--device", "meta", "-o", "out") == 0
    text = Path("out/run.json").read_text()
    assert "someone" not in text
    assert '"--label"' in text


def test_the_reference_step_of_the_7b_on_meta() -> None:
    run = run_step(make_plan(RunOptions(device="meta", attention="eager")))
    # transformers 5.24; 24 bytes of mask come and go with the version.
    assert run.totals.requested_bytes.value == pytest.approx(16_211_262_656, rel=1e-8)
    assert run.totals.compulsory_bytes.value == 14_258_990_088
    assert run.totals.minimum_bytes.value == 14_270_129_160
    found = {f.rule[:3]: f for f in run.findings if f.outcome == "found"}
    assert found["R03"].saving_bytes.value == 939_524_096
    assert "R04" in found
    assert run.model.params == 7_615_616_512


def test_the_fastest_step_decides_whether_the_ceilings_were_beaten(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.harness import running

    asked: list[float | None] = []

    def keep(plan: object, roofs: Any, step_ns: float | None, progress: object) -> Any:
        asked.append(step_ns)
        return roofs

    monkeypatch.setattr(running, "raise_if_beaten", keep)
    run = run_tiny(tiny, steps=5)
    assert asked == [pytest.approx(min(run.step_times_ns))]
    assert run.totals.step_time_ns.value != asked[0]
