"""`profile diff`: sides, formats, exit codes, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.harness.cli import main
from rooflens.model import Machine, Run, known
from rooflens.runfile import encode_run
from tests import builders


def a_run(size: int = 1000, **fields: Any) -> Run:
    requested = known(size, "byte", "counted")
    row = builders.operator("attention", requested_bytes=requested)
    totals = builders.totals(requested_bytes=requested)
    return builders.run(operators=(row,), totals=totals, **fields)


def written(path: Path, run: Run) -> str:
    path.mkdir(parents=True)
    (path / "run.json").write_bytes(encode_run(run))
    return str(path)


def profile(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    shown = capsys.readouterr()
    code = end.value.code
    return (code if isinstance(code, int) else 0), shown.out, shown.err


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    return written(tmp_path / "base", a_run()), written(tmp_path / "head", a_run(1100))


def test_a_regression_ends_with_1_and_names_the_operator(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = profile(capsys, "diff", *sides)
    assert code == 1
    assert out.startswith("REGRESSED: Requested bytes +100 B (+10 %): attention +100 B")


def test_the_same_run_twice_ends_with_0(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = profile(capsys, "diff", sides[0], sides[0])
    assert code == 0
    assert out.startswith("NO_CHANGE_SHOWN")


def test_other_hardware_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = written(tmp_path / "base", a_run())
    head = written(tmp_path / "head", a_run(machine=Machine(device="cuda", gpu="Tesla T4")))
    code, out, _ = profile(capsys, "diff", base, head)
    assert code == 3
    assert "NOT_COMPARABLE" in out
    assert "Tesla T4" in out


def test_conditions_decide_the_exit_code(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile(capsys, "diff", *sides, "--fail-on", "never")[0] == 0
    assert profile(capsys, "diff", *sides, "--fail-on", "op-bytes>20%")[0] == 0
    assert profile(capsys, "diff", *sides, "--fail-on", "never,op-bytes>2%")[0] == 1


def test_json_on_standard_output_is_only_json(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = profile(capsys, "diff", *sides, "--json")
    assert code == 1
    assert json.loads(out)["operators"][0]["class"] == "attention"


@pytest.mark.parametrize("format", ["html", "markdown", "junit", "github", "json", "text"])
def test_a_file_is_written_and_named(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    target = tmp_path / f"out.{format}"
    code, out, _ = profile(capsys, "diff", *sides, "--format", format, "-o", str(target))
    assert code == 1
    assert out.splitlines()[0].startswith("REGRESSED: ")
    assert out.splitlines()[-1] == f"Wrote {target}"
    assert "attention" in target.read_text("utf-8")
    assert not list(tmp_path.glob(".out*"))


def test_a_folder_of_runs_is_pooled_with_further_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        written(tmp_path / "many" / f"run-{number}", a_run())
    base, extra = written(tmp_path / "base", a_run()), written(tmp_path / "extra", a_run())
    _, out, _ = profile(
        capsys, "diff", base, str(tmp_path / "many"), "--base", extra, "--head", extra, "--json"
    )
    data = json.loads(out)
    assert (data["base"]["runs"], data["head"]["runs"]) == (2, 4)


def test_a_gone_class_needs_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    norm = builders.operator("norm", requested_bytes=known(10, "byte", "counted"))
    base = written(tmp_path / "base", builders.run(operators=(*a_run().operators, norm)))
    head = written(tmp_path / "head", a_run())
    assert profile(capsys, "diff", base, head)[0] == 3
    code, out, _ = profile(capsys, "diff", base, head, "--drop-reason", "norm=fused into attention")
    assert code == 0
    assert "norm is gone, explained: fused into attention." in out


def test_a_head_in_an_older_or_newer_schema_is_one_line(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version, words in ((0, "never released"), (99, "Upgrade Rooflens")):
        other = tmp_path / f"schema-{version}"
        other.mkdir()
        text = Path(sides[1], "run.json").read_text().replace(
            '"schema_version": 1', f'"schema_version": {version}'
        )  # fmt: skip
        (other / "run.json").write_text(text)
        code, out, err = profile(capsys, "diff", sides[0], str(other))
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema_version": 1}', b"\xff\xfe\x00"])
def test_a_corrupted_run_is_one_line(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_bytes(content)
    code, out, err = profile(capsys, "diff", sides[0], str(tmp_path / "bad"))
    assert (code, out) == (2, "")
    assert str(tmp_path / "bad") in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fail-on", "regresion"), "regression"),
        (("--format", "markdwn"), "markdown"),
        (("--threshold", "lots"), "not a share"),
        (("--moved-tolerance", "-1%"), "not a share"),
        (("--drop-reason", "norm"), "CLASS=TEXT"),
        (("--drop-reason", "nrom=x"), "norm"),
        (("-o", "/nonexistent/out.txt"), "Cannot write"),
    ],
)
def test_a_mistake_is_one_line_with_a_way_out(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], words: str,
) -> None:  # fmt: skip
    code, _, err = profile(capsys, "diff", *sides, *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_an_empty_folder_is_no_side(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = profile(capsys, "diff", sides[0], str(tmp_path / "empty"))
    assert code == 2
    assert "neither a run directory nor a folder of them" in err
