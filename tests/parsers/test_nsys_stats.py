"""Tables of nsys stats: units, quoting, several tables in one file, console text."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.parsers import nsys_stats

KERNELS = "Time (%),Total Time ({unit}),Instances,Avg ({unit}),Name\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "stats.csv"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_units_come_from_the_header(tmp_path: Path, unit: str, factor: float) -> None:
    text = KERNELS.format(unit=unit) + '100.0,"3,000",2,1500,gemm\n'
    (row,) = nsys_stats.read(write(tmp_path, text)).kernels
    assert (row.count, row.duration_ns.value) == (2, 1500 * factor)


def test_a_report_script_that_ran_by_itself_names_units_differently(tmp_path: Path) -> None:
    text = "Total Time:dur_ns,Instances,Name\n3000,2,gemm\n"
    (row,) = nsys_stats.read(write(tmp_path, text)).kernels
    assert row.duration_ns.value == 1500


def test_names_hold_commas_and_the_words_around_a_table_are_skipped(tmp_path: Path) -> None:
    text = (
        "Generating SQLite file a.sqlite from a.nsys-rep\n"
        "Processing [/home/alice/a.sqlite] with [/opt/cuda_gpu_kern_sum.py]...\n"
        + KERNELS.format(unit="ns")
        + '60.0,30,1,30,"void f<1, 2>(int, float)"\n40.0,20,1,20,g\n\n'
        "SKIPPED: /home/alice/a.sqlite does not contain NV Tools Extension (NVTX) data.\n"
    )
    reading = nsys_stats.read(write(tmp_path, text))
    assert [row.name for row in reading.kernels] == ["void f<1, 2>(int, float)", "g"]
    assert "alice" not in repr(reading)
    assert reading.checks[0].outcome == "warning" and "NVTX" in reading.checks[0].message


def test_copies_and_api_calls_are_no_kernels(tmp_path: Path) -> None:
    text = (
        "Time (%),Total Time (ns),Instances,Category,Operation\n"
        "50.0,30,1,CUDA_KERNEL,gemm\n50.0,30,1,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
    )
    assert [row.name for row in nsys_stats.read(write(tmp_path, text)).kernels] == ["gemm"]


def test_a_trace_table_is_a_timeline(tmp_path: Path) -> None:
    text = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Device,Ctx,Strm,Name\n"
        "100,50,1,4,1,1,128,1,1,NVIDIA H100 (0),1,7,gemm\n"
        "120,50,2,4,1,1,128,1,1,NVIDIA H100 (0),1,8,gemm\n"
        "300,10,3,,,,,,,NVIDIA H100 (0),1,7,[CUDA memcpy Device-to-Host]\n"
    )
    reading = nsys_stats.read(write(tmp_path, text))
    assert [(r.grid, r.count, r.duration_ns.value) for r in reading.kernels] == [
        ((4, 1, 1), 2, 50.0)
    ]
    assert reading.timeline is not None
    assert any("busy 0.000 ms of 0.000 ms (38.1%)" in fact for fact in reading.timeline.facts)


def test_ranges_on_the_host_and_on_the_device(tmp_path: Path) -> None:
    text = (
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Total GPU Ops\n"
        ":decode,PushPop,300,500,2,10\n"
    )
    reading = nsys_stats.read(write(tmp_path, text))
    assert reading.timeline is not None
    (found,) = reading.timeline.ranges
    assert (found.path, found.count) == (("decode",), 2)
    assert (found.host_ns.value, found.device_ns.value) == (250, 150)


def test_sums_that_count_kernels_more_than_once_are_refused(tmp_path: Path) -> None:
    text = "NVTX Range,Style,NVTX Inst,Kern Inst,Total Time (ns),Kernel Name\nA,PushPop,1,2,30,k\n"
    with pytest.raises(InputError, match="repeats a kernel in every range"):
        nsys_stats.read(write(tmp_path, text))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "SKIPPED: a.sqlite does not contain CUDA.\n"])
def test_a_file_without_a_table_says_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        nsys_stats.read(write(tmp_path, text))
    assert caught.value.hint and "\n" not in str(caught.value)


def test_console_text_is_cut_at_the_columns(tmp_path: Path) -> None:
    text = (
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Name            \n"
        " --------  ---------------  ---------  ----------------\n"
        "     75.0              300          2  void f<a, b>(int)\n"
        "     25.0              100          1  g\n\n"
        "     99.0              999          9  not a row\n"
    )
    rows = nsys_stats.read(write(tmp_path, text)).kernels
    assert [(r.name, r.count, r.duration_ns.value) for r in rows] == [
        ("void f<a, b>(int)", 2, 150.0),
        ("g", 1, 100.0),
    ]


def test_a_file_that_ends_inside_a_line_loses_that_line_and_says_so(tmp_path: Path) -> None:
    text = KERNELS.format(unit="ns") + "60.0,30,1,30,gemm\n40.0,20,1,20,flash_fwd_sp"
    reading = nsys_stats.read(write(tmp_path, text))
    assert [row.name for row in reading.kernels] == ["gemm"]
    (check,) = [check for check in reading.checks if check.id == "timeline-cut"]
    assert check.outcome == "warning"
    assert "ends inside a line" in check.message and "60.0 %" in check.message


def test_lost_rows_show_in_the_shares_and_rounding_does_not(tmp_path: Path) -> None:
    def checks(rows: str) -> list[str]:
        reading = nsys_stats.read(write(tmp_path, KERNELS.format(unit="ns") + rows))
        return [check.id for check in reading.checks]

    assert checks("60.0,30,1,30,gemm\n20.0,10,1,10,copy\n") == ["timeline-cut"]
    assert checks("33.3,10,1,10,a\n33.3,10,1,10,b\n33.3,10,1,10,c\n") == []


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_a_number_that_is_none_is_no_number(tmp_path: Path, value: str) -> None:
    text = KERNELS.format(unit="ns") + f"50.0,30,{value},30,gemm\n50.0,{value},1,30,copy\n"
    with pytest.raises(InputError):
        nsys_stats.read(write(tmp_path, text))
