"""Formats are found by content: names and suffixes do not matter."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.harness.importing import READERS
from rooflens.parsers.detect import FORMATS, detect, title

NCU = '"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name"\n'
HEADS: dict[str, bytes] = {
    "ncu-rep": b"NVR\0\x02\0\0\0\x08\x07",
    "ncu-csv": NCU.encode(),
    "ncu-text": b"  k(int) (1, 1, 1)x(1, 1, 1)\n    Section: GPU Speed Of Light\n    ------- -----\n",  # noqa: E501
    "nsys-sqlite": b"SQLite format 3\0" + b"\0" * 90,
    "nsys-rep": b"NVIDIA Tegra Profiler Report 2024@6@2@225v0.",
    "nsys-stats": b"Time (%),Total Time (ns),Instances,Avg (ns)\n",
    "nsys-text": b"Generating SQLite file x.sqlite from x.nsys-rep\n",
    "torch-trace": b'{"schemaVersion": 1, "traceEvents": []}',
}


def written(folder: Path, data: bytes, name: str = "capture.bin") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", HEADS)
def test_content_decides(tmp_path: Path, name: str) -> None:
    assert detect(written(tmp_path, HEADS[name])) == name
    assert detect(written(tmp_path, HEADS[name], "misleading.nsys-rep")) == name


def test_every_format_has_a_reader_and_a_title() -> None:
    assert {found.name for found in FORMATS} == set(READERS) == set(HEADS)
    assert all(title(found.name) for found in FORMATS)


def test_noise_and_banners_before_the_table(tmp_path: Path) -> None:
    text = "\n==========\n== CUDA ==\nlicence, prose\n" + "==PROF== Connected\n" * 20 + NCU
    assert detect(written(tmp_path, text.encode())) == "ncu-csv"


def test_a_table_after_a_megabyte_of_progress_lines(tmp_path: Path) -> None:
    line = '==PROF== Profiling "gemm_kernel" - 17 (18/20000): 0%....50%....100% - 2 passes\n'
    assert detect(written(tmp_path, (line * 15_000 + NCU).encode())) == "ncu-csv"
    assert detect(written(tmp_path, (line * 15_000).encode())) == "ncu-text"


def test_ncu_output_without_a_table_is_still_ncu(tmp_path: Path) -> None:
    assert (
        detect(written(tmp_path, b"==ERROR== The application returned an error code (1)."))
        == "ncu-csv"
    )


def test_gzip_and_utf_16(tmp_path: Path) -> None:
    assert detect(written(tmp_path, gzip.compress(HEADS["torch-trace"]))) == "torch-trace"
    assert detect(written(tmp_path, NCU.encode("utf-16"))) == "ncu-csv"


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "x.csv", "is empty"),
        (b"a,b\n1,2\n", "x.csv", 'its first column is "a"'),
        (b"\x97\x08garbage", "x.ncu-rep", "head of the report is missing"),
        (b"\x1f\x8bnot gzip", "x.gz", "broken gzip"),
        (b"\x00\x01\x02", "x.bin", "none of the files that Rooflens reads"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, data: bytes, name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        detect(written(tmp_path, data, name))
    assert words in caught.value.message
    assert caught.value.hint


def test_directories_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        detect(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        detect(tmp_path / "nothing")


def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe or a device"):
        detect(pipe)
