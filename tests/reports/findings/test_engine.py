"""The engine: three outcomes, shared savings, the cap of the gap, order, and prices."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rooflens.model import (
    Capture,
    Check,
    Join,
    Machine,
    Op,
    Roof,
    Run,
    Workload,
    absent,
    known,
)
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.engine import find
from rooflens.reports.findings.evidence import Evidence
from rooflens.reports.findings.rule import Answer, CannotLook, Claim, Rule
from tests import builders

MB = 1_000_000
ROOF = Roof(
    name="test GPU",
    kind="data sheet",
    peak_flops_per_s=1e14,
    bandwidth_bytes_per_s=1e12,
    dtype="bfloat16",
    source="this test",
    l2_bytes=50 * MB,
)


def copy(index: int, size: int) -> Op:
    """An op that reads and writes `size` bytes."""
    return builders.op(
        index,
        "aten.clone",
        inputs=(builders.tensor(2 * index, (size,), "int8"),),
        outputs=(builders.tensor(2 * index + 1, (size,), "int8"),),
    )


def claim(saved: dict[int, int], **fields: object) -> Claim:
    base = Claim(
        title="a defect",
        saved=saved,
        confidence="high",
        confidence_reason="a test says so",
        evidence=("one line",),
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def rule(number: str, answer: Answer) -> Rule:
    return Rule(
        id=f"{number}-test",
        needs=("ops",),
        looks_for="a defect",
        clear="No defect",
        why="because",
        remedy="do not",
        example="none",
        detect=lambda evidence: answer,
    )


def run_of(*ops: Op, roof: Roof | None = ROOF, **totals: float) -> Run:
    quantities = {
        name: known(value, "ns" if name.endswith("_ns") else "byte", "counted")
        for name, value in totals.items()
    }
    return builders.run(
        ops=ops, roofs=() if roof is None else (roof,), totals=builders.totals(**quantities)
    )


def test_three_outcomes_each_say_why() -> None:
    rules = [
        rule("R01", None),
        rule("R02", CannotLook("the moon is in the way")),
        rule("R03", claim({0: 20 * MB})),
    ]
    found, unseen, clear = find(run_of(copy(0, 10 * MB)), rules)
    assert (found.rule, found.outcome, found.title) == ("R03-test", "found", "a defect")
    assert (unseen.rule, unseen.outcome) == ("R02-test", "could_not_look")
    assert unseen.confidence_reason == "the moon is in the way"
    assert unseen.saving_bytes.absent == "could not look: the moon is in the way"
    assert (clear.rule, clear.outcome, clear.title) == ("R01-test", "clear", "No defect")


def test_a_rule_without_its_evidence_could_not_look() -> None:
    (item,) = find(builders.run(), [rule("R01", claim({0: 1}))])
    assert item.outcome == "could_not_look"
    assert "no operator was recorded" in item.confidence_reason


def test_overlapping_claims_share_in_catalogue_order() -> None:
    rules = [rule("R01", claim({0: 15 * MB})), rule("R02", claim({0: 20 * MB}))]
    first, second = find(run_of(copy(0, 10 * MB)), rules)
    assert first.saving_bytes.value == 15 * MB
    assert second.saving_bytes.value == 5 * MB
    assert "R01" in second.saving_note


def test_consumers_come_after_all_savings() -> None:
    rules = [
        rule("R01", claim({0: 4 * MB}, consumers={1: 20 * MB})),
        rule("R02", claim({1: 16 * MB})),
    ]
    items = {item.rule: item for item in find(run_of(copy(0, 2 * MB), copy(1, 10 * MB)), rules)}
    assert items["R02-test"].saving_bytes.value == 16 * MB
    assert items["R01-test"].consumer_bytes.value == 4 * MB


def test_savings_never_exceed_the_gap() -> None:
    rules = [rule("R01", claim({0: 20 * MB})), rule("R02", claim({1: 20 * MB}))]
    run = run_of(
        copy(0, 10 * MB), copy(1, 10 * MB), requested_bytes=40 * MB, compulsory_bytes=10 * MB
    )
    first, second = find(run, rules)
    assert (first.saving_bytes.value, second.saving_bytes.value) == (20 * MB, 10 * MB)
    assert "gap" in second.saving_note


def test_times_are_scaled_into_the_gap_of_the_step() -> None:
    # 40 MB at 1 TB/s are 40 us; the step lost only 10 us.
    run = run_of(copy(0, 20 * MB), step_time_ns=30_000.0, floor_ns=20_000.0)
    (item,) = find(run, [rule("R01", claim({0: 40 * MB}))])
    assert item.saving_ns is not None
    assert item.saving_ns.high == pytest.approx(10_000)


def test_a_predicted_roof_does_not_meet_measured_times() -> None:
    predicted = builders.run(
        ops=(copy(0, 20 * MB),),
        roofs=(
            Roof(
                name="other", kind="data sheet", peak_flops_per_s=1e14,
                bandwidth_bytes_per_s=1e12, dtype="bfloat16", source="test", prediction=True,
            ),
        ),
        totals=builders.totals(
            step_time_ns=known(30_000.0, "ns", "host"), floor_ns=known(20_000.0, "ns", "theory")
        ),
    )  # fmt: skip
    (item,) = find(predicted, [rule("R01", claim({0: 40 * MB}))])
    assert item.saving_ns is not None
    assert item.saving_ns.high == pytest.approx(40_000)
    assert "predicted" in item.saving_note


def test_without_a_known_cache_the_low_end_is_nothing() -> None:
    roof = msgspec.structs.replace(ROOF, l2_bytes=None)
    run = msgspec.structs.replace(run_of(copy(0, 60 * MB)), roofs=(roof,))
    (item,) = find(run, [rule("R01", claim({0: 120 * MB}))])
    assert item.saving_ns is not None
    assert item.saving_ns.low == 0
    assert item.saving_ns.high == pytest.approx(120_000)


def test_the_low_end_counts_only_tensors_larger_than_the_cache() -> None:
    small, large = copy(0, 10 * MB), copy(1, 60 * MB)
    (item,) = find(run_of(small, large), [rule("R01", claim({0: 20 * MB, 1: 120 * MB}))])
    assert item.saving_ns is not None
    assert item.saving_ns.low == pytest.approx(120_000)
    assert item.saving_ns.high == pytest.approx(140_000)
    assert "1.000 TB/s (test GPU, data sheet)" in item.saving_note


def test_flops_count_in_time_where_they_outweigh_the_bytes() -> None:
    # 10 TFLOP at 100 TFLOP/s are 100 ms, 20 MB at 1 TB/s are 20 us.
    (item,) = find(run_of(copy(0, 10 * MB)), [rule("R01", claim({0: 20 * MB}, saved_flops=10**13))])
    assert item.saving_ns is not None
    assert item.saving_ns.high == pytest.approx(1e8)


def test_moved_bytes_of_joined_kernels_replace_the_range() -> None:
    op = copy(0, 10 * MB)
    kernel = builders.kernel(
        "direct_copy_kernel_cuda",
        count=2,
        dram_bytes=known(3 * MB, "byte", "counters"),
        join=Join(method="op id", confidence="high", ops=(0,)),
    )
    run = builders.run(ops=(op,), kernels=(kernel,), roofs=(ROOF,))
    (item,) = find(run, [rule("R01", claim({0: 20 * MB}))])
    assert item.saving_bytes.value == 20 * MB
    assert item.saving_ns is not None
    assert item.saving_ns.low == item.saving_ns.high == pytest.approx(6_000)


def test_without_a_roof_there_is_no_time_and_bytes_decide_the_order() -> None:
    rules = [rule("R01", claim({0: 2 * MB})), rule("R02", claim({1: 20 * MB}))]
    items = find(run_of(copy(0, 1 * MB), copy(1, 10 * MB), roof=None), rules)
    assert [item.rule for item in items] == ["R02-test", "R01-test"]
    assert all(item.saving_ns is None for item in items)
    assert "--gpu" in items[0].saving_note


def test_ops_and_kernels_are_indices_into_the_run() -> None:
    (item,) = find(run_of(copy(7, MB), copy(9, MB)), [rule("R01", claim({9: MB}))])
    assert item.ops == (1,)


def test_a_claim_without_bytes_says_why() -> None:
    answer = claim({}, no_bytes="a wait has no bytes", ops=(0,))
    (item,) = find(run_of(copy(0, MB)), [rule("R01", answer)])
    assert item.saving_bytes == absent("a wait has no bytes")
    assert item.saving_ns is None


def test_evidence_holds_no_option_of_the_run() -> None:
    kept = set(Evidence.__dataclass_fields__)
    assert not kept & {"workload", "command", "labels", "created_at", "model"}


def test_blank_options_change_no_finding() -> None:
    run = run_of(copy(0, 10 * MB))
    blank = builders.run(
        ops=run.ops, roofs=run.roofs, totals=run.totals, command=(), workload=Workload(name="")
    )
    assert find(run) == find(blank)


def test_only_the_rules_that_took_the_bytes_are_named() -> None:
    rules = [
        rule("R01", claim({0: 20 * MB})),
        rule("R02", claim({1: 20 * MB})),
        rule("R03", claim({1: 20 * MB})),
    ]
    items = {item.rule: item for item in find(run_of(copy(0, 10 * MB), copy(1, 10 * MB)), rules)}
    assert "(R02)" in items["R03-test"].saving_note


def test_a_measured_roof_takes_the_cache_of_its_machine() -> None:
    measured = Roof(
        name="this CPU", kind="measured", peak_flops_per_s=1e12, bandwidth_bytes_per_s=1e12,
        dtype="bfloat16", source="copy probe",
    )  # fmt: skip
    run = builders.run(
        ops=(copy(0, 10 * MB), copy(1, 60 * MB)),
        roofs=(measured,),
        machine=Machine(device="cpu", last_level_cache_bytes=32 * MB),
    )
    (item,) = find(run, [rule("R01", claim({0: 20 * MB, 1: 120 * MB}))])
    assert item.saving_ns is not None
    assert (item.saving_ns.low, item.saving_ns.high) == (120_000, 140_000)


def test_a_counted_run_is_valid_by_itself_and_its_own_checks_spoil_no_capture() -> None:
    failed = Check(id="op-order", outcome="failed", message="what ran is not what was counted")
    invalid = [rule for rule in RULES if rule.number == "R36"]
    counted = builders.run(ops=(copy(0, MB),), checks=(failed,))
    assert find(counted, invalid)[0].outcome == "could_not_look"
    captured = builders.run(
        kernels=(builders.kernel("nvjet", duration_ns=known(1.0, "ns", "counters")),),
        captures=(Capture(file="a", format="ncu-rep", tool="ncu", rows=1),),
        checks=(failed,),
    )
    assert find(captured, invalid)[0].outcome == "clear"
