"""The GPU checks as far as they go without a GPU: the dry run, and assertions that can fail."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click
import pytest

from rooflens.model import Join, OperatorRow, Run, known
from tests import builders
from tests.gpu import assert_captures

CHECK = Path(__file__).with_name("check.sh")


def dry_run() -> list[list[str]]:
    done = subprocess.run([CHECK, "--dry-run"], capture_output=True, text=True, check=True)
    return [shlex.split(line[2:]) for line in done.stdout.splitlines()]


def test_dry_run_prints_every_command_and_makes_nothing() -> None:
    lines = dry_run()
    runs = [line for line in lines if line[3:5] in (["run", "decode"], ["run", "prefill"])]
    assert len(runs) == 16
    assert {line[line.index("--attention") + 1] for line in runs} == {"eager", "sdpa"}
    assert {line[line.index("--layers") + 1] for line in runs} == {"2", "auto"}
    assert lines[-2][1] == "tests/gpu/assert_captures.py"
    assert not (CHECK.parents[2] / "OUT").exists()


def test_every_printed_run_is_a_valid_command_line() -> None:
    from rooflens.harness.commands.run import command

    for line in dry_run():
        if line[3:4] == ["run"]:
            context = command.make_context("run", line[4:], resilient_parsing=False)
            assert isinstance(context, click.Context)
            assert context.params["evidence"] == ("counters",)


def test_usage_without_a_folder() -> None:
    done = subprocess.run([CHECK], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def row(op_class: str, moved: float, minimum: float) -> OperatorRow:
    return builders.operator(
        op_class,
        moved_bytes=known(moved, "byte", "counters"),
        minimum_bytes=known(minimum, "byte", "theory"),
        requested_bytes=known(minimum, "byte", "counted"),
    )


def a_run(moved: float, method: str) -> Run:
    join = Join(method=method, confidence="high")  # type: ignore[arg-type]
    return builders.run(
        operators=(row("q_proj", moved, 100.0),), kernels=(builders.kernel("k", join=join),)
    )


@pytest.mark.parametrize(("moved", "holds"), [(102.0, True), (104.0, False), (96.0, False)])
def test_projection_assertion_can_fail(moved: float, holds: bool) -> None:
    assert [answer for answer, _ in assert_captures.projections(a_run(moved, "op id"))] == [holds]


def test_join_assertion_can_fail() -> None:
    assert next(assert_captures.joined(a_run(100, "op id")))[0]
    assert not next(assert_captures.joined(a_run(100, "none")))[0]


def test_eager_must_move_more_than_sdpa() -> None:
    def attention(moved: float, requested: float) -> Run:
        made = builders.operator(
            "attention",
            moved_bytes=known(moved, "byte", "counters"),
            requested_bytes=known(requested, "byte", "counted"),
        )
        return builders.run(operators=(made,))

    sdpa = attention(1e9, 1e9)
    good, bad = attention(10.5e9, 11e9), attention(2e9, 11e9)
    assert next(assert_captures.eager_moves_more(good, sdpa))[0]
    assert not next(assert_captures.eager_moves_more(bad, sdpa))[0]
