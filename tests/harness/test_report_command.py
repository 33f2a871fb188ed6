"""`profile report`: renders again, in every format, fast and without torch or pandas."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.harness.cli import main
from rooflens.runfile import decode_run, encode_run
from tests.page import sample_runs


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(encode_run(sample_runs.gpu_run()))
    return folder


def profile(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(str(ended.value.code))


def test_html_goes_beside_run_json(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile("report", str(run_directory)) == 0
    page = (run_directory / "report.html").read_text("utf-8")
    assert "This decode step takes 2.50 ms" in page
    wrote = [f"Wrote {run_directory / name}" for name in ("report.html", "summary.md")]
    assert capsys.readouterr().out.splitlines() == wrote
    names = ["report.html", "run.json", "summary.md"]
    assert sorted(p.name for p in run_directory.iterdir()) == names
    assert (run_directory / "summary.md").read_text("utf-8").startswith("### Decode")


def test_a_chosen_file_leaves_the_run_directory_alone(run_directory: Path, tmp_path: Path) -> None:
    assert profile("report", str(run_directory), "-o", str(tmp_path / "page.html")) == 0
    assert [p.name for p in run_directory.iterdir()] == ["run.json"]


def test_the_file_itself_is_a_run_too(run_directory: Path) -> None:
    assert profile("report", str(run_directory / "run.json")) == 0
    assert (run_directory / "report.html").is_file()


def test_other_formats_go_to_standard_output(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile("report", str(run_directory), "--format", "text") == 0
    assert "How sure: high" in capsys.readouterr().out
    assert profile("report", str(run_directory), "--format", "markdown") == 0
    assert capsys.readouterr().out.startswith("### Decode")
    assert profile("report", str(run_directory), "--json") == 0
    out = capsys.readouterr().out
    assert json.loads(out)["schema_version"] == 1
    assert decode_run(out.encode(), "stdout") == sample_runs.gpu_run()
    assert profile("report", str(run_directory), "--format", "csv", "--table", "kernels") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["short_name"] for row in rows][1] == "cutlass gemm 64x64"


def test_output_names_a_file_or_standard_output(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "summary.md"
    assert profile("report", str(run_directory), "--format", "markdown", "-o", str(target)) == 0
    assert target.read_text("utf-8").startswith("### Decode")
    assert capsys.readouterr().out == f"Wrote {target}\n"
    assert profile("report", str(run_directory), "-o", "-") == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    assert not (run_directory / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "No run at nowhere"),
        (["RUN", "--format", "pdf"], 'unknown value "pdf"'),
        (["RUN", "-o", "no/such/folder/x.html"], "Cannot write no/such/folder/x.html"),
        (["RUN", "--baseline", "nowhere"], "No run at nowhere"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    run_directory: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    given = [str(run_directory) if word == "RUN" else word for word in arguments]
    assert profile("report", *given) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_broken_run_is_one_line(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_directory / "run.json").write_bytes(encode_run(sample_runs.gpu_run())[:500])
    assert profile("report", str(run_directory)) == 2
    assert "is not a Rooflens run" in capsys.readouterr().err


def test_rendering_imports_neither_torch_nor_pandas(run_directory: Path) -> None:
    code = (
        "import sys; from rooflens.harness.cli import main\n"
        "try: main(['report', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'transformers', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run_directory)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"
