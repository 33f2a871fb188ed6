"""The ncu harness: exact arguments, filters, replay, failures; a real ncu where there is one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from rooflens.errors import ProfilerError, UsageError
from rooflens.harness import ncu
from rooflens.harness.process import run_program
from tests.harness.stand_in import calls, make_stand_in

DATA = Path(__file__).resolve().parents[1] / "data" / "profiler-output"
STEP = ncu.NcuOptions(
    metrics=("gpu__time_duration.sum", "dram__bytes.sum"),
    nvtx_include=("rooflens@step/",),
    nvtx_exclude=("rooflens@unsampled layer/",),
)


def test_the_exact_argument_list() -> None:
    made = ncu.profile_arguments("ncu", (2025, 3), Path("/x/s.ncu-rep"), ["python", "a b"], STEP)
    assert made == [
        "ncu", "--target-processes", "all", "--graph-profiling", "node",
        "--clock-control", "base", "--cache-control", "all", "--replay-mode", "kernel",
        "--nvtx", "--nvtx-include", "rooflens@step/", "--nvtx-exclude", "rooflens@unsampled layer/",
        "--metrics", "gpu__time_duration.sum,dram__bytes.sum",
        "--force-overwrite", "-o", "/x/s", "python", "a b",
    ]  # fmt: skip


def test_filters_of_a_wrapped_command() -> None:
    options = ncu.NcuOptions(
        kernel_name="regex:^(?!nccl)", launch_skip=3, launch_count=5, clock_control="none",
        passed_on=("--import-source", "no"),
    )  # fmt: skip
    made = ncu.profile_arguments("ncu", (2022, 3), Path("s.ncu-rep"), ["x"], options)
    assert "--nvtx" not in made
    assert "--graph-profiling" not in made  # ncu 2022 does not know it
    assert made[3:-4] == [
        "--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel",
        "--kernel-name", "regex:^(?!nccl)", "--launch-skip", "3", "--launch-count", "5",
        "--import-source", "no",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("'step/'", "quotes of its own"),
        ("<default domain>:policy", 'Write "policy/"'),
        ("a/;b/", "once for each"),
    ],
)
def test_filters_that_match_nothing_are_refused(pattern: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ncu.refuse_bad_filter(pattern)


def test_replay_follows_the_memory() -> None:
    gib = 1 << 30
    assert ncu.choose_replay(1, 100 * gib, 0, 0).mode == "kernel"
    assert ncu.choose_replay(2, 20 * gib, 30 * gib, 8 * gib).mode == "kernel"
    assert ncu.choose_replay(2, 20 * gib, 3 * gib, 64 * gib).mode == "kernel"
    chosen = ncu.choose_replay(2, 21 * gib, 3 * gib, 24 * gib)
    assert chosen.mode == "application"
    assert "22,548,578,304 bytes" in chosen.reason


def test_a_second_try_avoids_what_failed() -> None:
    def after(known: str, options: ncu.NcuOptions) -> ncu.NcuOptions | None:
        return ncu.second_try(options, ncu.NcuFailure("ncu: it failed.", "Fix it.", known))

    plain = ncu.NcuOptions()
    assert after("clock-control", plain) == ncu.NcuOptions(clock_control="none")
    assert after("memory-save", plain) == ncu.NcuOptions(replay_mode="application")
    assert after("counter-permission", plain) is None
    assert after("clock-control", ncu.NcuOptions(clock_control="none")) is None


def test_estimate_grows_with_launches_and_passes() -> None:
    assert ncu.estimate_s(100, 30) == pytest.approx(65)
    assert ncu.estimate_s(200, 1) == 2 * ncu.estimate_s(100, 1)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_progress_and_private_temporary_folder(path: Path, tmp_path: Path) -> None:
    report = tmp_path / "any.bin"
    report.write_bytes(b"NVR\0")
    line = '==PROF== Profiling "gemvx::kernel" - 3: 0%....50%....100% - 1 pass\n'
    make_stand_in(path, report, output=line)
    seen: list[tuple[int, str]] = []
    ncu.capture(
        ["python"], tmp_path / "s.ncu-rep", STEP, timeout_s=60,
        on_kernel=lambda number, name: seen.append((number, name)),
    )  # fmt: skip
    assert seen == [(1, "gemvx::kernel")]
    assert (
        calls(path)[0][1:]
        == ncu.profile_arguments("ncu", (2025, 3), tmp_path / "s.ncu-rep", ["python"], STEP)[1:]
    )


@pytest.mark.parametrize(
    ("file", "says"),
    [("ncu-2022.3-no-kernels.txt", "saw no kernel"),
     ("ncu-2022.3-application-failed.txt", "the program under ncu failed")],
)  # fmt: skip
def test_real_messages_become_errors_with_a_fix(
    path: Path, tmp_path: Path, file: str, says: str
) -> None:
    make_stand_in(path, DATA / file, output=(DATA / file).read_text("utf-8"), failing=(1,))
    with pytest.raises(ProfilerError, match=says) as caught:
        ncu.capture(["python"], tmp_path / "s.ncu-rep", STEP, timeout_s=60)
    assert caught.value.hint
    assert caught.value.exit_code == 4


def test_a_hang_names_the_last_kernel(path: Path, tmp_path: Path) -> None:
    path.mkdir()
    program = path / "ncu"
    program.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        "if sys.argv[1:] == ['--version']: raise SystemExit\n"
        "print('==PROF== Profiling \"ncclKernel_AllReduce\" - 7: 0%', flush=True)\n"
        "time.sleep(600)\n"
    )
    program.chmod(0o755)
    with pytest.raises(ProfilerError, match="ncclKernel_AllReduce"):
        ncu.capture(["python"], tmp_path / "s.ncu-rep", STEP, timeout_s=3)


@pytest.mark.nsight
def test_a_real_ncu_takes_every_option(tmp_path: Path) -> None:
    program = shutil.which("ncu")
    assert program is not None
    version = ncu.installed_version(program, tmp_path)
    options = ncu.NcuOptions(
        nvtx_include=STEP.nvtx_include, nvtx_exclude=STEP.nvtx_exclude,
        metrics=STEP.metrics, kernel_name="regex:^(?!nccl)", launch_skip=1, launch_count=2,
    )  # fmt: skip
    target = [sys.executable, "-c", "print('ran')"]
    arguments = ncu.profile_arguments(program, version, tmp_path / "s.ncu-rep", target, options)
    done = run_program(arguments, timeout_s=120, folder=tmp_path)
    # Without a GPU nothing is profiled; an unknown option would end before the program runs.
    assert "ran" in done.output
    assert "unrecognised option" not in done.output
    assert "No kernels were profiled" in done.output
