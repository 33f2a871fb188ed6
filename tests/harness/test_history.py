"""`profile history`: a folder of runs in, a table or a page out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.harness.cli import main
from rooflens.model import known
from rooflens.runfile import encode_run
from tests import builders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day, size in enumerate((10, 10, 30), start=1):
        requested = known(size, "byte", "counted")
        run = builders.run(
            created_at=f"2026-01-{day:02d}T00:00:00Z",
            labels={"commit": f"c{day}", "branch": f"b{day}"},
            operators=(builders.operator("norm", requested_bytes=requested),),
            totals=builders.totals(requested_bytes=requested),
        )
        (tmp_path / "runs" / f"r{day}").mkdir(parents=True)
        (tmp_path / "runs" / f"r{day}" / "run.json").write_bytes(encode_run(run))
    return tmp_path / "runs"


def test_the_change_and_its_operator_stand_in_the_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["history", str(folder)])
    assert not end.value.code
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "worse" in line]
    assert "c3" in line
    assert "+20 B (+200 %) ▲ worse norm" in line


def test_points_are_named_by_any_label(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["history", str(folder), "--label", "branch", "--format", "csv"])
    assert ",b3," in capsys.readouterr().out


def test_a_page_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "h.html"
    with pytest.raises(SystemExit):
        main(["history", str(folder), "--format", "html", "-o", str(target)])
    assert capsys.readouterr().out == f"Wrote {target}\n"
    assert "<svg" in target.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("nowhere",), "No folder of runs"), ((".", "--metric", "byts"), "neither a run directory")],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["history", *arguments])
    assert end.value.code == 2
    assert words in capsys.readouterr().err
