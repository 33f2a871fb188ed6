"""Nsight Compute reports: equal to a bare read of NVIDIA's package, and to known truths."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rooflens.errors import InputError
from rooflens.parsers import ncu_csv
from rooflens.parsers import ncu_report as reader
from rooflens.parsers.ncu_container import read_container, regime

pytestmark = pytest.mark.conformance
ncu_report = pytest.importorskip("ncu_report")

READABLE = {
    "cutlass-2gemm-nvtx-A100PCIe-2024.1.1": 3,
    "daxpy-nvtx-RTX3070-2022.3.0": 3,
    "divergence-GTX1660Ti-2022.4.0": 4,
    "fa3fwd-full-RTX4060Ti-2025.4.1": 1,
    "filter-nvtx-RTX3050Laptop-2025.1.0": 1,
    "flashfwd-nan-H800-2023.3.0": 3,
    "linear-fp16w-A10-2023.2.0": 105,
    "rmsnorm-H100PCIe-2025.1.0": 3,
    "rng-basic-GH200-2025.1.0": 1,
    "sgemm-GTX1660S-2024.1.1": 2,
    "sgemm6-missingtime-A10G-2023.1.1": 6,
    "silu-A100SXM-2025.1.0": 3,
    "silu-notime-GH200-2025.1.0": 3,
    "silu-partial-GH200-2025.1.0": 3,
}
FLOAT_TENSOR = ("bf16", "fp16", "tf32", "fp64", "fp8")


def report(nsight: Path, name: str) -> Path:
    return nsight / "ncu-rep" / f"{name}.ncu-rep"


def bare(path: Path) -> list[dict[str, Any]]:
    """What anybody gets from NVIDIA's package: every number of every kernel."""
    kernels = []
    context = ncu_report.load_report(str(path))
    for number in range(context.num_ranges()):
        results = context.range_by_idx(number)
        for index in range(results.num_actions()):
            action = results.action_by_idx(index)
            kernel = {"name": action.name()}
            for name in action.metric_names():
                value = action.metric_by_name(name).value()
                if isinstance(value, int | float) and math.isfinite(value):
                    kernel[name] = value
            kernels.append(kernel)
    return kernels


def bare_flops(kernel: dict[str, Any]) -> float | None:
    """FLOPs as the documentation of ncu defines them, without our code: counts or rates."""
    cycles = kernel.get("smsp__cycles_elapsed.avg")
    if cycles is None and "smsp__cycles_elapsed.avg.per_second" in kernel:
        cycles = kernel["smsp__cycles_elapsed.avg.per_second"] * kernel["gpu__time_duration.sum"]
        cycles /= 1e9
    total, seen = 0.0, False
    for op, factor in (
        ("fadd", 1),
        ("fmul", 1),
        ("ffma", 2),
        ("dadd", 1),
        ("dmul", 1),
        ("dfma", 2),
    ):
        rate = kernel.get(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed")
        if rate is not None:
            total, seen = total + rate * factor * cycles, True
    for name, value in kernel.items():
        if not name.startswith("sm__ops_path_tensor_src_") or not name.endswith(".sum"):
            continue
        if any(f"src_{kind}" in name for kind in FLOAT_TENSOR):
            parent = name.replace("_sparsity_off", "").replace("_sparsity_on", "")
            if parent == name or parent not in kernel:
                total += value
    return total if seen else None


@pytest.mark.parametrize(("name", "count"), READABLE.items(), ids=READABLE)
def test_every_kernel_equals_a_bare_read(nsight: Path, name: str, count: int) -> None:
    launches = reader.read(report(nsight, name)).launches
    kernels = bare(report(nsight, name))
    assert len(launches) == len(kernels) == count
    for launch, kernel in zip(launches, kernels, strict=True):
        assert launch.name == kernel["name"]
        assert launch.duration_ns.value == kernel.get("gpu__time_duration.sum")
        if "dram__bytes_read.sum" in kernel:
            moved = kernel["dram__bytes_read.sum"] + kernel["dram__bytes_write.sum"]
            assert launch.dram_bytes.value == moved
        elif "dram__bytes.sum.per_second" in kernel:
            rate = kernel["dram__bytes.sum.per_second"] * kernel["gpu__time_duration.sum"] / 1e9
            assert launch.dram_bytes.value == pytest.approx(rate, rel=1e-9)
        else:
            assert launch.dram_bytes.value is None
        if launch.flops.value is not None:
            assert launch.flops.value == pytest.approx(bare_flops(kernel), rel=1e-9, abs=0.5)


def test_flash_attention_counts_exactly_what_attention_needs(nsight: Path) -> None:
    (launch,) = reader.read(report(nsight, "fa3fwd-full-RTX4060Ti-2025.4.1")).launches
    heads, tokens, head_size = 8, 4096, 64
    assert launch.metrics["tensor_flops"].value == 4 * heads * tokens**2 * head_size
    assert launch.metrics["fp32_flops"].value == pytest.approx(7.57e8, rel=1e-3)
    assert launch.duration_ns.value == 1_389_856
    assert launch.dram_bytes.value == 12_657_792
    tensor = float(launch.metrics["tensor_flops"].value or 0)
    assert tensor / 1_389_856e-9 / 1e12 == pytest.approx(24.72, abs=0.005)
    # 34 SMs x 512 dense FP16 FLOP per clock (FP32 accumulate) at 2.308 GHz
    peak = 34 * 512 * float(launch.metrics["sm_clock_hz"].value or 0)
    share = tensor / (peak * 1_389_856e-9) * 100
    assert launch.metrics["tensor_percent_of_roof"].value == pytest.approx(share, rel=1e-6)


def test_rms_norm_on_h100(nsight: Path) -> None:
    launch = reader.read(report(nsight, "rmsnorm-H100PCIe-2025.1.0")).launches[0]
    assert launch.duration_ns.value == 526_272
    assert launch.dram_bytes.value == 467_704_320 + 252_374_272
    assert float(launch.dram_bytes.value or 0) / 526_272 == pytest.approx(1368.3, abs=0.05)
    assert launch.flops.value == pytest.approx(8.746e8, rel=1e-3)
    assert float(launch.flops.value or 0) / float(launch.dram_bytes.value or 1) == pytest.approx(
        1.21, abs=0.005
    )
    assert launch.paths["dram_bytes"] == "dram__bytes_read.sum + dram__bytes_write.sum"
    # 114 SMs x 4096 dense BF16 FLOP per clock (wgmma) at the 1.103 GHz that were held, not 1.755.
    held = float(launch.metrics["held_tensor_flops_per_s"].value or 0)
    assert held == pytest.approx(114 * 4096 * 1.103e9, rel=1e-3)
    assert launch.metrics["held_dram_bytes_per_s"].value == pytest.approx(2.039e12, rel=1e-3)


def test_105_launches_in_total_time(nsight: Path) -> None:
    reading = reader.read(report(nsight, "linear-fp16w-A10-2023.2.0"))
    times = [float(launch.duration_ns.value or 0) for launch in reading.launches]
    assert sum(times) == pytest.approx(1_830_272)
    assert min(times) == pytest.approx(17_180, abs=5)
    assert max(times) == pytest.approx(17_760, abs=5)
    assert all(launch.dram_bytes.value is None for launch in reading.launches)
    assert any("DRAM bytes" in check.message for check in reading.checks)


def test_integer_gemm_has_no_flop_though_the_tensor_pipe_is_busy(nsight: Path) -> None:
    reading = reader.read(report(nsight, "cutlass-2gemm-nvtx-A100PCIe-2024.1.1"))
    assert [x.duration_ns.value for x in reading.launches] == [11_168, 10_880, 25_984]
    assert [x.nvtx for x in reading.launches] == [("Non-fused-GEMM",)] * 2 + [("Fused-GEMM",)]
    assert [x.metrics["tensor_flops"].value for x in reading.launches] == [0, 0, 0]
    assert {x.device for x in reading.launches} == {1}
    assert reading.machine.gpu_chip == "ga100"
    assert reading.capture.regime["clock control"] == "base"


def test_a_kernel_that_died_in_replay_has_reasons_and_no_zeros(nsight: Path) -> None:
    reading = reader.read(report(nsight, "flashfwd-nan-H800-2023.3.0"))
    dead = reading.launches[2]
    for quantity in (dead.duration_ns, dead.dram_bytes, dead.l2_bytes, dead.flops):
        assert quantity.value is None
        assert "nan" in (quantity.absent or "")
    assert dead.grid == ()
    alive = [x.duration_ns.value for x in reading.launches[:2]]
    assert sum(v for v in alive if v is not None) == 50_400
    check = next(c for c in reading.checks if c.id == "ncu-dead-kernels")
    assert check.message.startswith("1 of 3 kernels died in replay")
    # Before 2025.1 the tensor pipe is a percentage: busy, but no FLOP can be derived.
    assert "tensor cores were busy" in (reading.launches[0].flops.absent or "")


def test_a_chip_without_tensor_cores_has_zero_tensor_flops(nsight: Path) -> None:
    launch = reader.read(report(nsight, "sgemm-GTX1660S-2024.1.1")).launches[0]
    assert launch.metrics["tensor_flops"].value == 0
    assert launch.paths["tensor_flops"] == "TU116 has no tensor cores"
    # A 1024^3 product is 2 x 1024^3 FLOP; alpha, beta and index work come on top.
    assert float(launch.flops.value or 0) / (2 * 1024**3) == pytest.approx(1.001, abs=0.002)


def test_no_time_is_said(nsight: Path) -> None:
    reading = reader.read(report(nsight, "silu-notime-GH200-2025.1.0"))
    assert all(x.duration_ns.value is None for x in reading.launches)
    check = next(c for c in reading.checks if c.id == "ncu-no-duration-ns")
    assert "3 of 3 kernels without a time" in check.message
    assert reading.capture.regime["set"] == "MemoryWorkloadAnalysis"


def test_moved_bytes_by_rate_when_only_a_rate_was_collected(nsight: Path) -> None:
    launch = reader.read(report(nsight, "silu-partial-GH200-2025.1.0")).launches[0]
    assert launch.dram_bytes.value == 240_635_392
    assert launch.paths["dram_bytes"] == "(dram__bytes.sum.per_second) x gpu__time_duration.sum"


def test_nested_ranges_are_outermost_first(nsight: Path) -> None:
    reading = reader.read(report(nsight, "daxpy-nvtx-RTX3070-2022.3.0"))
    assert reading.launches[1].nvtx == ("run_test", "daxpy")


class Domain:
    """A domain of an NVTX state as the package gives it."""

    def __init__(self, name: str, push_pop: tuple[str, ...], start_end: tuple[str, ...]) -> None:
        self.name = lambda: name
        self.push_pop_ranges = lambda: push_pop
        self.start_end_ranges = lambda: start_end


@pytest.mark.parametrize(
    ("domains", "path"),
    [
        ([Domain("NCCL", ("a", "b", "c"), ()), Domain("rooflens", ("step", "op 3 x"), ())],
         ("step", "op 3 x")),
        ([Domain("x", ("a",), ()), Domain("y", ("b", "c"), ())], ("b", "c")),
        ([Domain("x", (), ("started",))], ("started",)),
        ([Domain("x", (), ())], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_our_own_domain_wins(domains: list[Domain], path: tuple[str, ...]) -> None:
    class Action:
        def nvtx_state(self) -> Any:
            return self

        def domains(self) -> range:
            return range(len(domains))

        def domain_by_id(self, number: int) -> Domain:
            return domains[number]

    assert reader._ranges(Action()) == path


def test_a_headless_report_is_refused(nsight: Path) -> None:
    with pytest.raises(InputError, match="head of the report is missing"):
        reader.read(report(nsight, "truncated-A30-2022.4.0"))


def test_a_cut_report_keeps_its_whole_kernels_and_says_so(nsight: Path, tmp_path: Path) -> None:
    data = report(nsight, "rmsnorm-H100PCIe-2025.1.0").read_bytes()
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes(data[:-1000])
    reading = reader.read(cut)
    assert len(reading.launches) == 2
    (check,) = [c for c in reading.checks if c.id == "ncu-report-cut"]
    assert "2 kernel results were whole" in check.message


def test_missing_package_says_how_to_go_on(nsight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError("No module named 'ncu_report'")

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(InputError) as caught:
        reader.read(report(nsight, "rmsnorm-H100PCIe-2025.1.0"))
    assert "written by ncu 2025.1.0" in caught.value.message
    assert "pip install ncu-report" in caught.value.hint
    assert "--page raw --csv" in caught.value.hint


def test_package_older_than_the_report_is_a_warning() -> None:
    assert reader._older("2024.3.0", "2025.1.0")
    assert not reader._older("2025.1.0", "2025.1.1")
    assert not reader._older("", "2025.1.1")


def test_nothing_private_leaves_the_container(nsight: Path) -> None:
    for name in READABLE:
        reading = reader.read(report(nsight, name))
        command = read_container(report(nsight, name)).command
        text = " ".join([*reading.capture.regime, *reading.capture.regime.values()])
        private = [word for word in command.split() if "/" in word]
        assert private or not command
        assert not any(word in text for word in private)


def test_regime_reads_options_of_ncu_and_not_of_the_application() -> None:
    found = regime("/opt/ncu --clock-control none --nvtx --cache-control=none -c 3 app --set full")
    assert found["clock control"] == "none"
    assert found["cache control"] == "none"
    assert found["launch count"] == "3"
    assert "set" not in found
    assert regime("/opt/ncu --set '/home/me/x' app") == regime("/opt/ncu app")
    assert regime("") == {}


@pytest.mark.nsight
@pytest.mark.parametrize(
    "name",
    ["daxpy-nvtx-RTX3070-2022.3.0", "divergence-GTX1660Ti-2022.4.0",
     "sgemm6-missingtime-A10G-2023.1.1", "silu-notime-GH200-2025.1.0"],
)  # fmt: skip
def test_durations_equal_what_nvidias_ncu_prints(nsight: Path, tmp_path: Path, name: str) -> None:
    shown = subprocess.run(
        ["ncu", "--import", str(report(nsight, name)), "--page", "raw", "--csv", "--print-units",
         "base"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    path = tmp_path / "printed.csv"
    path.write_text(shown, "utf-8")
    printed = ncu_csv.read(path).launches
    ours = reader.read(report(nsight, name)).launches
    assert [x.duration_ns.value for x in printed] == [x.duration_ns.value for x in ours]
    assert [x.grid for x in printed] == [x.grid for x in ours]
    assert [x.nvtx for x in printed] == [x.nvtx for x in ours]
