"""Can these numbers be trusted? One planted run per answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rooflens.model import Check, Machine, Model, Roof, Run, Workload, absent, known
from rooflens.reports.checks import run_checks
from tests import builders


def ns(value: float) -> Any:
    return known(value, "ns", "host")


def roof(**fields: Any) -> Roof:
    made = Roof(
        name="x", kind="measured", peak_flops_per_s=1e12, bandwidth_bytes_per_s=1e10,
        dtype="bfloat16", source="test",
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def timed(*times: float, floor: float = 50.0, ran: int = 28, **fields: Any) -> Run:
    return builders.run(
        **{
            "machine": Machine(device="cpu", last_level_cache_bytes=100_000_000),
            "workload": Workload(name="decode", layers_run=ran, layers_model=28),
            "step_times_ns": times,
            "roofs": (roof(),),
            "totals": builders.totals(step_time_ns=ns(sorted(times)[len(times) // 2]),
                                      floor_ns=known(floor, "ns", "theory")),
        }
        | fields
    )  # fmt: skip


def found(run: Run, id: str) -> Check | None:
    return {check.id: check for check in run_checks(run)}.get(id)


def outcome(run: Run, id: str) -> str:
    check = found(run, id)
    return check.outcome if check else "none"


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, "passed"), (0.995, "passed"), (0.9, "warning")]
)
def test_coverage_names_the_ops_without_a_class(share: float, expected: str) -> None:
    stray = (builders.op(0, "aten.roll", op_class="other"),) if share < 1 else ()
    run = builders.run(ops=stray, totals=builders.totals(coverage=known(share, "1", "counted")))
    check = found(run, "coverage")
    assert check is not None and check.outcome == expected
    assert ("aten.roll" in check.message) is (share < 1)


def test_coverage_without_ops_is_not_judged() -> None:
    assert outcome(builders.run(), "coverage") == "none"


def test_modelled_ops_are_said() -> None:
    op = builders.op(0, "aten.flash", attributes={"modelled": True})
    check = found(builders.run(ops=(op,)), "modelled")
    assert check is not None and "aten.flash" in check.message
    assert outcome(builders.run(ops=(builders.op(0, "aten.mm"),)), "modelled") == "none"


@pytest.mark.parametrize(
    ("rows", "weight_bytes", "extra"),
    [(8, 128 * 64 * 2, "15.36 kB"), (128, 128 * 64 * 2, None), (8, 8 * 64 * 2, None)],
)
def test_experts_that_no_token_can_have_picked(
    rows: int, weight_bytes: int, extra: str | None
) -> None:
    op = builders.op(
        0,
        "aten._grouped_mm",
        inputs=(
            builders.tensor(1, (rows, 8)),
            builders.tensor(2, (128, 8, 8), role="weight", bytes=weight_bytes),
        ),
    )
    check = found(builders.run(ops=(op,)), "experts")
    assert (check is None) is (extra is None)
    assert check is None or (extra or "") in check.message


def test_a_meta_run_has_no_times_and_says_so() -> None:
    assert outcome(builders.run(), "times") == "could_not_look"
    assert outcome(timed(100.0), "times") == "none"


def test_a_missing_roof_says_how_to_get_one() -> None:
    check = found(builders.run(), "roof")
    assert check is not None and "--gpu" in check.fix
    assert outcome(builders.run(roofs=(roof(),)), "roof") == "none"


@pytest.mark.parametrize(("ran", "expected"), [(28, "passed"), (4, "warning")])
def test_sampled_layers_are_a_warning(ran: int, expected: str) -> None:
    assert outcome(timed(100.0, 101.0, 102.0, ran=ran), "layers") == expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((100.0, 101.0, 105.0), "passed"),
        ((100.0, 101.0, 130.0), "warning"),
        ((100.0, 100.0), "could_not_look"),
    ],
)
def test_spread_of_the_steps(times: tuple[float, ...], expected: str) -> None:
    assert outcome(timed(*times), "spread") == expected


@pytest.mark.parametrize(
    ("floor", "fields", "expected"),
    [
        (50.0, {}, "passed"),
        (101.0, {}, "passed"),  # 1 % is within what clocks and rounding explain
        (150.0, {}, "failed"),
        (150.0, {"roofs": (roof(prediction=True),)}, "none"),
        (150.0, {"roofs": ()}, "none"),
    ],
)
def test_a_step_below_its_floor_means_a_wrong_roof(
    floor: float, fields: dict[str, Any], expected: str
) -> None:
    assert outcome(timed(100.0, 100.0, 100.0, floor=floor, **fields), "floor") == expected


def test_a_step_that_fits_in_the_cache_does_not_blame_the_roof() -> None:
    totals = builders.totals(
        step_time_ns=ns(100.0),
        floor_ns=known(150.0, "ns", "theory"),
        compulsory_bytes=known(150_000_000, "byte", "theory"),
    )
    check = found(timed(100.0, totals=totals), "floor")
    assert check is not None and check.outcome == "warning"
    assert "150.0 MB stay in the 100.0 MB last-level cache" in check.message


def test_one_step_below_the_floor_says_that_the_ceilings_are_too_low() -> None:
    check = found(timed(932.0, 2420.0, 2900.0, floor=1220.0), "floor")
    assert check is not None and check.outcome == "warning"
    assert "932 ns" in check.message and "busier machine" in check.message
    assert outcome(timed(1300.0, 2420.0, 2900.0, floor=1220.0), "floor") == "passed"


def test_the_fix_for_a_wrong_roof_depends_on_its_kind() -> None:
    measured = found(timed(100.0, floor=150.0), "floor")
    sheet = found(timed(100.0, floor=150.0, roofs=(roof(kind="data sheet"),)), "floor")
    assert measured is not None and "--refresh-ceilings" in measured.fix
    assert sheet is not None and "--gpu" in sheet.fix


@pytest.mark.parametrize(("each", "expected"), [(45.0, "passed"), (90.0, "warning")])
def test_op_times_add_up_to_about_a_step(each: float, expected: str) -> None:
    rows = (
        builders.operator("attention", time_ns=ns(each)),
        builders.operator("attention", part="scores", time_ns=ns(each)),
        builders.operator("lm_head", time_ns=ns(each)),
        builders.operator("mask", time_ns=absent("no op")),
    )
    assert outcome(timed(100.0, operators=rows), "op-times") == expected


def test_shared_weights_are_explained_with_the_cache() -> None:
    model = Model(name="x", weights="dummy (layers share storage)")
    check = found(timed(100.0, model=model), "weights")
    assert check is not None and check.outcome == "passed"
    assert "100.0 MB last-level cache" in check.message
    assert outcome(timed(100.0, model=Model(name="x", weights="real")), "weights") == "none"


def test_every_problem_has_a_fix_and_one_line() -> None:
    runs = (
        builders.run(),
        timed(100.0, floor=150.0, ran=4),
        timed(100.0, 300.0, 200.0),
        builders.run(totals=builders.totals(coverage=known(0.5, "1", "counted"))),
    )
    checks = [check for run in runs for check in run_checks(run)]
    assert len(checks) > 8
    for check in checks:
        assert check.outcome == "passed" or check.fix
        assert "\n" not in check.message + check.fix
