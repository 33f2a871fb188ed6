"""A timeline beside counters: times from one, bytes from the other."""

from __future__ import annotations

from rooflens.harness.merging import merge_kernels, merge_machines
from rooflens.model import Capture, KernelRow, Machine, known
from rooflens.reading import Reading
from tests import builders


def timed(name: str, ns: float, count: int = 1, grid: tuple[int, ...] = (8, 1, 1)) -> KernelRow:
    return builders.kernel(name, grid=grid, count=count, duration_ns=known(ns, "ns", "timeline"))


def counted(name: str, size: float, count: int = 1, grid: tuple[int, ...] = (8, 1, 1)) -> KernelRow:
    return builders.kernel(
        name,
        grid=grid,
        count=count,
        duration_ns=known(9999, "ns", "counters"),
        dram_bytes=known(size, "byte", "counters"),
    )


def test_times_of_the_timeline_and_bytes_of_the_counters() -> None:
    """Tools print one kernel at different lengths; name without arguments and grid must agree."""
    rows, checks = merge_kernels(
        [timed("void ns::gemm<(int)64>(float *)", 100)], [counted("ns::gemm<64>(float*)", 5000)]
    )
    (row,) = rows
    assert row.duration_ns == known(100, "ns", "timeline")
    assert row.dram_bytes.value == 5000
    assert row.paths["duration_ns"] == "timeline"
    assert checks[0].outcome == "passed"


def test_other_grids_are_other_kernels() -> None:
    rows, checks = merge_kernels([timed("k", 100)], [counted("k", 5, grid=(9, 1, 1))])
    assert [row.dram_bytes.value for row in rows] == [None, 5]
    assert checks[0].outcome == "warning"
    assert "1 row of counters found no time" in checks[0].message


def test_another_number_of_launches_is_said() -> None:
    rows, checks = merge_kernels([timed("k", 100, count=56)], [counted("k", 5, count=4)])
    assert (rows[0].count, rows[0].dram_bytes.value) == (56, 5)
    assert "1 of them with another number of launches" in checks[0].message


def test_one_side_alone_is_left_as_it_is() -> None:
    assert merge_kernels([timed("k", 1)], []) == ((timed("k", 1),), ())
    assert merge_kernels([], [counted("k", 1)]) == ((counted("k", 1),), ())


def reading(gpu: str, **machine: str) -> Reading:
    return Reading(
        format="ncu-csv",
        evidence="counters",
        capture=Capture(file="a", format="ncu-csv", tool="ncu", rows=0),
        machine=Machine(device="imported", gpu=gpu, **machine),  # type: ignore[arg-type]
    )


def test_machines_complete_each_other_and_differences_are_said() -> None:
    machine, checks = merge_machines([reading("", gpu_chip="gh100"), reading("NVIDIA H100 PCIe")])
    assert (machine.gpu, machine.gpu_chip, checks) == ("NVIDIA H100 PCIe", "gh100", ())
    _, checks = merge_machines([reading("NVIDIA H100 PCIe"), reading("Tesla T4")])
    assert checks[0].message.endswith("different GPUs: NVIDIA H100 PCIe, Tesla T4.")
