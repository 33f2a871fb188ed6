"""`profile import` and `profile metrics` as commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rooflens.harness.cli import cli
from tests.ncu_files import BYTES, NORM, TIME, ncu_csv


def test_import_writes_a_run_directory_and_says_what_it_found(tmp_path: Path) -> None:
    path = ncu_csv(tmp_path, "a.csv", TIME | BYTES, (NORM,))
    result = CliRunner().invoke(cli, ["import", str(path), "-o", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "a.csv: Nsight Compute CSV, 1 kernel launch." in result.output
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["kernels"][0]["class"] == "norm"
    assert str(tmp_path) not in (tmp_path / "run" / "run.json").read_text()


def test_import_json_goes_to_standard_output_alone(tmp_path: Path) -> None:
    path = ncu_csv(tmp_path, "a.csv", TIME | BYTES, (NORM,))
    result = CliRunner().invoke(cli, ["import", str(path), "-o", str(tmp_path / "run"), "--json"])
    assert json.loads(result.stdout)["totals"]["moved_bytes"]["value"] == 5000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b\n", "CSV of something else"),
        ("==ERROR== The application returned an error code (1).\n", "the application failed"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", "import", str(path), "-o", str(tmp_path / "run")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_existing_output_needs_force(tmp_path: Path) -> None:
    path = ncu_csv(tmp_path, "a.csv", TIME | BYTES, (NORM,))
    arguments = ["import", str(path), "-o", str(tmp_path / "run")]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert CliRunner().invoke(cli, arguments).exit_code != 0
    assert CliRunner().invoke(cli, [*arguments, "--force"]).exit_code == 0


def test_metrics_prints_names_passes_and_the_command() -> None:
    result = CliRunner().invoke(cli, ["metrics", "--gpu", "h200", "--dtype", "bf16"])
    assert result.exit_code == 0, result.output
    assert "2 replay passes (predicted" in result.output
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in result.output
    assert "  ncu --target-processes all" in result.output


def test_metrics_as_json_and_for_a_chip() -> None:
    result = CliRunner().invoke(cli, ["metrics", "--gpu", "gb202", "--set", "minimal", "--json"])
    made = json.loads(result.stdout)
    assert (made["chip"], made["passes"]) == ("gb202", 1)
    assert "dram__bytes_op_read.sum" in {metric["name"] for metric in made["metrics"]}
    assert made["command"][0] == "ncu"


@pytest.mark.parametrize(
    "arguments",
    [["--gpu", "nonsense"], ["--gpu", "h200", "--dtype", "int3"], ["--gpu", "mi300x"],
     ["--gpu", "h200", "--add", "nope__nope.sum"]],
)  # fmt: skip
def test_metrics_refuses_what_it_does_not_know(arguments: list[str]) -> None:
    assert CliRunner().invoke(cli, ["metrics", *arguments]).exit_code != 0


def test_neither_torch_nor_pandas_is_imported() -> None:
    code = (
        "import sys; import rooflens.harness.importing, rooflens.parsers.ncu_csv, "
        "rooflens.parsers.ncu_report, rooflens.harness.commands.import_, "
        "rooflens.harness.commands.metrics; "
        "print([m for m in ('torch', 'transformers', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
