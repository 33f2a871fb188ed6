"""`profile check`: budgets, their update, exit codes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rooflens.harness.cli import main
from rooflens.model import known
from rooflens.runfile import encode_run
from tests import builders


def written(path: Path, size: int, **fields: Any) -> str:
    totals = builders.totals(requested_bytes=known(size, "byte", "counted"))
    path.mkdir(parents=True)
    (path / "run.json").write_bytes(encode_run(builders.run(totals=totals, **fields)))
    return str(path)


def profile(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    shown = capsys.readouterr()
    code = end.value.code
    return (code if isinstance(code, int) else 0), shown.out, shown.err


def test_a_budget_is_written_kept_and_exceeded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = written(tmp_path / "good", 1000), written(tmp_path / "bad", 1001)
    budget = ("--budget", str(tmp_path / "rooflens.toml"))
    code, out, _ = profile(capsys, "check", good, *budget, "--update", "--reason", "first")
    assert (code, out.split()[0]) == (0, "Wrote")
    assert profile(capsys, "check", good, *budget)[0] == 0
    code, out, _ = profile(capsys, "check", bad, *budget)
    assert code == 1
    assert "1.001 kB is over the budget of 1.000 kB, 0.1 % more" in out
    assert profile(capsys, "check", bad, *budget, "--update", "--reason", "needed")[0] == 0
    assert profile(capsys, "check", bad, *budget)[0] == 0
    table = tomllib.loads((tmp_path / "rooflens.toml").read_text())["budget"]["decode-b1-c2047"]
    assert table["reasons"][1].endswith(
        "needed (requested_bytes_per_token 1,000 -> 1,001)"
    )  # fmt: skip


def test_an_update_without_a_reason_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = written(tmp_path / "run", 5)
    for reason in ((), ("--reason", "  ")):
        code, _, err = profile(capsys, "check", run, "--update", *reason)
        assert code == 2
        assert "only with a reason" in err
    assert not Path("rooflens.toml").exists()
    code, _, err = profile(capsys, "check", run, "--reason", "x")
    assert (code, "--update" in err) == (2, True)


def test_a_run_without_a_budget_is_not_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = written(tmp_path / "run", 5)
    code, _, err = profile(capsys, "check", run)
    assert code == 2
    assert "no such file" in err
    Path("rooflens.toml").write_text("[budget.other]\nbatch = 64\n")
    code, _, err = profile(capsys, "check", run)
    assert code == 3
    assert "No budget in rooflens.toml is for this run" in err
    assert "batch 1" in err


def test_answers_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path / "run", 1000)
    file = tmp_path / "b.toml"
    file.write_text("[budget.a]\nrequested_bytes_per_token = 900\nops = 3\n")
    code, out, _ = profile(capsys, "check", run, "--budget", str(file), "--json")
    assert code == 1
    assert [answer["outcome"] for answer in json.loads(out)] == ["failed", "cannot judge"]
    _, out, _ = profile(capsys, "check", run, "--budget", str(file), "--format", "github")
    levels = [line.split()[0] for line in out.splitlines()]
    assert levels == ["::error", "::warning"]


def test_a_broken_budget_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = written(tmp_path / "run", 1000)
    file = tmp_path / "b.toml"
    for text, words in (
        ("[budget.a", "is not TOML"),
        ("budget = 3\n", "not a table"),
        ("[budget.a]\nbatsh = 1\n", 'Did you mean "batch"'),
        ("[budget.a]\nbatch = '1'\n", "whole number"),
        ("[budget.a]\nops = -1\n", "wrong type"),
        ("[budget.a]\nops = nan\n", "wrong type"),
        ("[budget.a]\nstep_time_tolerance = 5\n", '"5%"'),
    ):
        file.write_text(text)
        code, _, err = profile(capsys, "check", run, "--budget", str(file))
        assert code == 2, text
        assert words in err
        assert err.count("\n") == 1
