"""Steps: by range, by repetition, and their statistics."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflens.model import StepTime, Timeline
from rooflens.parsers import nsys_sqlite
from rooflens.parsers.steps import median_interval, outliers, statistics
from rooflens.parsers.timeline.build import representative
from tests.captures import ExportFile


def read(export: ExportFile, folder: Path) -> Timeline:
    found = nsys_sqlite.read(export.write(folder / "a.sqlite")).timeline
    assert found is not None
    return found


def decode_steps(
    export: ExportFile, count: int, at: int = 0, names: tuple[str, ...] = ()
) -> ExportFile:
    """Steps of 10,000 ns: embedding, four layers, argmax; then 2,000 ns of idle."""
    layer = ("triton_red_fused_rms_norm_1", "gemm_qkv", "flash_fwd_splitkv_kernel", "gemm_o")
    for i in range(count):
        step = names or ("embedding_kernel", *layer * 4, "last_norm", "gemm_head", "ArgMaxOps")
        start = at + 12_000 * i
        for k, name in enumerate(step):
            low = start + 500 * k
            export.launch(low - 200, low, low + 450, name)
    return export


def test_repetitions_are_cut_at_the_idle_stretch(tmp_path: Path) -> None:
    found = read(decode_steps(ExportFile(), 5), tmp_path)
    assert found.phase_method.startswith("launch pattern")
    assert [step.kernels for step in found.steps] == [20] * 5
    assert [step.wall_ns for step in found.steps] == [19 * 500 + 450] * 5
    assert [step.busy_ns for step in found.steps] == [20 * 450] * 5
    between = (12_000 - 19 * 500 - 450) / 1000
    assert any(f"the start of the next: {between:.1f} us" in fact for fact in found.facts)


def test_a_capture_that_begins_in_the_middle_of_a_step(tmp_path: Path) -> None:
    export = ExportFile()
    for k, name in enumerate(("last_norm", "gemm_head", "ArgMaxOps")):
        export.launch(500 * k, 500 * k + 100, 500 * k + 400, name)
    found = read(decode_steps(export, 4, at=4_000), tmp_path)
    assert [step.kernels for step in found.steps] == [20] * 4
    assert "3 device activities lie outside the steps that were found." in found.facts


def test_layers_alone_are_no_steps(tmp_path: Path) -> None:
    names = ("norm", "gemm_a", "flash_fwd_splitkv_kernel", "gemm_b")
    assert read(decode_steps(ExportFile(), 12, names=names), tmp_path).steps == ()


def test_a_warm_up_around_steps_leaves_them_out(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 900, "warmup")
    for at, name in ((100, "step 0"), (1000, "step 1"), (2000, "step 2")):
        export.range(at, at + 500, name)
        export.launch(at + 10, at + 20, at + 60)
    assert [s.start_ns for s in read(export, tmp_path).steps] == [1000, 2000]


def test_a_step_inside_a_step_is_not_counted_again(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 900, "ProfilerStep#1")
    export.range(100, 800, "forward")
    export.launch(110, 120, 160)
    assert len(read(export, tmp_path).steps) == 1


def test_the_representative_step_is_typical_and_never_the_outlier(tmp_path: Path) -> None:
    export = ExportFile()
    for i, wall in enumerate((9000, 500, 520, 510)):
        export.range(10_000 * i, 10_000 * i + wall, f"step {i}")
        export.launch(10_000 * i + 10, 10_000 * i + 20, 10_000 * i + 60)
    found = read(export, tmp_path)
    assert found.representative_step in (2, 3)
    assert found.statistics[0].first_is_outlier
    assert found.statistics[0].outliers == (0,)


def step(index: int, wall: float, phase: str = "decode") -> StepTime:
    return StepTime(index=index, start_ns=0, wall_ns=wall, busy_ns=wall, idle_ns=0, phase=phase)


def test_statistics_are_per_phase() -> None:
    made = statistics((step(0, 100, "prefill"), step(1, 10), step(2, 12), step(3, 14)))
    by_phase = {s.phase: s for s in made}
    assert (by_phase["prefill"].count, by_phase["prefill"].variation) == (1, 0)
    assert (by_phase["decode"].median_ns, by_phase["decode"].low_ns) == (12, 10)
    assert by_phase["decode"].variation == pytest.approx(2 / 12)


def test_equal_steps_have_no_outliers_for_a_tick_of_the_clock() -> None:
    assert not outliers(np.array([1000.0, 1000.0, 1000.0, 1000.5, 1000.0])).any()
    assert outliers(np.array([1000.0, 1000.0, 1000.0, 1100.0, 1000.0])).tolist()[3]


def chance_of_at_most(successes: int, trials: int) -> float:
    """Of fair coin throws."""
    return float(sum(math.comb(trials, k) for k in range(successes + 1)) / 2**trials)


@given(st.integers(1, 300))
def test_the_interval_holds_the_median_with_at_least_95_percent(count: int) -> None:
    low, high = median_interval(np.arange(count, dtype=np.float64))
    cut = int(low)
    assert high == count - 1 - cut
    if count < 6:
        assert cut == 0
    else:  # the tightest pair of order statistics that reaches 95 %
        assert 1 - 2 * chance_of_at_most(cut, count) >= 0.95
        assert 1 - 2 * chance_of_at_most(cut + 1, count) < 0.95


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=30), st.data())
def test_the_representative_belongs_to_the_most_frequent_phase(
    walls: list[float], data: st.DataObject
) -> None:
    names = data.draw(
        st.lists(st.sampled_from(["a", "b"]), min_size=len(walls), max_size=len(walls))
    )
    times = tuple(step(i, w, n) for i, (w, n) in enumerate(zip(walls, names, strict=True)))
    chosen = representative(times)
    assert chosen is not None
    assert names.count(names[chosen]) * 2 >= len(names)
