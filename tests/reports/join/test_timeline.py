"""Times from the timeline, bytes and FLOPs from elsewhere: rates, waterfall, matching, phases."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflens.model import (
    Launch,
    OperatorRow,
    PhaseTime,
    Quantity,
    Roof,
    Timeline,
    absent,
    known,
)
from rooflens.reports.join.launches import match_launches
from rooflens.reports.join.phases import class_demand, phase_demand, phase_shapes
from rooflens.reports.join.timeline import (
    achieved_by_kernel,
    achieved_by_operator,
    kernel_time_by_class,
    kernel_time_by_family,
    unplaced_ns,
    with_times,
)
from rooflens.reports.join.waterfall import waterfall
from rooflens.reports.theory.architecture import Architecture
from tests import builders

ROOF = Roof(
    name="test", kind="data sheet", peak_flops_per_s=1e12, bandwidth_bytes_per_s=1e9,
    dtype="bfloat16", source="made up: 1 byte/ns, 1000 FLOP/ns",
)  # fmt: skip
NOTHING = absent("not measured in this test")
MODEL = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def ns(value: float) -> Quantity:
    return known(value, "ns", "timeline")


def nbytes(value: float, source: str = "theory") -> Quantity:
    return msgspec.structs.replace(known(value, "byte", "theory"), source=source)


def launch(index: int, name: str, grid: tuple[int, ...] = (4, 1, 1), **fields: Any) -> Launch:
    values: dict[str, Any] = {
        "duration_ns": NOTHING, "dram_bytes": NOTHING, "flops": NOTHING, **fields
    }  # fmt: skip
    return Launch(index=index, name=name, grid=grid, block=(128, 1, 1), l2_bytes=NOTHING, **values)


def sequence(names: str, **fields: Any) -> list[Launch]:
    return [launch(i, name, **fields) for i, name in enumerate(names)]


def test_equal_sequences_match_one_to_one() -> None:
    match = match_launches(sequence("abcabc"), sequence("abcabc"))
    assert match.pairs == tuple((i, i) for i in range(6))
    assert (match.share, match.differences) == (1.0, ())


def test_an_extra_launch_is_named_and_the_rest_still_matches() -> None:
    match = match_launches(sequence("abXcab"), sequence("abcab"))
    assert match.only_timeline == (2,)
    assert match.pairs == ((0, 0), (1, 1), (3, 2), (4, 3), (5, 4))
    assert "launch 2 of the timeline has no partner: X" in match.differences[0]


def test_another_grid_is_another_launch() -> None:
    match = match_launches([launch(0, "a")], [launch(0, "a", grid=(8, 1, 1))])
    assert (match.pairs, match.share) == ((), 0.0)
    assert len(match.differences) == 2


def test_names_printed_at_different_lengths_are_one_kernel() -> None:
    long = Launch(
        index=0, name="kernel", demangled="void ns::kernel<float, 3>(float *, int)",
        grid=(4, 1, 1), block=(128, 1, 1), duration_ns=NOTHING, dram_bytes=NOTHING,
        l2_bytes=NOTHING, flops=NOTHING,
    )  # fmt: skip
    short = msgspec.structs.replace(long, demangled="void ns::kernel<float, (int)3>(float*, int)")
    assert match_launches([long], [short]).share == 1.0


@given(st.text("abc", max_size=30), st.text("abc", max_size=30))
def test_a_match_is_in_order_and_uses_every_launch_once(one: str, other: str) -> None:
    match = match_launches(sequence(one), sequence(other))
    assert list(match.pairs) == sorted(match.pairs)
    assert all(one[a] == other[b] for a, b in match.pairs)
    assert sorted([a for a, _ in match.pairs] + list(match.only_timeline)) == list(range(len(one)))
    assert sorted([b for _, b in match.pairs] + list(match.only_counters)) == list(
        range(len(other))
    )


def test_a_rate_is_counters_over_live_time() -> None:
    live = sequence("ab", duration_ns=ns(100))
    counted = sequence("ab", duration_ns=ns(180), dram_bytes=nbytes(50, "counters"))
    rows = achieved_by_kernel(match_launches(live, counted), live, counted, ROOF)
    assert [(r.name, r.time_ns, r.bytes_per_s) for r in rows] == [("a", 100, 5e8), ("b", 100, 5e8)]
    assert rows[0].share_of_bandwidth == 0.5
    assert rows[0].flops_per_s is None


def test_kernel_times_sum_by_class_and_family() -> None:
    kernels = [
        builders.kernel("a", op_class="norm", family="norm", count=3, duration_ns=ns(10)),
        builders.kernel("b", op_class="o_proj", family="gemm", count=2, duration_ns=ns(50)),
        builders.kernel("c", op_class="q_proj", family="gemm", count=1, duration_ns=ns(7)),
        builders.kernel("d", op_class="q_proj", family="gemm", count=1),
    ]
    assert kernel_time_by_class(kernels) == {"o_proj": 100, "norm": 30, "q_proj": 7}
    assert kernel_time_by_family(kernels) == {"gemm": 107, "norm": 30}


def rows() -> list[OperatorRow]:
    return [
        builders.operator(
            name, minimum_bytes=nbytes(size), requested_bytes=nbytes(2 * size, "counted"),
            minimum_flops=known(10 * size, "flop", "theory"), floor_ns=ns(size),
        )
        for name, size in (("q_proj", 70), ("k_proj", 10), ("v_proj", 10), ("norm", 5))
    ]  # fmt: skip


def test_classes_get_the_time_of_their_kernels() -> None:
    timed = {r.op_class: r.time_ns for r in with_times(rows(), {"norm": 30.0, "cast": 4.0})}
    assert timed["norm"].value == 30
    assert timed["q_proj"].absent == "no kernel of this class in the timeline"
    assert unplaced_ns(rows(), {"norm": 30.0, "cast": 4.0}) == 4.0


def test_a_fused_kernel_is_set_against_the_sum_of_what_it_serves() -> None:
    made = with_times(rows(), {"qkv_proj": 120.0, "norm": 30.0}, ROOF)
    assert [r.op_class for r in made] == ["qkv_proj", "norm"]
    fused = made[0]
    assert (fused.time_ns.value, fused.floor_ns.value, fused.minimum_bytes.value) == (120, 90, 90)
    assert fused.intensity_minimum.value == 10
    assert fused.bound == "memory"
    rate = achieved_by_operator(made, ROOF)[0]
    assert rate.name == "qkv_proj"
    assert rate.share_of_bandwidth == pytest.approx(0.75)


def test_the_waterfall_goes_from_the_floor_to_the_measured_time() -> None:
    made = waterfall(rows(), 95, ROOF, wall_ns=400, idle_ns=100)
    # requested is twice the minimum: 95 more bytes at 1 byte/ns.
    assert made.parts == (
        ("operator floor", 95),
        ("extra bytes", 95),
        ("low efficiency", 110),
        ("idle", 100),
    )
    assert (made.measured_ns, made.moved) == (400, False)


SIZES = st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=5)


@given(SIZES, st.floats(0, 1e10), st.floats(0, 1e10))
def test_the_parts_of_a_waterfall_sum_exactly(
    sizes: list[tuple[float, float]], wall: float, idle: float
) -> None:
    operators = [
        builders.operator("norm", requested_bytes=nbytes(size), floor_ns=ns(floor))
        for size, floor in sizes
    ]
    made = waterfall(operators, sum(floor for _, floor in sizes), ROOF, wall, idle)
    assert sum(length for _, length in made.parts) == made.measured_ns == round(wall)
    assert made.extra_bytes_ns >= 0 and 0 <= made.idle_ns <= made.measured_ns


def timeline(**tokens: int | None) -> Timeline:
    phases = tuple(
        PhaseTime(
            name=name, steps=tuple(range(steps)), method="ranges", confidence="high", reason="",
            tokens=tokens.get(name), kernels=4, graph_launches=0, wall_ns=1000, busy_ns=900,
            kernel_ns=900, communication_ns=100,
            classes={"qkv_proj": 400, "communication": 100, "norm": 400},
        )
        for name, steps in (("prefill", 1), ("decode", 9))
    )  # fmt: skip
    return Timeline(source="test", steps=(), representative_step=None, phases=phases)


def test_shapes_of_phases_come_from_their_tokens() -> None:
    shapes = phase_shapes(timeline(prefill=100, decode=1))
    assert (shapes["prefill"].context, shapes["prefill"].query_tokens) == (0, 100)
    # Nine decode steps with contexts 100 ... 108: the middle one stands for them.
    assert (shapes["decode"].batch, shapes["decode"].context) == (1, 104)


def test_without_tokens_there_is_no_shape_and_no_demand() -> None:
    assert phase_shapes(timeline()) == {}
    assert phase_demand(timeline(), Architecture.from_config(MODEL), {}) == ()


def test_a_phase_is_judged_without_its_collectives() -> None:
    shapes = phase_shapes(timeline(prefill=8, decode=1))
    found = phase_demand(timeline(prefill=8, decode=1), Architecture.from_config(MODEL), shapes)
    decode = found[1]
    assert decode.compute_ns == 800
    assert decode.bytes_per_s == decode.theory.compulsory_bytes / 800 * 1e9
    assert decode.floor_ns is None


def test_a_fused_class_of_a_phase_meets_q_k_and_v() -> None:
    shapes = phase_shapes(timeline(prefill=8, decode=1))
    (_, decode) = phase_demand(
        timeline(prefill=8, decode=1), Architecture.from_config(MODEL), shapes, ROOF
    )
    classes = {c.op_class: c for c in class_demand(decode, ROOF)}
    weights = 2 * 64 * (64 + 32 + 32) * 2  # layers, inputs, q + k + v outputs, bytes
    assert weights < classes["qkv_proj"].minimum_bytes < weights + 2 * 2 * 2 * 64 * 8
    assert classes["qkv_proj"].minimum_flops == 2 * 2 * 64 * (64 + 32 + 32)
    assert classes["qkv_proj"].floor_ns == pytest.approx(classes["qkv_proj"].minimum_bytes)
