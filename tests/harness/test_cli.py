"""The command line as a whole: help, start-up cost, suggestions, exit codes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rooflens.harness.cli import COMMANDS, main

HEAVY = ("torch", "transformers", "pandas", "numpy")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lines_are_the_docstrings_first_lines(name: str) -> None:
    module, line = COMMANDS[name]
    loaded = importlib.import_module(f"rooflens.harness.commands.{module}")
    assert loaded.command.help.splitlines()[0] == line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(name: str) -> None:
    loaded = importlib.import_module(f"rooflens.harness.commands.{COMMANDS[name][0]}")
    shown = loaded.command.get_help(click.Context(loaded.command, info_name=name))
    assert f"profile {name}" in shown


def imported(*arguments: str) -> set[str]:
    """Heavy packages that a command line imports, in a fresh interpreter."""
    program = (
        "import sys\n"
        "from rooflens.harness.cli import main\n"
        "try:\n"
        f"    main({list(arguments)!r})\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('\\nIMPORTED', *(m for m in {HEAVY!r} if m in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("list",),
        ("list", "--json"),
        ("theory", "decode"),
        ("run", "--help"),
        *((name, "--help") for name in COMMANDS),
    ],
)
def test_light_commands_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments) == set()


def test_report_imports_nothing_heavy(tmp_path: Path) -> None:
    from rooflens.runfile import encode_run
    from tests import builders

    (tmp_path / "run.json").write_bytes(encode_run(builders.run()))
    assert imported("report", str(tmp_path), "--format", "text") == set()


def ended(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], 'Did you mean "run"'),
        (["run", "decod", "--device", "meta"], 'Did you mean "decode"'),
        (["run", "decode", "--context", "-1"], "--context -1"),
        (["run", "decode", "--gpu", "a100", "--device", "meta"], "A100-80GB-SXM"),
        (["run", "decode", "--modle", "x"], "--model"),
        (["run"], "WORKLOAD"),
    ],
)
def test_usage_mistakes_end_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = ended(arguments, capsys)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_failure() -> None:
    # The pipe is closed before anything is read, as by `profile list | head -0`.
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m rooflens list | true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.harness import catalogue

    def full() -> None:
        raise OSError(28, "No space left on device", "out/run.json")

    monkeypatch.setattr(catalogue, "catalogue", full)
    code, err = ended(["list"], capsys)
    assert (code, err) == (4, "profile: No space left on device: out/run.json.\n")


def test_list_names_everything_that_other_commands_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["list"])
    shown = capsys.readouterr().out
    for name in ("decode", "prefill", "qwen2.5-7b", "H200-SXM", "RTX-4090"):
        assert name in shown
