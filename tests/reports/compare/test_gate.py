"""Conditions of --fail-on: what they read, what they answer, which exit code they give."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.errors import UsageError
from rooflens.model import Finding, Machine, Run, absent, known
from rooflens.reports.compare import compare
from rooflens.reports.compare.gate import evaluate, exit_code, parse_conditions
from tests import builders


def run(attention: int = 1000, norm: int = 1000, calls: int = 3, **fields: Any) -> Run:
    rows = tuple(
        builders.operator(name, count=calls, requested_bytes=known(size, "byte", "counted"))
        for name, size in (("attention", attention), ("norm", norm))
    )
    fields.setdefault(
        "totals", builders.totals(requested_bytes=known(attention + norm, "byte", "counted"))
    )
    return builders.run(operators=rows, **fields)


def code(base: Run, head: Run, *conditions: str) -> int:
    return exit_code(evaluate(compare([base], [head]), parse_conditions(conditions)))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), 1),
        (("regression",), 1),
        (("never",), 0),
        (("any-change",), 1),
        (("op-bytes>1%",), 1),
        (("op-bytes>50%",), 0),
        (("bytes > 4.9 %",), 1),
        (("bytes>5%",), 0),
        (("bytes>0.05",), 0),
        (("launches",), 0),
        (("flops>0%",), 3),
        (("never,bytes>1%",), 1),
        (("never", "bytes>1%"), 1),
        (("time>5%",), 3),
        (("kernels",), 3),
    ],
)
def test_ten_percent_more_bytes_in_attention(conditions: tuple[str, ...], expected: int) -> None:
    assert code(run(), run(attention=1100), *conditions) == expected


def test_launches_fail_in_both_directions() -> None:
    assert code(run(calls=3), run(calls=4), "launches") == 1
    assert code(run(calls=4), run(calls=3), "launches") == 1
    assert code(run(calls=4), run(calls=3), "launches>30%") == 0
    assert code(run(calls=4), run(calls=3), "regression") == 0
    assert code(run(), run(), "launches") == 0


def test_an_improvement_is_a_change_and_no_regression() -> None:
    assert code(run(), run(norm=900)) == 0
    assert code(run(), run(norm=900), "any-change") == 1
    assert code(run(), run(), "any-change") == 0


def test_bytes_that_move_between_classes_are_seen_per_class() -> None:
    assert code(run(), run(attention=1100, norm=900), "bytes>0%") == 0
    assert code(run(), run(attention=1100, norm=900), "op-bytes>0%") == 1


def test_runs_that_must_not_be_compared_are_never_passed() -> None:
    head = run(machine=Machine(device="cuda", gpu="Tesla T4"))
    for condition in ("regression", "any-change", "bytes>1%", "finding:any"):
        assert code(run(), head, condition) == 3
    assert code(run(), head, "never") == 0


def test_missing_work_is_not_passed_by_a_byte_limit() -> None:
    less = builders.run(
        operators=run().operators[:1],
        totals=builders.totals(requested_bytes=known(1000, "byte", "counted")),
    )
    assert code(run(), less, "bytes>1%") == 3


def test_a_failure_outranks_what_cannot_be_judged() -> None:
    assert code(run(), run(attention=1100), "time>5%,bytes>1%") == 1


def test_times_fail_only_when_shown_and_beyond_the_limit() -> None:
    def timed(ns: float) -> Run:
        times = tuple(ns * (1 + 0.001 * step) for step in (0, 2, 1, 3, 0, 1, 2, 0))
        return run(step_times_ns=times)

    assert code(timed(100), timed(110), "time>5%") == 1
    assert code(timed(100), timed(110), "time>20%") == 0
    assert code(timed(100), timed(100), "time>5%") == 0
    assert code(timed(100), timed(110)) == 1


def finding(outcome: Any) -> Finding:
    return Finding(
        rule="R03-repeat-kv-expand",
        outcome=outcome,
        title="copies",
        saving_bytes=known(64, "byte", "counted") if outcome == "found" else absent("-"),
        consumer_bytes=absent("-"),
    )


@pytest.mark.parametrize(
    "condition", ["finding:R03", "finding:any", "FINDING:r03-repeat-kv-expand"]
)
def test_a_finding_that_appears_fails(condition: str) -> None:
    clear, found = (run(findings=(finding(outcome),)) for outcome in ("clear", "found"))
    blind = run(findings=(finding("could_not_look"),))
    assert code(clear, found, condition) == 1
    assert code(found, clear, condition) == 0
    assert code(found, found, condition) == 0
    assert code(blind, found, condition) == 3
    assert code(clear, blind, condition) == 3
    assert code(run(), run(), condition) == 3


def test_a_rule_that_does_not_exist_is_not_passed() -> None:
    clear = run(findings=(finding("clear"),))
    assert code(clear, clear, "finding:R77") == 3


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("regresion", "regression"),
        ("op-bytes", "op-bytes>1%"),
        ("bytes>x", "bytes>1%"),
        ("byte>1%", "bytes"),
        ("finding:", "finding:R03"),
        ("finding:everything", "finding:any"),
    ],
)
def test_a_wrong_condition_is_answered_with_a_right_one(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_conditions([text])
    assert hint in str(error.value)
    assert text in str(error.value)
