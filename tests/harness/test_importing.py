"""`import_files`: captures to runs, alone, merged, with hints; and what a run directory holds."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from rooflens.errors import InputError, UsageError
from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import Imported, import_files
from rooflens.harness.writing_imports import write_import
from rooflens.model import Run
from rooflens.runfile import encode_run, read_run
from tests.ncu_files import BYTES, NORM, TIME, ncu_csv


def imported(folder: Path, **options: object) -> Imported:
    path = ncu_csv(folder, "a.csv", TIME | BYTES, (NORM, NORM, "mystery"))
    return import_files([path], ImportOptions(**options))  # type: ignore[arg-type]


def test_a_capture_becomes_a_run(tmp_path: Path) -> None:
    run = imported(tmp_path).run
    assert run.evidence == ("counters",)
    assert run.totals.moved_bytes.value == 15_000
    assert run.totals.step_time_ns.value is None
    assert "cold, serialised replays" in (run.totals.step_time_ns.absent or "")
    rows = {row.op_class: row for row in run.operators}
    assert rows["norm"].moved_bytes.value == 10_000
    assert rows["other"].moved_bytes.value == 5_000
    norm, mystery = run.kernels
    assert (norm.count, norm.op_class, norm.join.method) == (2, "norm", "name class")
    assert (mystery.family, mystery.join.method) == ("unknown", "none")
    (check,) = [c for c in run.checks if c.id == "kernel-join"]
    assert check.message.startswith("2 of 3 launches have an operator class: 2 guessed from")
    assert "Unknown names: mystery" in check.message


def test_hints_put_theory_beside_the_counters(tmp_path: Path) -> None:
    run = imported(tmp_path, model="qwen2.5-7b", batch=1, context=2047, gpu="h100-sxm").run
    assert run.evidence == ("theory", "counters")
    assert run.totals.compulsory_bytes.value == 14_258_990_088
    assert run.workload.name == "decode"
    assert run.model.params == 7_615_616_512
    assert run.roofs[0].bandwidth_bytes_per_s == pytest.approx(3.35e12, rel=0.01)
    norm = next(row for row in run.operators if row.op_class == "norm")
    assert norm.minimum_bytes.value is not None
    assert norm.moved_bytes.value == 10_000


def test_prompt_means_prefill_and_contradictions_are_refused(tmp_path: Path) -> None:
    assert imported(tmp_path, prompt=512).run.workload.name == "prefill"
    for options in (
        {"workload": "decode", "prompt": 5},
        {"workload": "prefill", "query_tokens": 2},
    ):
        with pytest.raises(UsageError):
            imported(tmp_path, **options)


def test_files_with_the_same_kernels_fill_each_other_in(tmp_path: Path) -> None:
    names = (NORM, "gemm_kernel")
    first = ncu_csv(tmp_path, "time.csv", TIME, names)
    later = {"gpu__time_duration.sum": ("ns", "9999")}
    second = ncu_csv(tmp_path, "bytes.csv", later | BYTES, names)
    run = import_files([first, second]).run
    assert len(run.kernels) == 2
    assert [k.duration_ns.value for k in run.kernels] == [1000, 1000]
    assert [k.dram_bytes.value for k in run.kernels] == [5000, 5000]
    assert run.kernels[0].paths["dram_bytes"] == "bytes.csv: dram__bytes.sum"
    (check,) = [c for c in run.checks if c.id == "import-merge"]
    assert check.outcome == "passed"
    assert [c.file for c in run.captures] == ["time.csv", "bytes.csv"]


def test_files_with_other_kernels_are_added_and_it_is_said(tmp_path: Path) -> None:
    first = ncu_csv(tmp_path, "a.csv", TIME, (NORM, "gemm_kernel"))
    second = ncu_csv(tmp_path, "b.csv", TIME, ("gemm_kernel",))
    imported = import_files([first, second])
    assert len(imported.launches) == 3
    assert [file for file, _ in imported.launches] == ["a.csv", "a.csv", "b.csv"]
    (check,) = [c for c in imported.run.checks if c.id == "import-merge"]
    assert check.outcome == "warning"
    assert "1 of 1 agree" in check.message


def test_steps_divide_launches_and_bytes(tmp_path: Path) -> None:
    path = ncu_csv(tmp_path, "a.csv", TIME | BYTES, (NORM,) * 6)
    run = import_files([path], ImportOptions(steps=3)).run
    assert run.kernels[0].count == 2
    assert run.totals.moved_bytes.value == 10_000


def test_only_set_up_kernels_is_a_failed_check(tmp_path: Path) -> None:
    name = "at::native::distribution_elementwise_grid_stride_kernel<float>"
    run = import_files([ncu_csv(tmp_path, "a.csv", TIME, (name,))]).run
    (check,) = [c for c in run.checks if c.id == "wrong-kernels"]
    assert check.outcome == "failed"


def test_a_session_page_alone_is_no_capture(tmp_path: Path) -> None:
    page = tmp_path / "session.csv"
    page.write_text(
        'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu app"\n'
    )
    with pytest.raises(InputError, match="but no kernel of it"):
        import_files([page])
    both = import_files([page, ncu_csv(tmp_path, "a.csv", TIME)])
    assert both.run.captures[0].regime["clock control"] == "base (ncu's default)"


def test_run_directory_of_an_import(tmp_path: Path) -> None:
    made = imported(tmp_path)
    final = tmp_path / "run"
    write_import(made, final, [tmp_path / "a.csv"], force=False, copy=False)
    assert sorted(p.name for p in final.iterdir()) == [
        "captures", "report.html", "run.json", "summary.md",
    ]  # fmt: skip
    assert sorted(p.name for p in (final / "captures").iterdir()) == [
        "launches.sqlite", "sources.json",
    ]  # fmt: skip
    assert read_run(final) == made.run
    (source,) = json.loads((final / "captures" / "sources.json").read_text())
    assert source["name"] == "a.csv"
    with sqlite3.connect(final / "captures" / "launches.sqlite") as connection:
        rows = connection.execute("select class, dram_bytes, absent from launches").fetchall()
    connection.close()
    assert [row[:2] for row in rows] == [("norm", 5000), ("norm", 5000), ("other", 5000)]
    assert "not collected" in json.loads(rows[0][2])["flops"]


def test_copy_keeps_the_raw_file_only_when_asked(tmp_path: Path) -> None:
    made = imported(tmp_path)
    write_import(made, tmp_path / "run", [tmp_path / "a.csv"], force=False, copy=True)
    assert (tmp_path / "run" / "captures" / "a.csv").is_file()


def test_nothing_private_reaches_the_run(tmp_path: Path) -> None:
    made = imported(tmp_path)
    write_import(made, tmp_path / "run", [tmp_path / "a.csv"], force=False, copy=False)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"secret-host" not in data
            assert b"/home/me" not in data


def test_hostile_names_stay_text_on_the_page(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>_kernel"
    made = import_files([ncu_csv(tmp_path, "a.csv", TIME | BYTES, (name,))])
    write_import(made, tmp_path / "run", [tmp_path / "a.csv"], force=False, copy=False)
    assert made.run.kernels[0].name == name
    assert "<script>alert" not in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_the_run_survives_its_file(tmp_path: Path) -> None:
    run: Run = imported(tmp_path, gpu="a100-80gb-sxm").run
    assert b'"absent"' in encode_run(run)


@pytest.mark.conformance
def test_a_report_and_its_csv_are_one_capture(nsight: Path) -> None:
    pytest.importorskip("ncu_report")
    made = import_files([
        nsight / "ncu-rep" / "fa3fwd-full-RTX4060Ti-2025.4.1.ncu-rep",
        nsight / "ncu-csv" / "gen-raw-base-fa3fwd-RTX4060Ti-ncu2024.1.csv",
        nsight / "ncu-csv" / "gen-session-RTX4060Ti-ncu2024.1.csv",
    ])  # fmt: skip
    (kernel,) = made.run.kernels
    assert (kernel.count, kernel.op_class) == (1, "attention")
    assert kernel.dram_bytes.value == 12_657_792
    (row,) = made.run.operators
    assert row.executed_flops.value == 4 * 8 * 4096**2 * 64
    assert row.elementwise_flops.value == 757_268_480
    held = made.run.roofs[-1]
    assert held.peak_flops_per_s == pytest.approx(40.18e12, rel=1e-3)
    assert "2.31 GHz, as captured" in held.name


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("name", "roofs"),
    [
        ("rmsnorm-H100PCIe-2025.1.0", ["H100 PCIe", "NVIDIA H100 PCIe at 1.10 GHz, as captured"]),
        # ncu 2023.3 stores no tensor peak, and the FP32 peak is no roof for products.
        ("flashfwd-nan-H800-2023.3.0", []),
        ("sgemm-GTX1660S-2024.1.1", ["NVIDIA GeForce GTX 1660 SUPER at 1.53 GHz, as captured"]),
    ],
)  # fmt: skip
def test_roofs_of_a_capture(nsight: Path, name: str, roofs: list[str]) -> None:
    pytest.importorskip("ncu_report")
    run = import_files([nsight / "ncu-rep" / f"{name}.ncu-rep"]).run
    assert [roof.name for roof in run.roofs] == roofs


@pytest.mark.conformance
def test_every_readable_capture_of_the_manifest_becomes_a_run(nsight: Path) -> None:
    pytest.importorskip("ncu_report")
    for path in sorted((nsight / "ncu-rep").iterdir()):
        if path.name.startswith("truncated"):
            continue
        run = import_files([path]).run
        assert run.kernels, path.name
        assert sum(kernel.count for kernel in run.kernels) == run.captures[0].rows
        for kernel in run.kernels:
            for quantity in (kernel.duration_ns, kernel.dram_bytes, kernel.flops, kernel.intensity):
                assert quantity.value is not None or quantity.absent


def test_the_name_of_a_gpu_cannot_steer_the_terminal(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}
    trace = {
        "deviceProperties": [{"id": 0, "name": "H200\x1b]0;x\x07"}],
        "traceEvents": [event | {"args": {"device": 0, "stream": 7, "correlation": 1}}],
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace), "utf-8")
    (found,) = import_files([path]).found
    assert "H200" in found and not {"\x1b", "\x07"} & set(found)
