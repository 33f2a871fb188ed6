"""Damaged, cut and hostile files: bounded memory, and one clear line or a reading."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rooflens.errors import RooflensError
from rooflens.parsers import nsys_sqlite, nsys_stats, torch_trace
from rooflens.reading import Reading
from tests.captures import ExportFile, call_event, kernel_event, trace_event, write_trace

MEMORY_BYTES = 1536 * 1024 * 1024
CHILD = """
import resource, sys
from pathlib import Path
import numpy  # maps its libraries before the limit
from rooflens.errors import InputError
from rooflens.parsers import nsys_sqlite, nsys_stats, torch_trace
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
reader = {"nsys": nsys_sqlite, "torch": torch_trace, "stats": nsys_stats}[sys.argv[1]]
try:
    reader.read(Path(sys.argv[2]))
except InputError as error:
    print(error)
"""


def survives(read: Callable[[Path], Reading], path: Path) -> None:
    """Either a reading or an error of ours, in one line."""
    try:
        read(path)
    except RooflensError as error:
        assert "\n" not in str(error)
        assert error.message


def export(folder: Path) -> Path:
    made = ExportFile()
    made.domain(3, "rooflens")
    for i in range(40):
        made.range(1000 * i, 1000 * i + 900, "step", domain=3)
        made.range(1000 * i + 5, 1000 * i + 500, f"layer {i}", domain=3)
        made.launch(1000 * i + 10, 1000 * i + 50, 1000 * i + 90, f"kernel_{i % 5}")
    return made.write(folder / "good.sqlite")


def trace(folder: Path) -> Path:
    events = [
        event
        for i in range(60)
        for event in (
            trace_event("user_annotation", f"ProfilerStep#{i}", 100 * i, 90),
            call_event(100 * i + 5, i),
            kernel_event("gemm", 100 * i + 10, 20, i),
        )
    ]
    return write_trace(folder / "good.json", events)


@pytest.mark.parametrize("seed", range(60))
def test_mutated_exports(tmp_path: Path, seed: int) -> None:
    data = bytearray(export(tmp_path).read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.choice([1, 4, 40, 400])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "bad.sqlite"
    path.write_bytes(data)
    survives(nsys_sqlite.read, path)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_exports(tmp_path: Path, share: float) -> None:
    data = export(tmp_path).read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(data[: int(len(data) * share)])
    survives(nsys_sqlite.read, path)


@pytest.mark.parametrize("value", ["'text'", "x'00ff'", "1e308", "-9223372036854775808", "NULL"])
@pytest.mark.parametrize("column", ["start", '"end"', "correlationId", "demangledName", "gridX"])
def test_values_of_the_wrong_kind(tmp_path: Path, column: str, value: str) -> None:
    import sqlite3

    path = export(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = {value} WHERE rowid % 3 = 0"
        )
    connection.close()
    survives(nsys_sqlite.read, path)


@pytest.mark.parametrize("seed", range(60))
def test_mutated_traces(tmp_path: Path, seed: int) -> None:
    data = bytearray(trace(tmp_path).read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.choice([1, 4, 40])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    survives(torch_trace.read, path)


@pytest.mark.parametrize("seed", range(20))
def test_fields_of_the_wrong_kind(tmp_path: Path, seed: int) -> None:
    content = json.loads(trace(tmp_path).read_text("utf-8"))
    chance = random.Random(seed)
    odd: list[Any] = [None, True, -1, 1e400, "x", [], {}, [[1]], 2**70, "\ud800", float("nan")]
    for event in chance.sample(content["traceEvents"], 30):
        event[chance.choice(["ph", "cat", "name", "ts", "dur", "pid", "tid", "args"])] = (
            chance.choice(odd)
        )
    content["deviceProperties"] = chance.choice(odd)
    content["distributedInfo"] = chance.choice(odd)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(content), "utf-8")
    survives(torch_trace.read, path)


def child(reader: str, path: Path) -> str:
    """Read in a process that may not use more than MEMORY_BYTES."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, reader, str(path), str(MEMORY_BYTES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-400:]
    assert done.stdout.count("\n") <= 1
    return done.stdout


@pytest.mark.parametrize("reader", ["nsys", "torch", "stats"])
def test_a_sparse_file_of_2_gib_is_refused_in_bounded_memory(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "sparse"
    head = {"nsys": b"SQLite format 3\0", "torch": b'{"traceEvents": [', "stats": b"Time (%),"}
    with path.open("wb") as file:
        file.write(head[reader])
        file.truncate(2 * 1024**3)
    assert child(reader, path).strip()


def test_a_zip_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    block = b" " * (1 << 20)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(400):
            file.write(block)
    said = child("torch", path)
    assert "far more than a trace of its size holds" in said


def test_hostile_names_are_cut_and_never_interpreted(tmp_path: Path) -> None:
    made = ExportFile()
    evil = "<script>alert(1)</script>'; DROP TABLE StringIds; --" + "A" * 100_000
    made.range(0, 100, evil)
    made.launch(10, 20, 30, evil)
    reading = nsys_sqlite.read(made.write(tmp_path / "evil.sqlite"))
    assert len(reading.kernels) == 1
    assert len(reading.kernels[0].name) == 8192
    assert reading.kernels[0].name.startswith("<script>")


def test_stats_tables_that_are_cut_or_mixed_up(tmp_path: Path) -> None:
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n"
    for body in ('50.0,"1,234",2,617,"k<a, b>"\n50.0,12', '"unclosed', "a,b,c,d,e\n", "1,2,3,4,\n"):
        path = tmp_path / "t.csv"
        path.write_text(header + body, "utf-8")
        survives(nsys_stats.read, path)
