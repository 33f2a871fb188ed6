"""Two environments in turns: order, labels, failures, and no process left behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rooflens.errors import ProfilerError, UsageError
from rooflens.harness import interleave as module
from rooflens.harness.cli import main
from rooflens.harness.interleave import InterleavePlan, find_python, interleave, make_plan
from rooflens.harness.run_sets import read_runs
from rooflens.reports.compare import compare
from rooflens.reports.compare.records import Verdict
from rooflens.runfile import encode_run
from tests import builders

FAKE = """#!{python}
import json, pathlib, sys
arguments = sys.argv[1:]
assert arguments[:4] == ["-P", "-m", "rooflens", "run"], arguments
log = pathlib.Path({log!r})
order = len(log.read_text().splitlines()) if log.exists() else 0
with log.open("a") as out:
    out.write(json.dumps(arguments) + "\\n")
{body}
output = pathlib.Path(arguments[arguments.index("-o") + 1])
output.mkdir(parents=True)
labels = dict(arguments[i + 1].split("=") for i, a in enumerate(arguments) if a == "--label")
run = json.loads({run!r})
run["labels"] = labels
# A machine that gets slower with every run, by 2 %.
run["step_times_ns"] = [1e6 * (1 + 0.02 * order) * {factor}]
(output / "run.json").write_text(json.dumps(run))
"""


def environment(tmp_path: Path, name: str, factor: float = 1.0, body: str = "") -> Path:
    """A Python environment whose interpreter writes a run instead of running one."""
    file = tmp_path / name / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.write_text(
        FAKE.format(
            python=sys.executable,
            log=str(tmp_path / "log"),
            run=encode_run(builders.run()).decode(),
            factor=factor,
            body=body,
        )
    )
    file.chmod(0o755)
    return tmp_path / name


def plan(tmp_path: Path, base: Path, head: Path, rounds: int = 6, **more: float) -> InterleavePlan:
    return InterleavePlan(
        base_python=find_python(base),
        head_python=find_python(head),
        arguments=("run", "decode", "--steps", "3"),
        rounds=rounds,
        output=tmp_path / "out",
        **more,
    )


def test_the_order_flips_every_round_and_runs_carry_their_round(tmp_path: Path) -> None:
    one, other = environment(tmp_path, "one"), environment(tmp_path, "other")
    base, head = interleave(plan(tmp_path, one, other))
    calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    sides = [Path(call[call.index("-o") + 1]).parent.name for call in calls]
    assert sides == ["head", "base", "base", "head"] * 3
    assert all(call[3:7] == ["run", "decode", "--steps", "3"] for call in calls)
    runs = read_runs([base]) + read_runs([head])
    assert len({run.labels["interleave"] for run in runs}) == 1
    assert sorted(run.labels["round"] for run in runs) == sorted("123456" * 2)


def test_a_drift_of_the_machine_is_no_regression_and_a_slower_head_is(tmp_path: Path) -> None:
    one, other = environment(tmp_path, "one"), environment(tmp_path, "other")
    base, head = interleave(plan(tmp_path, one, other, rounds=8))
    assert compare(read_runs([base]), read_runs([head])).time.verdict in (
        Verdict.NO_CHANGE_SHOWN, Verdict.WITHIN_NOISE,
    )  # fmt: skip
    again = tmp_path / "again"
    slow = environment(tmp_path, "slow", factor=1.15)
    base, head = interleave(plan(again, one, slow, rounds=8))
    found = compare(read_runs([base]), read_runs([head]))
    assert found.time.verdict is Verdict.REGRESSED
    assert found.time.relative == pytest.approx(0.15, abs=0.02)


def test_a_failing_environment_is_named_with_its_own_words(tmp_path: Path) -> None:
    good = environment(tmp_path, "good")
    bad = environment(tmp_path, "bad", body="sys.exit('profile: out of memory')")
    with pytest.raises(ProfilerError, match="Round 1 of the base failed: out of memory") as error:
        interleave(plan(tmp_path, bad, good))
    assert str(bad) in error.value.hint
    assert len(read_runs([tmp_path / "out" / "head"])) == 1


def test_a_run_that_hangs_is_stopped(tmp_path: Path) -> None:
    body = f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(__import__('os').getpid()))"
    body += "\n__import__('time').sleep(60)"
    hanging = environment(tmp_path, "hanging", body=body)
    with pytest.raises(ProfilerError, match="longer than 2 s"):
        interleave(plan(tmp_path, hanging, hanging, timeout_s=2))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_command_runs_both_environments_and_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = environment(tmp_path, "base-env"), environment(tmp_path, "head-env", factor=1.3)
    monkeypatch.setattr(sys, "executable", str(head / "bin" / "python"))
    line = ["run", "decode", "--interleave", str(base), "--rounds", "8", "-o", str(tmp_path / "o")]
    monkeypatch.setattr(sys, "argv", ["profile", *line])
    with pytest.raises(SystemExit) as end:
        main(line)
    assert not end.value.code
    shown = capsys.readouterr()
    assert shown.out.startswith("REGRESSED: Step time +30 %")
    assert f"again: profile diff {tmp_path / 'o' / 'base'}" in shown.out
    assert "Round 8 of 8: head" in shown.err


def test_an_environment_is_a_folder_or_an_interpreter(tmp_path: Path) -> None:
    folder = environment(tmp_path, "env")
    assert find_python(folder) == find_python(folder / "bin" / "python")
    with pytest.raises(UsageError, match="no Python environment"):
        find_python(tmp_path)


def test_the_plan_refuses_what_cannot_work(tmp_path: Path) -> None:
    folder = environment(tmp_path, "env")
    with pytest.raises(UsageError, match="6 is the least"):
        make_plan(folder, ["run", "decode"], 5, tmp_path / "new")
    with pytest.raises(UsageError, match="not empty"):
        make_plan(folder, ["run", "decode"], 6, tmp_path)


@pytest.mark.parametrize(
    "ours",
    [
        ["--interleave", "x", "-o", "y"], ["--interleave=x", "--output=y", "--rounds=8"],
        ["--rounds", "8", "-oy", "--force", "--json"], ["--format", "json"], ["--format=json"],
    ],
)  # fmt: skip
def test_children_get_the_command_line_without_what_interleaving_sets(ours: list[str]) -> None:
    line = ["run", "decode", *ours, "--batch", "2", "--label", "a=b"]
    assert module.run_arguments(line) == ("run", "decode", "--batch", "2", "--label", "a=b")
