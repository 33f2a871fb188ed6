"""Counter evidence end to end with a stand-in for ncu that replays a real report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.harness import memory
from rooflens.harness.collectors.counters import collect_counters, expected_launches, sampled_layers
from rooflens.harness.collectors.selfcheck import self_check
from rooflens.harness.plan import RunOptions, RunPlan, make_plan
from rooflens.harness.probe_kernels import COPY, GEMM, GEMM_FLOPS
from rooflens.harness.progress import Progress
from rooflens.model import Launch, Machine, Run, Workload, absent, known
from tests import builders
from tests.harness.stand_in import calls, make_stand_in

REPORT = "rmsnorm-H100PCIe-2025.1.0.ncu-rep"


def launch(name: str, **fields: object) -> Launch:
    nothing = absent("not collected")
    values: dict[str, object] = {
        "duration_ns": nothing, "dram_bytes": nothing, "l2_bytes": nothing, "flops": nothing,
    }  # fmt: skip
    return Launch(index=0, name="k", nvtx=(name,), **(values | fields))  # type: ignore[arg-type]


def test_self_check_believes_counters_that_show_the_known_work() -> None:
    copied = 4 << 30
    checks = self_check(
        [
            launch(GEMM, flops=known(GEMM_FLOPS // 2, "flop", "counters")),
            launch(GEMM, flops=known(GEMM_FLOPS // 2, "flop", "counters")),
            launch(COPY, dram_bytes=known(copied - (40 << 20), "byte", "counters")),
        ],
        copied,
        50 << 20,
    )
    assert [check.outcome for check in checks] == ["passed", "passed"]


def test_self_check_refuses_a_counter_that_is_off_or_absent() -> None:
    checks = self_check(
        [
            launch(GEMM, flops=known(0, "flop", "counters")),  # HMMA counter on a wgmma kernel
            launch(COPY, dram_bytes=absent("the chip has no DRAM counter")),
        ],
        4 << 30,
        50 << 20,
    )
    assert [check.outcome for check in checks] == ["failed", "could_not_look"]
    assert "100 % off" in checks[0].message
    assert "no DRAM counter" in checks[1].message


def plan_of(layers: str) -> RunPlan:
    return make_plan(RunOptions(workload="decode", layers=layers, device="meta"))


def test_first_middle_and_last_layer_are_sampled_unless_all_are_asked_for() -> None:
    assert sampled_layers(plan_of("auto")) == (0, 14, 27)
    assert sampled_layers(plan_of("all")) is None
    assert sampled_layers(plan_of("2")) is None


def test_expected_launches_count_sampled_layers_and_what_is_outside() -> None:
    ops = [builders.op(0, "aten.embedding")]
    ops += [builders.op(1 + i, "aten.mm", layer=i % 4) for i in range(40)]
    assert expected_launches(ops, None) == round(41 * 1.2)
    assert expected_launches(ops, (0, 3)) == round(21 * 1.2)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 60 << 30)
    return builders.run(
        machine=Machine(device="cuda", gpu="NVIDIA H100 PCIe", gpu_chip="gh100"),
        workload=Workload(name="decode", batch=1, layers_run=28, layers_model=28),
        evidence=("theory", "counted", "counters"),
    )


@pytest.mark.conformance
@pytest.mark.parametrize("failing", [(), (3,)])
def test_probe_then_one_pass_then_the_standard_set(
    run: Run, nsight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    failing: tuple[int, ...],
) -> None:  # fmt: skip
    path = tmp_path / "bin"
    permission = "==ERROR== ERR_NVGPUCTRPERM" if failing else ""
    make_stand_in(path, nsight / "ncu-rep" / REPORT, permission, failing)
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "captures"
    folder.mkdir()
    found = collect_counters(plan_of("auto"), run, folder, Progress())

    probe, first, second = calls(path)
    assert "rooflens@probe gemm/" in probe and "rooflens@probe copy/" in probe
    asked = first[first.index("--metrics") + 1].split(",")
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in asked
    assert not any("sass" in name for name in asked)
    assert first[first.index("--nvtx-exclude") + 1] == "rooflens@unsampled layer/"
    assert "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" in second[
        second.index("--metrics") + 1
    ].split(",")  # fmt: skip

    # The real report holds three launches of one kernel.
    assert sum(row.count for row in found.kernels) == 3
    assert (folder / "launches.sqlite").is_file()
    outcomes = {check.id: check.outcome for check in found.checks}
    assert outcomes["self-check-flops"] == "could_not_look"  # the stand-in ran no probe
    assert ("counters-second" in outcomes) == bool(failing)
    assert found.captures[0].regime["clock control"] == "base"
    assert found.captures[0].regime["layers"] == "0, 14, 27"


@pytest.mark.conformance
def test_without_permission_the_failure_names_the_fix(
    run: Run, nsight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.errors import ProfilerError

    path = tmp_path / "bin"
    make_stand_in(path, nsight / "ncu-rep" / REPORT, "==ERROR== ERR_NVGPUCTRPERM", (1,))
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ProfilerError, match="ERR_NVGPUCTRPERM") as caught:
        collect_counters(plan_of("auto"), run, tmp_path, Progress())
    assert "--cap-add=SYS_ADMIN" in caught.value.hint
    assert "counted bytes need no permission" in caught.value.hint


@pytest.mark.conformance
def test_clocks_that_may_not_be_locked_are_recorded_instead(
    run: Run, nsight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bin"
    # The words are known from public reports; the second call (the first of the step) fails.
    make_stand_in(path, nsight / "ncu-rep" / REPORT, "==ERROR== clock control denied", (2,))
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "captures"
    folder.mkdir()
    found = collect_counters(plan_of("auto"), run, folder, Progress())
    asked = [call[call.index("--clock-control") + 1] for call in calls(path)]
    assert asked == ["base", "base", "none", "base"]
    assert found.captures[0].regime["clock control"] == "none"
