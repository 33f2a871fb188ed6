"""Comparing whole runs: exact counts, verdicts, missing work, and the algebra of mirrors."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.errors import UsageError
from rooflens.model import Finding, Machine, Op, Quantity, Run, absent, known
from rooflens.reports.compare import Options, compare
from rooflens.reports.compare.deltas import MIRROR
from rooflens.reports.compare.records import Comparison, Verdict
from rooflens.reports.join.counted import operator_rows, totals
from tests import builders

B: Any = "byte"
F: Any = "flop"


def counted(ops: tuple[Op, ...], **fields: Any) -> Run:
    """A run whose rows and totals are sums over its ops."""
    fields.setdefault("totals", totals(ops))
    return builders.run(ops=ops, operators=operator_rows(ops), **fields)


def layer_op(index: int, layer: int, name: str, module: str, op_class: str, **fields: Any) -> Op:
    path = f"model.layers.{layer}.{module}"
    return builders.op(index, name, module=path, layer=layer, op_class=op_class, **fields)


def matmul(index: int, layer: int, module: str, op_class: str, rows: int = 8) -> Op:
    weight = builders.tensor(100 + index, (rows, 4), role="weight")
    out = builders.tensor(900 + index, (1, rows))
    return layer_op(
        index, layer, "aten.mm", module, op_class, inputs=(weight,), outputs=(out,), flops=8 * rows
    )


def step(layers: int = 2, up: str = "mlp.up_proj", up_class: str = "up_proj") -> tuple[Op, ...]:
    found = []
    for layer in range(layers):
        found.append(matmul(2 * layer, layer, "self_attn.q_proj", "q_proj"))
        found.append(matmul(2 * layer + 1, layer, up, up_class, rows=12))
    return tuple(found)


@cache
def seven_b(attention: str) -> Run:
    """A real recording of all 28 layers of Qwen2.5-7B on meta."""
    from rooflens.harness.plan import RunOptions, make_plan
    from rooflens.harness.running import run_step

    options = RunOptions(workload="decode", batch=1, device="meta", attention=attention)
    return run_step(make_plan(options))


@pytest.fixture(scope="module")
def flipped() -> Comparison:
    return compare([seven_b("sdpa")], [seven_b("eager")])


def total(comparison: Comparison, metric: str) -> Any:
    return next(item for item in comparison.totals if item.metric == metric)


def test_eager_against_sdpa_is_a_regression_of_attention(flipped: Comparison) -> None:
    assert flipped.verdict is Verdict.REGRESSED
    assert "attention +1.696 GB" in flipped.sentence
    first = flipped.operators[0]
    assert first.op_class in ("attention", "mask")
    attention = next(row for row in flipped.operators if row.op_class == "attention")
    assert attention.verdict is Verdict.REGRESSED
    assert "scaled_dot_product_attention → " in attention.ops
    assert flipped.ops[0].module == "model.layers.*.self_attn"
    assert flipped.ops[0].layers == 28


def test_the_difference_is_the_sum_over_operators_and_over_ops(flipped: Comparison) -> None:
    change = total(flipped, "requested_bytes").change
    # Totals of two recordings, 16,211,262,656 and 14,515,526,792 bytes when this was written.
    expected = sum(op.bytes_in + op.bytes_out for op in seven_b("eager").ops)
    expected -= sum(op.bytes_in + op.bytes_out for op in seven_b("sdpa").ops)
    assert change == expected > 0
    rows = [item for row in flipped.operators for item in row.deltas]
    assert sum(item.change or 0 for item in rows if item.metric == "requested_bytes") == change
    assert sum(row.bytes_change for row in flipped.ops) == change
    assert total(flipped, "requested_flops").change == 0
    assert not any("operators explain" in note for note in flipped.notes)


def test_the_flip_makes_findings_appear(flipped: Comparison) -> None:
    appeared = {change.rule[:3]: change for change in flipped.findings}
    assert appeared["R03"].kind == "appeared"
    # 28 layers x 2 copies of 7 x 4 heads x 2048 keys x 128 x 2 bytes, written and read.
    assert appeared["R03"].saving_bytes.change == 939_524_096


def test_the_other_way_round_is_an_improvement() -> None:
    back = compare([seven_b("eager")], [seven_b("sdpa")])
    assert back.verdict is Verdict.IMPROVED
    assert {change.kind for change in back.findings} == {"vanished"}


def test_the_same_run_twice_has_no_rows() -> None:
    same = compare([seven_b("sdpa")], [seven_b("sdpa")])
    assert same.verdict is Verdict.NO_CHANGE_SHOWN
    assert (same.operators, same.ops, same.kernels, same.findings, same.environment) == ((),) * 5
    assert "Both sides are the same run." in same.notes


def test_a_renamed_module_is_no_change_even_when_it_loses_its_class() -> None:
    base = counted(step())
    for head in (
        counted(step(up="mlp.w3")),
        counted(step(up="feed.w3", up_class="other")),
    ):
        same = compare([base], [head])
        assert same.verdict is Verdict.NO_CHANGE_SHOWN, same.sentence
        assert (same.operators, same.ops) == ((), ())
        assert same.renamed_modules == 2
        assert any("2 modules renamed" in note for note in same.notes)


def test_fused_projections_are_compared_with_their_parts() -> None:
    parts = [matmul(i, 0, f"attn.{name}", name, 8) for i, name in
             enumerate(("q_proj", "k_proj", "v_proj"))]  # fmt: skip
    fused = matmul(0, 0, "attn.qkv_proj", "qkv_proj", 24)
    found = compare([counted(tuple(parts))], [counted((fused,))])
    (row,) = found.operators
    assert row.op_class == "qkv_proj"
    calls = next(item for item in row.deltas if item.metric == "calls")
    assert (calls.base.value, calls.head.value) == (3, 1)
    assert found.verdict is Verdict.IMPROVED


def test_one_byte_more_is_a_regression() -> None:
    ops = step()
    grown = (*ops[:-1], msgspec.structs.replace(ops[-1], bytes_out=ops[-1].bytes_out + 1))
    found = compare([counted(ops)], [counted(grown)])
    assert found.verdict is Verdict.REGRESSED
    assert total(found, "requested_bytes").change == 1


def test_one_worse_class_decides_and_the_gain_of_the_step_is_told() -> None:
    def run(attention: int, norm: int) -> Run:
        rows = tuple(
            builders.operator(name, requested_bytes=known(size, B, "counted"))
            for name, size in (("attention", attention), ("norm", norm))
        )
        total = known(attention + norm, B, "counted")
        return builders.run(operators=rows, totals=builders.totals(requested_bytes=total))

    found = compare([run(1000, 100)], [run(900, 150)])
    assert found.verdict is Verdict.REGRESSED
    assert "Norm: requested bytes +50 B (+50 %)" in found.sentence
    assert "The step as a whole got better: requested bytes −50 B" in found.sentence


def test_a_missing_operator_class_is_not_a_win() -> None:
    ops = step()
    less = tuple(op for op in ops if op.op_class != "up_proj")
    found = compare([counted(ops)], [counted(less)])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert "up_proj is gone" in found.sentence
    explained = compare(
        [counted(ops)], [counted(less)], Options(drop_reasons={"up_proj": "merged"})
    )
    assert explained.verdict is Verdict.IMPROVED
    assert "up_proj is gone, explained: merged." in explained.notes


def test_an_overhead_class_may_go() -> None:
    copy = layer_op(9, 0, "aten.clone", "attn", "layout_copy", bytes_in=64, bytes_out=64)
    found = compare([counted((*step(), copy))], [counted(step())])
    assert found.verdict is Verdict.IMPROVED
    assert found.operators[0].verdict is Verdict.GONE


@pytest.mark.parametrize(
    ("field", "limit", "words"),
    [
        ("requested_bytes", "compulsory_bytes", "below the compulsory"),
        ("requested_flops", "minimum_flops", "below the minimum"),
    ],
)
def test_less_than_the_work_needs_is_not_a_win(field: str, limit: str, words: str) -> None:
    unit: Any = B if "bytes" in field else F

    def run(value: int) -> Run:
        quantities: dict[str, Any] = {
            field: known(value, unit, "counted"), limit: known(100, unit, "theory"),
        }  # fmt: skip
        return builders.run(totals=builders.totals(**quantities))

    assert compare([run(110)], [run(105)]).verdict is Verdict.IMPROVED
    found = compare([run(110)], [run(90)])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert words in found.sentence


def test_moved_bytes_below_the_minimum_are_normal() -> None:
    """The cache absorbed them."""

    def run(value: int) -> Run:
        moved = known(value, B, "counters")
        return builders.run(
            totals=builders.totals(moved_bytes=moved, minimum_bytes=known(100, B, "theory"))
        )

    assert compare([run(110)], [run(50)]).verdict is Verdict.IMPROVED
    assert compare([run(1000)], [run(1009)]).verdict is Verdict.NO_CHANGE_SHOWN
    assert total(compare([run(1000)], [run(1009)]), "moved_bytes").verdict is Verdict.WITHIN_NOISE
    assert compare([run(1000)], [run(1011)]).verdict is Verdict.REGRESSED


def test_another_source_is_not_compared_with() -> None:
    def run(source: Any) -> Run:
        return builders.run(totals=builders.totals(executed_flops=known(5, F, source)))

    item = total(compare([run("counters")], [run("counted")]), "executed_flops")
    assert item.verdict is Verdict.NOT_COMPARABLE
    assert "counters on one side" in item.reason


def test_measurements_on_other_layers_are_not_compared() -> None:
    def run(*layers: int) -> Run:
        moved = Quantity(value=100, unit="byte", source="counters", extrapolated_from=layers)
        return builders.run(totals=builders.totals(moved_bytes=moved))

    item = total(compare([run(0, 5)], [run()]), "moved_bytes")
    assert item.verdict is Verdict.NOT_COMPARABLE
    assert item.reason == "measured on layers 0, 5 on one side, on all layers on the other"
    assert total(compare([run(0)], [run(0)]), "moved_bytes").change == 0
    assert total(compare([run(0), run(0)], [run()]), "moved_bytes").change is None
    mixed = total(compare([run(0), run()], [run(0)]), "moved_bytes")
    assert "different evidence" in mixed.reason


def test_runs_of_a_side_that_contradict_each_other_cannot_be_judged() -> None:
    runs = [counted(step()), counted(step(3))]
    found = compare(runs, [counted(step())])
    assert found.verdict is Verdict.CANNOT_JUDGE
    assert "disagree" in found.sentence


def test_different_gpus_are_not_comparable_and_say_why() -> None:
    base = counted(step(), machine=Machine(device="cuda", gpu="NVIDIA H200"))
    head = counted(step(3), machine=Machine(device="cuda", gpu="Tesla T4"))
    found = compare([base], [head])
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "NVIDIA H200 against Tesla T4" in found.sentence
    assert (found.operators, found.ops, found.findings) == ((), (), ())
    assert total(found, "requested_bytes").verdict is Verdict.NOT_COMPARABLE


def test_nothing_in_common_cannot_be_judged() -> None:
    found = compare([counted(step())], [builders.run()])
    assert found.verdict is Verdict.CANNOT_JUDGE


def test_a_comparison_needs_runs() -> None:
    with pytest.raises(UsageError):
        compare([], [builders.run()])


def test_only_a_rule_that_both_sides_answered_can_appear() -> None:
    def finding(outcome: Any) -> Finding:
        saving = known(64, B, "counted") if outcome == "found" else absent("-")
        return Finding(
            rule="R03-repeat-kv-expand", outcome=outcome, title=outcome,
            saving_bytes=saving, consumer_bytes=absent("-"),
        )  # fmt: skip

    def kinds(base: Any, head: Any) -> list[tuple[str, Verdict]]:
        sides = [[builders.run(findings=(finding(one),))] for one in (base, head)]
        return [(row.kind, row.verdict) for row in compare(sides[0], sides[1]).findings]

    assert kinds("clear", "found") == [("appeared", Verdict.REGRESSED)]
    assert kinds("found", "clear") == [("vanished", Verdict.IMPROVED)]
    assert kinds("could_not_look", "found") == [("seen only in head", Verdict.CANNOT_JUDGE)]
    assert kinds("clear", "could_not_look") == []


OPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["q_proj", "up_proj", "cast", "attention"]),
        st.integers(0, 9),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=8,
)


def random_run(rows: list[tuple[int, str, int, int]], created_at: str) -> Run:
    ops = tuple(
        layer_op(
            index,
            layer,
            "aten.mm",
            op_class,
            op_class,
            bytes_in=nbytes,
            bytes_out=1,
            flops=flops,
        )
        for index, (layer, op_class, nbytes, flops) in enumerate(rows)
    )
    return counted(ops, created_at=created_at)


@settings(max_examples=40, deadline=None)
@given(OPS)
def test_a_run_never_regresses_against_itself(rows: list[tuple[int, str, int, int]]) -> None:
    run = random_run(rows, "2026-01-01T00:00:00Z")
    found = compare([run], [run])
    assert found.verdict is Verdict.NO_CHANGE_SHOWN
    assert (found.operators, found.ops) == ((), ())


@settings(max_examples=40, deadline=None)
@given(OPS, OPS)
def test_comparing_the_other_way_mirrors_every_row(
    one: list[tuple[int, str, int, int]], other: list[tuple[int, str, int, int]]
) -> None:
    base, head = random_run(one, "2026-01-01T00:00:00Z"), random_run(other, "2026-01-02T00:00:00Z")
    there, back = compare([base], [head]), compare([head], [base])
    mirrored = {row.op_class: row for row in back.operators}
    assert set(mirrored) == {row.op_class for row in there.operators}
    for row in there.operators:
        again = mirrored[row.op_class]
        changes = {item.metric: item.change for item in row.deltas}
        assert changes == {item.metric: -(item.change or 0) for item in again.deltas}
        for item in row.deltas:
            same = next(found for found in again.deltas if found.metric == item.metric)
            assert same.verdict is MIRROR.get(item.verdict, item.verdict)
    assert sum(row.bytes_change for row in there.ops) == -sum(row.bytes_change for row in back.ops)
    assert sum(row.bytes_change for row in there.ops) == total(there, "requested_bytes").change
