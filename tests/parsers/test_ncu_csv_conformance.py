"""Every public ncu CSV: its numbers equal those of the report it was printed from, or it ends in
the precise statement of what is missing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.harness.importing import read_file
from rooflens.model import Launch
from rooflens.parsers import ncu_csv, ncu_report
from rooflens.reading import Reading

pytestmark = pytest.mark.conformance
pytest.importorskip("ncu_report")

FA3 = "fa3fwd-full-RTX4060Ti-2025.4.1"
RMS = "rmsnorm-H100PCIe-2025.1.0"
CUTLASS = "cutlass-2gemm-nvtx-A100PCIe-2024.1.1"
NAN = "flashfwd-nan-H800-2023.3.0"

PRINTED_EXACTLY = {
    "gen-raw-base-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-raw-auto-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-raw-fp-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-raw-function-H100-ncu2024.1": RMS,
    "gen-raw-nvtx-A100-ncu2024.1": CUTLASS,
    "gen-raw-nan-H800-ncu2024.1": NAN,
    "gen-raw-105launches-A10-ncu2024.1": "linear-fp16w-A10-2023.2.0",
    "gen-raw-notime-GH200-ncu2024.1": "silu-notime-GH200-2025.1.0",
}
"""Wide tables with every counter of the report: all quantities must agree."""

PRINTED_PARTLY = {
    "gen-details-base-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-metrics-base-H100-ncu2024.1": RMS,
    "gen-metrics-nvtx-A100-ncu2024.1": CUTLASS,
    "gen-nvtxrename-A100-ncu2024.1": CUTLASS,
}
"""Tables with some counters in base units: what is there must agree."""

ROUNDED = {
    "gen-details-auto-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-detailsall-name-fa3fwd-RTX4060Ti-ncu2024.1": FA3,
    "gen-details-nan-H800-ncu2024.1": NAN,
    "gen-details-nestednvtx-RTX3070-ncu2024.1": "daxpy-nvtx-RTX3070-2022.3.0",
}
"""ncu cut these to two decimals: within 1 %, and a check says so."""

REFUSED = {
    "apperror-noheader-B200-ncu2025.csv": "the application failed",
    "nokernels-noheader-B200-ncu2025.csv": "profiled no kernel and the last of them never",
    "gen-loadfail-A30-ncu2024.1.csv": "could not load the report",
    "flashattn-derived-A30.csv": "CSV of something else",
    "fa3fwd-details-RTX4060Ti-ncu2025.4.txt": "text page of ncu (1 kernels)",
    "gen-text-nan-H800-ncu2024.1.txt": "text page of ncu (3 kernels)",
    "silu-torch-details-GH200-ncu2025.1.txt": "text page of ncu (10 kernels)",
    "rmsnorm-applog-A40.txt": "console log of a run under ncu (1 kernels",
}

TRUTHS: dict[str, tuple[int, float | None, float | None]] = {
    # file: launches, sum of durations (ns, as the manifest gives it), DRAM bytes of the first
    "bert-flashattn-A100-ncu2021.2.csv": (10, None, 384),
    "copyblocked-details-T4-ncu2025.csv": (1, 21_058_944, 4_137_159_648),
    "fi-pageddecode-b1ctx32k-B200-ncu2025.csv": (16, 833_472, None),
    "fi-pageddecode-b64ctx4k-B200-ncu2025.csv": (64, 20_637_000, None),
    "fi-pageddecode-mha-noise-B200-ncu2025.csv": (16, 3_731_000, None),
    "flash-splitkv-details-RTX5090-ncu2025.csv": (1, 10_340, 4_740_000),
    "fmha-cutlassF-details-RTX5090-ncu2025.csv": (1, 160_740, 105_650_000),
    "gemv-bf16-details-RTX5090-ncu2025.csv": (1, 6_750, 2_330_000),
    "gemv-bf16-metrics-RTX5090-ncu2025.csv": (1, 6_750, 2_330_000),
    "gemv-bf16-rooflinesection-RTX5090-ncu2025.csv": (1, None, None),
    "gen-raw-mangled-A100-ncu2024.1.csv": (1, 9_344, None),
    "gpt-prof-A100-ncu2021.2.csv": (26, None, 256),
    "llamacpp-flashattnvec-CC12-ncu2025.3.csv": (1, None, 9_500_000),
    "reduce-mean-details-RTX5090-ncu2025.csv": (1, 7_970, 4_740_000),
    "sdpa-flash-B200-ncu2025.csv": (16, 10_995_000, None),
}
SUMMARIES = {
    "gen-summary-kernel-A10-ncu2024.1.csv": 105,
    "gen-summary-gpu-A10G-ncu2024.1.csv": 12,
    "gen-summary-nvtx-A100-ncu2024.1.csv": 3,
}


def read(nsight: Path, name: str) -> Reading:
    return ncu_csv.read(nsight / "ncu-csv" / name)


def report_launches(nsight: Path, name: str) -> tuple[Launch, ...]:
    return ncu_report.read(nsight / "ncu-rep" / f"{name}.ncu-rep").launches


@pytest.mark.parametrize(("name", "report"), PRINTED_EXACTLY.items(), ids=PRINTED_EXACTLY)
def test_wide_tables_equal_their_report(nsight: Path, name: str, report: str) -> None:
    printed = read(nsight, f"{name}.csv").launches
    ours = report_launches(nsight, report)
    assert len(printed) == len(ours)
    for csv_launch, launch in zip(printed, ours, strict=True):
        for what in ("duration_ns", "dram_bytes", "l2_bytes"):
            assert getattr(csv_launch, what).value == getattr(launch, what).value, what
        if launch.flops.value is None:
            assert csv_launch.flops.value is None
        else:
            assert csv_launch.flops.value == pytest.approx(launch.flops.value, rel=1e-6)
        assert (csv_launch.grid, csv_launch.block) == (launch.grid, launch.block)
        assert csv_launch.nvtx == launch.nvtx or not csv_launch.nvtx


@pytest.mark.parametrize(("name", "report"), PRINTED_PARTLY.items(), ids=PRINTED_PARTLY)
def test_what_a_partial_table_has_is_right(nsight: Path, name: str, report: str) -> None:
    printed = read(nsight, f"{name}.csv").launches
    ours = report_launches(nsight, report)
    assert len(printed) == len(ours)
    for csv_launch, launch in zip(printed, ours, strict=True):
        assert csv_launch.duration_ns.value == launch.duration_ns.value
        moved = csv_launch.dram_bytes.value
        assert moved is None or moved == pytest.approx(launch.dram_bytes.value, rel=1e-6)


@pytest.mark.parametrize(("name", "report"), ROUNDED.items(), ids=ROUNDED)
def test_rounded_tables_are_close_and_say_so(nsight: Path, name: str, report: str) -> None:
    reading = read(nsight, f"{name}.csv")
    ours = report_launches(nsight, report)
    assert len(reading.launches) == len(ours)
    for csv_launch, launch in zip(reading.launches, ours, strict=True):
        for what in ("duration_ns", "dram_bytes"):
            here, there = getattr(csv_launch, what).value, getattr(launch, what).value
            assert (here is None) or here == pytest.approx(there, rel=0.01)
        assert (csv_launch.duration_ns.value is None) == (launch.duration_ns.value is None)
        assert not csv_launch.nvtx or csv_launch.nvtx == launch.nvtx
    assert any(check.id == "ncu-csv-rounded" for check in reading.checks)


@pytest.mark.parametrize(("name", "truth"), TRUTHS.items(), ids=TRUTHS)
def test_tables_without_a_report(
    nsight: Path, name: str, truth: tuple[int, float | None, float | None]
) -> None:
    launches = read(nsight, name).launches
    count, total_ns, moved = truth
    assert len(launches) == count
    if total_ns is not None:
        assert sum(x.duration_ns.value or 0 for x in launches) == pytest.approx(total_ns, rel=1e-4)
    assert launches[0].dram_bytes.value == moved
    if moved is None:
        assert launches[0].dram_bytes.absent


@pytest.mark.parametrize(("name", "words"), REFUSED.items(), ids=REFUSED)
def test_files_without_numbers_end_in_the_precise_statement(
    nsight: Path, name: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_file(nsight / "ncu-csv" / name)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("name", "launches"), SUMMARIES.items(), ids=SUMMARIES)
def test_summaries_are_means_times_invocations(nsight: Path, name: str, launches: int) -> None:
    reading = read(nsight, name)
    assert sum(kernel.count for kernel in reading.kernels) == launches
    assert not reading.launches


def test_summary_of_105_launches_gives_their_total_time(nsight: Path) -> None:
    (kernel,) = read(nsight, "gen-summary-kernel-A10-ncu2024.1.csv").kernels
    assert kernel.duration_ns.value == 17_430
    assert kernel.count * 17_430 == pytest.approx(1_830_272, rel=1e-3)


def test_summaries_never_multiply_two_means(nsight: Path) -> None:
    fused, separate = read(nsight, "gen-summary-nvtx-A100-ncu2024.1.csv").kernels
    assert fused.count == 1
    assert fused.dram_bytes.value == pytest.approx(1_522_944, rel=1e-3)
    assert separate.count == 2
    assert separate.dram_bytes.value is None
    assert (fused.nvtx, separate.nvtx) == (("Fused-GEMM",), ("Non-fused-GEMM",))


def test_copy_on_t4_moves_nearly_the_ideal_bytes(nsight: Path) -> None:
    (launch,) = read(nsight, "copyblocked-details-T4-ncu2025.csv").launches
    ideal = 4_294_967_296
    assert float(launch.dram_bytes.value or 0) / ideal == pytest.approx(0.963, abs=0.0005)
    assert launch.paths["dram_bytes"] == "(dram__bytes.sum.per_second) x gpu__time_duration.sum"


def test_every_csv_of_the_manifest_is_tested(nsight: Path) -> None:
    with (nsight / "MANIFEST.tsv").open(newline="") as file:
        rows = [row["file"] for row in csv.DictReader(file, delimiter="\t")]
    named = {f"{name}.csv" for name in (*PRINTED_EXACTLY, *PRINTED_PARTLY, *ROUNDED)}
    named |= {*TRUTHS, *REFUSED, *SUMMARIES, "gen-session-RTX4060Ti-ncu2024.1.csv"}
    wanted = {row.removeprefix("ncu-csv/") for row in rows if row.startswith("ncu-csv/")}
    assert len(wanted) > 40
    assert named == wanted


def test_a_session_page_gives_the_regime_and_nothing_private(nsight: Path) -> None:
    reading = read(nsight, "gen-session-RTX4060Ti-ncu2024.1.csv")
    assert reading.machine.gpu == "NVIDIA GeForce RTX 4060 Ti"
    assert reading.tools == {"ncu": "2025.4.1"}
    assert reading.capture.regime["launch count"] == "1"
    text = repr(reading)
    for word in ("uuuuuuuuuuuuuuu", "000.00.00.000", "profile_fa3", "7800X3D", "docs/"):
        assert word not in text


def test_tensor_flops_from_one_counter_of_a_metrics_list(nsight: Path) -> None:
    (launch,) = read(nsight, "flash-splitkv-details-RTX5090-ncu2025.csv").launches
    assert launch.metrics["tensor_flops"].value == 335_544_320
    assert launch.paths["tensor_flops"] == "sm__ops_path_tensor_src_bf16_dst_fp32.sum"


def test_a_zero_of_one_format_does_not_prove_that_there_were_no_flops(nsight: Path) -> None:
    (launch,) = read(nsight, "gemv-bf16-metrics-RTX5090-ncu2025.csv").launches
    assert launch.flops.value is None
    assert "other number formats were not counted" in (launch.flops.absent or "")


def test_warp_instructions_are_not_flops(nsight: Path) -> None:
    launches = read(nsight, "gpt-prof-A100-ncu2021.2.csv").launches
    busy = [x for x in launches if "warp instructions" in (x.flops.absent or "")]
    assert len(busy) == 16
    # Where the pipe executed nothing, SASS counts are all there is, and FP16 counts two lanes.
    assert all(x.flops.value is not None for x in launches if x not in busy)
