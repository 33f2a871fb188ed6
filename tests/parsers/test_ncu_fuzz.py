"""Damaged captures: an error or a warning with words in it, never a crash, a hang or silence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.model import KernelRow, Launch
from rooflens.parsers import ncu_csv, ncu_report
from rooflens.reading import Reading

SEEDS = 20
PER_SEED = 100
"""2,000 mutated files in all."""

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'  # noqa: E501
NAMES = ("void k<(int)64, float>(const float *, int)", "gemm_kernel", "a,b(c)", '""quoted""')


def wide_text() -> str:
    """A small wide table with noise."""
    rows = [
        "==PROF== Connected to process 1 (/usr/bin/python3)",
        f'{HEAD},"gpu__time_duration.sum","dram__bytes.sum","lts__t_sectors.sum"',
        ",".join(['""'] * 11) + ',"ns","byte","sector"',
    ]
    rows += [
        f'"{i}","1","p","h","{name}","1","7","(32, 1, 1)","({i + 1}, 1, 1)","0","9.0",'
        f'"{1000 + i}","{2048 * i:,}","64"'
        for i, name in enumerate(NAMES)
    ]
    return "\n".join([*rows, "==PROF== Disconnected from process 1", ""])


def long_text() -> str:
    """A small long table with a rule row that holds a newline."""
    rows = [f'{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"']
    for i, name in enumerate(NAMES):
        ids = f'"{i}","1","p","h","{name}","1","7","(32, 1, 1)","({i + 1}, 1, 1)","0","9.0"'
        rows += [
            f'{ids},"S","gpu__time_duration.sum","usecond","1.25",',
            f'{ids},"S","Memory Throughput","Gbyte/s","{i + 1}.50",',
            f'{ids},"S","","","","ERR line\nsecond line"',
        ]
    return "\n".join([*rows, ""])


def mutated(text: str, chance: random.Random) -> str:
    """One to four damages of the kinds that happen to files."""
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(text) or 1)
        kind = chance.randrange(8)
        if kind == 0:
            text = text[:place]
        elif kind == 1:
            text = text[:place] + text[place + chance.randint(1, 40) :]
        elif kind == 2:
            text = text[:place] + chance.choice('",\n\0;\t\\é(') + text[place:]
        elif kind == 3:
            line = chance.choice(text.splitlines() or [""])
            text = text[:place] + "\n" + line + "\n" + text[place:]
        elif kind == 4:
            text = text.replace(chance.choice(["ns", "byte", "usecond", '"', ","]), "", 1)
        elif kind == 5:
            lines = text.splitlines()
            chance.shuffle(lines)
            text = "\n".join(lines)
        elif kind == 6:
            text = (
                text[:place] + chance.choice(["nan", "n/a", "1.2.3", "9" * 400, "-"]) + text[place:]
            )
        else:
            text = text[place:] + text[:place]
    return text


def says_something(reading: Reading) -> None:
    """A reading holds kernels, and each quantity is a number or has a reason."""
    rows: list[Launch | KernelRow] = [*reading.launches, *reading.kernels]
    assert rows or reading.capture.regime
    for row in rows:
        for quantity in (row.duration_ns, row.dram_bytes, row.l2_bytes, row.flops):
            assert quantity.value is not None or quantity.absent


@pytest.mark.parametrize("seed", range(SEEDS))
def test_mutated_csv(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "m.csv"
    for number in range(PER_SEED):
        text = mutated(wide_text() if number % 2 else long_text(), chance)
        path.write_bytes(text.encode("utf-8", "replace"))
        try:
            says_something(ncu_csv.read(path))
        except InputError as error:
            assert error.message
            assert str(path) in error.message


def test_random_bytes_are_no_table(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "random.csv"
    for _ in range(50):
        path.write_bytes(chance.randbytes(chance.randint(1, 5000)))
        with pytest.raises(InputError):
            ncu_csv.read(path)


@pytest.mark.conformance
def test_truncated_reports(nsight: Path, tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    data = (nsight / "ncu-rep" / "divergence-GTX1660Ti-2022.4.0.ncu-rep").read_bytes()
    whole = len(ncu_report.read(_written(tmp_path, data)).launches)
    chance = random.Random(11)
    for _ in range(60):
        cut = data[: chance.randrange(len(data))]
        try:
            reading = ncu_report.read(_written(tmp_path, cut))
        except InputError as error:
            assert error.message
            continue
        says_something(reading)
        assert len(reading.launches) == whole or any(
            check.id == "ncu-report-cut" for check in reading.checks
        )


@pytest.mark.conformance
def test_damaged_block_headers_of_reports(nsight: Path, tmp_path: Path) -> None:
    """Our own reading of the container meets any bytes; the payloads are NVIDIA's to read."""
    from rooflens.parsers.ncu_container import read_container

    data = bytearray((nsight / "ncu-rep" / "daxpy-nvtx-RTX3070-2022.3.0.ncu-rep").read_bytes())
    chance = random.Random(3)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            read_container(_written(tmp_path, bytes(damaged)))
        except InputError as error:
            assert error.message


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "x.ncu-rep"
    path.write_bytes(data)
    return path
