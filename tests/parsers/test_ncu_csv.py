"""Quirks of ncu's CSV, each with the smallest file that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.parsers import ncu_csv
from rooflens.parsers.ncu_csv.columns import dimensions, nvtx_path
from rooflens.reading import Reading

WIDE = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'  # noqa: E501
IDS = '"{}","7","app","host","{}","1","7","(32, 4, 1)","(8, 1, 1)","0","9.0"'
LONG = WIDE + ',"Section Name","Metric Name","Metric Unit","Metric Value"'


def wide(metrics: dict[str, tuple[str, str]], name: str = "k(int)") -> str:
    """A wide table of one launch from {metric: (unit, value)}."""
    heads = ",".join(f'"{metric}"' for metric in metrics)
    units = ",".join(f'"{unit}"' for unit, _ in metrics.values())
    values = ",".join(f'"{value}"' for _, value in metrics.values())
    empty = ",".join(['""'] * 11)
    return f"{WIDE},{heads}\n{empty},{units}\n{IDS.format(0, name)},{values}\n"


def long(rows: list[tuple[str, str, str]], name: str = "k(int)", launch: int = 0) -> str:
    """A long table of one launch from (metric, unit, value) rows."""
    lines = [f'{IDS.format(launch, name)},"S","{m}","{u}","{v}"' for m, u, v in rows]
    return "\n".join([LONG, *lines]) + "\n"


def read(tmp_path: Path, text: str, encoding: str = "utf-8") -> Reading:
    path = tmp_path / "ncu.csv"
    path.write_text(text, encoding)
    return ncu_csv.read(path)


TIME = {"gpu__time_duration.sum": ("ns", "1000")}


@pytest.mark.parametrize(
    ("unit", "value", "ns"),
    [("nsecond", "1389856", 1_389_856), ("msecond", "1.389856", 1_389_856), ("us", "6.75", 6_750),
     ("usecond", "6.75", 6_750), ("ms", "2", 2e6), ("second", "1", 1e9), ("s", "1", 1e9),
     ("ns", "1,234,567", 1_234_567)],
)  # fmt: skip
def test_times_in_every_unit(tmp_path: Path, unit: str, value: str, ns: float) -> None:
    (launch,) = read(tmp_path, wide({"gpu__time_duration.sum": (unit, value)})).launches
    assert launch.duration_ns.value == ns


@pytest.mark.parametrize(
    ("unit", "value", "size"),
    [("byte", "12657792", 12_657_792), ("Kbyte", "1.5", 1_500), ("Mbyte", "12.657792", 12_657_792),
     ("Gbyte", "2", 2e9), ("byte", "27,595,520", 27_595_520)],
)  # fmt: skip
def test_bytes_are_decimal_and_ungrouped(
    tmp_path: Path, unit: str, value: str, size: float
) -> None:
    (launch,) = read(tmp_path, wide({**TIME, "dram__bytes.sum": (unit, value)})).launches
    assert launch.dram_bytes.value == size


@pytest.mark.parametrize("unit", ["Gbyte/s", "Gbyte/second", "byte/nsecond"])
def test_rates_in_both_spellings(tmp_path: Path, unit: str) -> None:
    metrics = {**TIME, "dram__bytes.sum.per_second": (unit, "3")}
    (launch,) = read(tmp_path, wide(metrics)).launches
    assert launch.dram_bytes.value == 3000


def test_unknown_unit_of_a_needed_metric_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='Unknown unit "furlong"'):
        read(tmp_path, wide({"gpu__time_duration.sum": ("furlong", "1")}))


def test_a_time_printed_in_bytes_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which is no ns"):
        read(tmp_path, wide({"gpu__time_duration.sum": ("byte", "1")}))


@pytest.mark.parametrize("word", ["n/a", "nan", "-nan", "inf", "no data", "", "No-CC"])
def test_words_are_absences_and_never_zero(tmp_path: Path, word: str) -> None:
    (launch,) = read(tmp_path, wide({**TIME, "dram__bytes.sum": ("byte", word)})).launches
    assert launch.dram_bytes.value is None
    assert "dram__bytes.sum" in (launch.dram_bytes.absent or "")


def test_german_numbers_are_recognised_for_the_whole_file(tmp_path: Path) -> None:
    text = long([
        ("dram__bytes.sum", "byte", "27.595.520"),
        ("gpu__time_duration.sum", "ns", "117.344"),
        ("lts__t_sector_hit_rate.pct", "%", "65,77"),
    ])  # fmt: skip
    (launch,) = read(tmp_path, text).launches
    assert launch.dram_bytes.value == 27_595_520
    assert launch.duration_ns.value == 117_344
    assert launch.metrics["l2_hit_percent"].value == 65.77


def test_two_ways_of_writing_numbers_in_one_file_are_refused(tmp_path: Path) -> None:
    text = long([("dram__bytes.sum", "byte", "27.595.520"), ("x__y.pct", "%", "65.77")])
    with pytest.raises(InputError, match="written in two ways"):
        read(tmp_path, text)


def test_noise_banner_and_application_output_around_the_rows(tmp_path: Path) -> None:
    head, units, row = wide({**TIME}).splitlines()
    text = "\n".join([
        "", "==========", "== CUDA ==", "licence, with, commas", '==PROF== Connected to process 1',
        head, units, "step 1: loss, 3.2", row, "==PROF== Disconnected from process 1", "bye, bye",
    ])  # fmt: skip
    (launch,) = read(tmp_path, text).launches
    assert launch.duration_ns.value == 1000


def test_rule_rows_and_raw_newlines_in_fields(tmp_path: Path) -> None:
    head = f'{LONG},"Rule Name","Rule Type","Rule Description"'
    ids = IDS.format(0, "k(int)")
    text = "\n".join([
        head,
        f'{ids},"GPU Speed Of Light","Duration","ns","1,000",',
        f'{ids},"SpeedOfLight","","","","Rule","ERR","Traceback:\n  ""File"", line 1\n  boom"',
        f'{ids},"Memory","Memory Throughput","%","61.84",',
        f'{ids},"Memory","Memory Throughput","byte/s","2,000,000,000.00",',
    ])  # fmt: skip
    (launch,) = read(tmp_path, text).launches
    assert launch.duration_ns.value == 1000
    assert launch.dram_bytes.value == 2000


def test_a_name_beats_a_label(tmp_path: Path) -> None:
    rows = [("Duration", "us", "1.39"), ("gpu__time_duration.sum", "ns", "1389856")]
    (launch,) = read(tmp_path, long(rows)).launches
    assert launch.duration_ns.value == 1_389_856


def test_only_sum_is_taken_of_expanded_metrics(tmp_path: Path) -> None:
    rows = [(f"dram__bytes.{kind}", "byte", value) for kind, value in
            (("avg", "10"), ("max", "20"), ("min", "5"), ("sum", "160"))]  # fmt: skip
    (launch,) = read(tmp_path, long(rows)).launches
    assert launch.dram_bytes.value == 160


def test_two_captures_in_one_file(tmp_path: Path) -> None:
    launches = read(tmp_path, wide(TIME) + "==PROF== again\n" + long(
        [("gpu__time_duration.sum", "us", "2.00")])).launches  # fmt: skip
    assert [x.duration_ns.value for x in launches] == [1000, 2000]
    assert [x.index for x in launches] == [0, 1]


def test_rows_of_one_launch_in_two_places_are_refused(tmp_path: Path) -> None:
    rows = long([("gpu__time_duration.sum", "ns", "1")]).splitlines()
    other = long([("gpu__time_duration.sum", "ns", "2")], launch=1).splitlines()[1:]
    with pytest.raises(InputError, match="in two places"):
        read(tmp_path, "\n".join([*rows, *other, rows[1]]))


def test_a_cut_row_is_left_out_and_said(tmp_path: Path) -> None:
    text = wide(TIME)
    reading = read(tmp_path, text + IDS.format(1, "k(int)")[:-12])
    assert len(reading.launches) == 1
    assert any(check.id == "ncu-csv-cut" for check in reading.checks)


def test_a_row_with_too_many_cells_is_left_out_and_said(tmp_path: Path) -> None:
    """An unquoted comma shifts every value after it: no value of the row can be trusted."""
    shifted = IDS.format(1, "k(int)").replace('"k(int)"', '"k(int","float)"') + ',"99999"'
    reading = read(tmp_path, wide(TIME) + shifted + "\n")
    assert [x.duration_ns.value for x in reading.launches] == [1000]
    assert any(check.id == "ncu-csv-cut" for check in reading.checks)


def test_an_odd_unit_of_a_mere_figure_does_not_end_the_import(tmp_path: Path) -> None:
    metrics = {**TIME, "launch__registers_per_thread": ("regs", "32")}
    (launch,) = read(tmp_path, wide(metrics)).launches
    assert launch.duration_ns.value == 1000
    assert "registers_per_thread" not in launch.metrics


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LONG + "\n", "no kernel"),
        ("==WARNING== No kernels were profiled.\n", "no kernels were profiled"),
        ("==ERROR== Option '--section .*X.*' did not match any section.\n", "sections asked for"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "ERR_NVGPUCTRPERM"),
        ("==ERROR== Failed to open /home/me/secret/x.rep\n", "ncu said: Failed to open x.rep"),
        (wide(TIME).replace('"","",', '"9","",', 1), "no units row"),
    ],
)
def test_without_numbers_there_is_a_statement(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in caught.value.message
    assert "/home/me" not in caught.value.message


def test_powershell_writes_utf_16(tmp_path: Path) -> None:
    (launch,) = read(tmp_path, wide(TIME), "utf-16").launches
    assert launch.duration_ns.value == 1000


def test_hostile_kernel_name_survives_as_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>, ='cmd'|x!A0 {{ 7*7 }} ../../etc/passwd"
    (launch,) = read(tmp_path, wide(TIME, name)).launches
    assert launch.name == name


def test_renamed_kernels_lose_their_range(tmp_path: Path) -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    cell = '1  ""rooflens:step:none:none:none:none:none:none""  ""rooflens:op:17:none:none:none:none:none:none"" '  # noqa: E501
    head, units, row = wide(TIME, "op:17/gemm(int)").splitlines()
    text = "\n".join([f'{head},"{column}"', f'{units},""', f'{row},"{cell}"'])
    (launch,) = read(tmp_path, text).launches
    assert launch.nvtx == ("step", "op:17")
    assert launch.name == "gemm(int)"


@pytest.mark.parametrize(
    ("cell", "path"),
    [
        ('1  "<default domain>:a:none:none:none:none:none:none" ', ("a",)),
        ('1  "<default domain>:run:none:none:RGB:0xff00ff00:ASCII:run"  '
         '"<default domain>:init:none:none:RGB:0xff:ASCII:init" ', ("run", "init")),
        ('1  "rooflens:op 3 aten.mm:none:none:none:none:none:none"  "NCCL:x:none:none:none:none:'
         'none:none"  "NCCL:y:none:none:none:none:none:none"', ("op 3 aten.mm",)),
        ('1  "d:std::vector:none:none:none:none:none:none"', ("std::vector",)),
        ("", ()),
        ("garbage", ()),
    ],
)  # fmt: skip
def test_nvtx_cells(cell: str, path: tuple[str, ...]) -> None:
    assert nvtx_path(cell) == path


@pytest.mark.parametrize(
    ("text", "sides"),
    [("(32, 4, 1)", (32, 4, 1)), ("(1024, 1, 1)", (1024, 1, 1)), ("(0, 0, 0)", ()), ("", ()),
     ("(a, b)", ())],
)  # fmt: skip
def test_dimensions(text: str, sides: tuple[int, ...]) -> None:
    assert dimensions(text) == sides
