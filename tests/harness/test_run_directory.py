"""Where runs go and what a command prints about one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflens.errors import UsageError
from rooflens.harness.run_directory import (
    default_directory,
    directory_stem,
    refuse_unwritable,
    render_run,
    write_run,
)
from rooflens.model import Workload
from rooflens.runfile import read_run
from tests import builders


@pytest.mark.parametrize(
    ("workload", "stem"),
    [
        (Workload(name="decode", batch=1, context=2047, query_tokens=1, attention="sdpa",
                  device="cpu"), "decode-b1-c2047-sdpa-cpu"),
        (Workload(name="prefill", batch=1, context=0, prompt=2048, query_tokens=2048,
                  attention="eager", device="meta"), "prefill-b1-p2048-eager-meta"),
        (Workload(name="verify", batch=2, context=9, query_tokens=4), "verify-b2-c9-q4"),
        (Workload(name=""), "import"),
        (Workload(name="../../etc/x y"), ".._.._etc_x_y"),
    ],
)  # fmt: skip
def test_directories_are_named_by_what_was_run(workload: Workload, stem: str) -> None:
    assert directory_stem(builders.run(workload=workload)) == stem


def test_the_first_free_number_is_taken(tmp_path: Path) -> None:
    run = builders.run(workload=Workload(name="decode", batch=1))
    assert default_directory(run, tmp_path).name == "decode-b1-1"
    (tmp_path / "decode-b1-1").mkdir()
    assert default_directory(run, tmp_path).name == "decode-b1-2"


def test_captures_are_copied_beside_the_run(tmp_path: Path) -> None:
    raw = tmp_path / "step.nsys-rep"
    raw.write_bytes(b"raw bytes")
    write_run(builders.run(), tmp_path / "out", captures=[raw])
    assert (tmp_path / "out/captures/step.nsys-rep").read_bytes() == b"raw bytes"
    assert read_run(tmp_path / "out") == builders.run()


def test_a_missing_capture_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_run(builders.run(), tmp_path / "out", captures=[tmp_path / "gone"])
    assert list(tmp_path.iterdir()) == []


def test_json_leaves_out_the_long_lists(tmp_path: Path) -> None:
    made = json.loads(render_run(builders.run(), "json", Path("somewhere")))
    assert made["directory"] == "somewhere"
    assert made["schema_version"] == 1
    assert "ops" not in made and "kernels" not in made


def test_text_ends_with_one_newline() -> None:
    text = render_run(builders.run(), "text", Path("somewhere"))
    assert text.endswith("\n") and not text.endswith("\n\n")


def test_a_place_below_a_file_cannot_hold_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no directory"):
        refuse_unwritable(tmp_path / "file" / "x")
    refuse_unwritable(tmp_path / "new" / "folder" / "x")
