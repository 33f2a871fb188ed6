"""Kernels: what is the same kernel, what replaced what, and which one got slower."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.model import Check, GraphRow, KernelRow, Machine, Run, absent, known
from rooflens.reports.compare import compare
from rooflens.reports.compare.records import Comparison, Verdict
from tests import builders

HOT = "gemv2T_kernel"
STEADY = (10.0e6, 10.1e6, 10.0e6, 10.2e6, 10.1e6, 10.0e6, 10.1e6, 10.0e6)


def kernel(
    name: str, ns: float | None = None, nbytes: float | None = None, **fields: Any
) -> KernelRow:
    if ns is not None:
        fields.setdefault("duration_ns", known(ns, "ns", "timeline"))
    if nbytes is not None:
        fields.setdefault("dram_bytes", known(nbytes, "byte", "counters"))
    return builders.kernel(name, **fields)


def run(*kernels: KernelRow, **fields: Any) -> Run:
    fields.setdefault("machine", Machine(device="cuda", gpu="Tesla T4"))
    return builders.run(kernels=kernels, evidence=("timeline", "counters"), **fields)


def step(hot_ns: float, factor: float = 1.0, **fields: Any) -> Run:
    """One kernel with 95 % of the time, and nine that share the rest."""
    others = [
        kernel(f"small_{number}", factor * (900 + 40 * number), count=28) for number in range(9)
    ]
    return run(kernel(HOT, factor * hot_ns, count=196), *others, **fields)


def total(comparison: Comparison, metric: str) -> Any:
    return next(item for item in comparison.totals if item.metric == metric)


def test_a_hot_kernel_that_got_slower_is_named_though_the_step_did_not_move() -> None:
    """A public gate on step time passes this as neutral."""
    base, head = step(40_000, step_times_ns=STEADY), step(48_000, step_times_ns=STEADY)
    found = compare([base], [head])
    assert found.time.verdict is Verdict.NO_CHANGE_SHOWN
    assert found.verdict is Verdict.REGRESSED
    (pattern,) = found.patterns
    assert pattern.id == "hidden-kernel"
    assert HOT in pattern.sentence
    # 196 launches x 8 us.
    assert "slower by 1.57 ms" in pattern.sentence
    assert "+20 %" in pattern.sentence
    assert "the step time does not move" in pattern.sentence
    (change,) = found.kernels
    assert change.kind == "time changed"
    assert change.time_ns.change == pytest.approx(196 * 8_000)


def test_a_clock_that_slows_all_kernels_alike_accuses_none() -> None:
    found = compare([step(40_000)], [step(40_000, factor=1.2)])
    assert found.kernels == ()
    assert found.verdict is not Verdict.REGRESSED


def test_with_too_few_other_kernels_it_is_named_and_not_judged() -> None:
    found = compare([run(kernel(HOT, 100.0))], [run(kernel(HOT, 120.0))])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert HOT in found.sentence


def test_a_kernel_is_judged_over_all_its_layers_and_does_not_hide_among_them() -> None:
    """One row a layer, each below one per cent of the time, and more rows than all others."""

    def layered(hot_ns: float) -> Run:
        hot = [kernel(HOT, hot_ns, nvtx=(f"layer.{i}",), grid=(1 + i, 1, 1)) for i in range(150)]
        others = [kernel(f"small_{number}", 900 + 40 * number) for number in range(9)]
        return run(*hot, *others)

    found = compare([layered(40_000)], [layered(48_000)])
    (change,) = found.kernels
    assert (change.head_name, change.kind, change.rows) == (HOT, "time changed", 150)
    assert change.time_ns.change == pytest.approx(150 * 8_000)
    assert "the other kernels moved by ±0 %" in change.reason


def test_more_launches_at_the_same_speed_are_not_slower() -> None:
    others = [kernel(f"small_{number}", 900 + 40 * number) for number in range(9)]
    base = run(kernel(HOT, 100.0, grid=(1, 1, 1), count=9), kernel(HOT, 9e5, count=1), *others)
    head = run(kernel(HOT, 100.0, grid=(1, 1, 1), count=9), kernel(HOT, 9e5, count=3), *others)
    (change,) = compare([base], [head]).kernels
    assert change.kind == "count changed"
    assert change.time_ns.verdict is Verdict.NO_CHANGE_SHOWN


def test_runs_of_a_side_with_other_launches_cannot_be_judged() -> None:
    sides = [run(kernel("a", count=4)), run(kernel("a", count=5))]
    assert compare(sides, sides[:1]).verdict is Verdict.CANNOT_JUDGE


def test_several_runs_a_side_judge_a_kernel_by_its_own_samples() -> None:
    base = [run(kernel(HOT, ns)) for ns in (100, 101, 99, 100, 102, 100, 101, 99)]
    head = [run(kernel(HOT, 1.3 * ns)) for ns in (100, 101, 99, 100, 102, 100, 101, 99)]
    found = compare(base, head)
    assert found.verdict is Verdict.REGRESSED
    assert "p=" in found.kernels[0].reason
    assert compare(base, base).verdict is Verdict.NO_CHANGE_SHOWN


def test_few_runs_of_many_kernels_are_judged_against_the_other_kernels() -> None:
    def runs(hot_ns: float) -> list[Run]:
        others = [kernel(f"kernel_{number}", 9000.0, count=196) for number in range(6)]
        return [run(kernel(HOT, hot_ns * (1 + 0.001 * i), count=196), *others) for i in range(4)]

    found = compare(runs(40_000), runs(48_000))
    assert found.verdict is Verdict.REGRESSED
    assert "while the other kernels moved by" in found.kernels[0].reason


def test_a_kernel_without_weight_is_not_accused() -> None:
    def of(tiny: float) -> Run:
        return run(kernel("tiny", tiny), kernel(HOT, 1e6), kernel("other", 1e5))

    assert compare([of(10.0)], [of(13.0)]).kernels == ()


def test_times_of_a_counter_replay_are_not_compared() -> None:
    def replayed(ns: float) -> Run:
        return run(kernel(HOT, duration_ns=known(ns, "ns", "counters")))

    assert compare([replayed(100.0)], [replayed(200.0)]).kernels == ()


def test_a_renamed_kernel_of_the_same_family_and_bytes_is_a_substitution() -> None:
    old = kernel("ampere_gemm_128x64", nbytes=1e6, family="cublas gemm", op_class="up_proj")
    new = kernel("ampere_gemm_64x64", nbytes=1e6, family="cublas gemm", op_class="up_proj")
    found = compare([run(old)], [run(new)])
    (change,) = found.kernels
    assert change.kind == "substituted"
    assert (change.base_name, change.head_name) == ("ampere_gemm_128x64", "ampere_gemm_64x64")
    assert found.verdict is Verdict.NO_CHANGE_SHOWN
    assert found.matched_kernels == 1


def test_another_family_for_the_same_operator_is_a_substitution_with_its_bytes() -> None:
    old = kernel("flash_fwd", nbytes=1e6, family="flash", op_class="attention", count=28)
    new = kernel("fmha_cutlass", nbytes=1.4e6, family="cutlass", op_class="attention", count=28)
    found = compare([run(old)], [run(new)])
    (change,) = found.kernels
    assert change.kind == "substituted"
    assert (change.base_family, change.head_family) == ("flash", "cutlass")
    assert change.verdict is Verdict.REGRESSED
    assert "flash_fwd → fmha_cutlass" in found.sentence


def test_unrelated_kernels_are_new_and_gone_and_nothing_in_common_is_not_judged() -> None:
    found = compare([run(kernel("a", family="x"))], [run(kernel("b", family="y"))])
    assert sorted(change.kind for change in found.kernels) == ["gone", "new"]
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert "no kernel of the base is in the head" in found.sentence


def test_kernels_of_a_class_that_are_all_gone_are_missing_work() -> None:
    both = kernel("gemm", op_class="up_proj")
    found = compare([run(both, kernel("flash", op_class="attention"))], [run(both)])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert "no kernel of the class attention is left" in found.sentence
    fused = [kernel(name, op_class=name) for name in ("q_proj", "k_proj", "v_proj")]
    merged = compare([run(both, *fused)], [run(both, kernel("qkv", op_class="qkv_proj"))])
    assert merged.verdict is Verdict.IMPROVED


def test_a_bad_capture_gives_no_verdict() -> None:
    check = Check(id="ranges", outcome="failed", message="No range was recorded.")
    found = compare([run(kernel("a"))], [run(kernel("a"), checks=(check,))])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert "check ranges of the head failed: No range was recorded." in found.sentence


def test_more_launches_are_a_regression_and_fewer_an_improvement() -> None:
    few, many = run(kernel("a", count=28)), run(kernel("a", count=56))
    more = compare([few], [many])
    assert more.kernels[0].kind == "count changed"
    assert (more.verdict, total(more, "launches").change) == (Verdict.REGRESSED, 28)
    assert compare([many], [few]).verdict is Verdict.IMPROVED


def test_moved_bytes_of_a_kernel_count_from_one_percent_on() -> None:
    base = run(kernel("a", nbytes=1000.0, count=3))
    assert compare([base], [run(kernel("a", nbytes=1009.0, count=3))]).kernels == ()
    found = compare([base], [run(kernel("a", nbytes=1100.0, count=3))])
    assert found.kernels[0].kind == "bytes changed"
    assert found.kernels[0].moved_bytes.change == pytest.approx(300)
    assert found.verdict is Verdict.REGRESSED


def test_another_grid_alone_is_told_and_not_judged() -> None:
    found = compare([run(kernel("a", grid=(1, 1, 1)))], [run(kernel("a", grid=(2, 1, 1)))])
    assert [change.kind for change in found.kernels] == ["launch shape changed"]
    assert found.verdict is Verdict.NO_CHANGE_SHOWN


def test_op_ids_in_nvtx_paths_do_not_keep_kernels_apart() -> None:
    base = run(kernel("a", nvtx=("step", "layers.3", "op 17"), op_class="norm"))
    head = run(kernel("a", nvtx=("step", "layers.3", "op 21"), op_class="norm"))
    assert compare([base], [head]).kernels == ()


def test_equal_changes_in_many_places_are_one_line() -> None:
    def many(count: int) -> Run:
        return run(*(kernel("a", nvtx=(f"layer.{i}",), count=count) for i in range(28)))

    (change,) = compare([many(1)], [many(2)]).kernels
    assert change.rows == 28
    assert change.launches.change == 28


def test_a_longer_step_over_equal_kernels_is_the_hosts_fault() -> None:
    base = step(40_000, step_times_ns=STEADY)
    head = step(40_000, step_times_ns=tuple(1.3 * time for time in STEADY))
    found = compare([base], [head])
    assert found.verdict is Verdict.REGRESSED
    assert [pattern.id for pattern in found.patterns] == ["host-regression"]


def test_lost_cuda_graphs_are_named() -> None:
    graph = GraphRow(id=1, launches=40, duration_ns=absent("-"))
    base = run(kernel("a", count=4), graphs=(graph,))
    found = compare([base], [run(kernel("a", count=4))])
    assert found.verdict is Verdict.REGRESSED
    assert found.patterns[0].id == "graph-lost"


def test_a_missing_time_stays_missing_in_a_sum() -> None:
    base = run(kernel("a", 5.0, count=2), kernel("b", count=2))
    head = run(kernel("a", 5.0, count=4), kernel("b", count=4))
    changes = {change.head_name: change for change in compare([base], [head]).kernels}
    assert changes["b"].time_ns.change is None
    assert changes["a"].time_ns.change == 10.0
