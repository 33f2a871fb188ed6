"""Budgets: which runs they are for, what they allow, and how they are rewritten."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rooflens.errors import CannotJudge
from rooflens.model import Finding, Run, Workload, absent, known
from rooflens.reports.budget_file import updated
from rooflens.reports.budgets import check, matching, parse_budgets, tokens
from tests import builders


def a_run(requested: int = 1000, **fields: Any) -> Run:
    quantities: dict[str, Any] = {
        "requested_bytes": known(requested, "byte", "counted"),
        "requested_flops": known(4000, "flop", "counted"),
        "moved_bytes": known(990, "byte", "counters"),
    } | fields.pop("quantities", {})
    return builders.run(totals=builders.totals(**quantities), **fields)


def outcomes(text: str, run: Run) -> dict[str, str]:
    (budget,) = parse_budgets("[budget.b]\n" + text, "b.toml")
    return {answer.condition.removeprefix("b: "): answer.outcome for answer in check(budget, run)}


def test_limits_are_inclusive_and_exact() -> None:
    run = a_run()
    for limit, expected in ((1000, "passed"), (999, "failed"), (1001, "passed")):
        found = outcomes(f"requested_bytes_per_token = {limit}", run)
        assert found == {"requested_bytes_per_token": expected}


def test_bytes_are_per_new_token() -> None:
    run = a_run(workload=Workload(name="verify", batch=2, query_tokens=5))
    assert tokens(run) == 10
    assert outcomes("requested_bytes_per_token = 100", run).popitem()[1] == "passed"
    assert outcomes("flops_per_token = 399", run).popitem()[1] == "failed"
    prefill = a_run(workload=Workload(name="prefill", batch=1, prompt=50))
    assert outcomes("requested_bytes_per_token = 20", prefill).popitem()[1] == "passed"


def test_what_was_not_measured_cannot_be_judged() -> None:
    run = a_run(quantities={"moved_bytes": absent("no counters")})
    assert outcomes("moved_bytes_per_token = 5\nlaunches = 3", run) == {
        "launches": "cannot judge", "moved_bytes_per_token": "cannot judge",
    }  # fmt: skip
    unknown = a_run(workload=Workload(name="import"))
    assert outcomes("flops_per_token = 5", unknown).popitem()[1] == "cannot judge"


def test_moved_bytes_have_a_tolerance() -> None:
    assert outcomes("moved_bytes_per_token = 981", a_run()).popitem()[1] == "passed"
    assert outcomes("moved_bytes_per_token = 980", a_run()).popitem()[1] == "failed"
    text = 'moved_bytes_per_token = 900\nmoved_bytes_tolerance = "10%"'
    assert outcomes(text, a_run()).popitem()[1] == "passed"


def test_missing_work_is_not_within_a_budget() -> None:
    run = a_run(quantities={"compulsory_bytes": known(2000, "byte", "theory")})
    assert outcomes("requested_bytes_per_token = 5000", run).popitem()[1] == "cannot judge"


@pytest.mark.parametrize(
    ("times_ms", "expected"),
    [
        ((10, 10, 10), "passed"),
        ((10.9, 11, 11), "passed"),
        ((12, 12, 12, 12, 12), "failed"),
        # One half to the fourth is 0.06: four steps above a limit do not show a median above it.
        ((12, 12, 12, 12), "cannot judge"),
        ((12, 12, 12, 10, 10), "cannot judge"),
    ],
)
def test_a_time_is_over_its_budget_when_the_steps_show_it(
    times_ms: tuple[float, ...], expected: str
) -> None:
    run = a_run(step_times_ns=tuple(1e6 * time for time in times_ms))
    assert outcomes("step_time_ms = 10", run) == {"step_time_ms": expected}


def test_findings_that_are_not_allowed() -> None:
    def finding(rule: str, outcome: Any) -> Finding:
        return Finding(
            rule=rule, outcome=outcome, title=rule,
            saving_bytes=absent("-"), consumer_bytes=absent("-"),
        )  # fmt: skip

    run = a_run(
        findings=(
            finding("R01-unfused-scores", "found"),
            finding("R03-repeat-kv-expand", "clear"),
            finding("R15-low-bandwidth", "could_not_look"),
        )
    )
    text = 'findings_not_allowed = ["R01", "R03-repeat-kv-expand", "R15", "R99"]'
    assert list(outcomes(text, run).values()) == ["failed", "passed"] + ["cannot judge"] * 2


def test_a_budget_is_for_the_runs_that_its_keys_name() -> None:
    text = """
[budget.small]
workload = "decode"
batch = 1
[budget.all]
[budget.other]
gpu = "NVIDIA H200"
"""
    budgets = parse_budgets(text, "b.toml")
    assert [budget.name for budget in matching(budgets, a_run(), "b.toml")] == ["small", "all"]
    with pytest.raises(CannotJudge, match="workload decode"):
        matching(budgets[2:], a_run(), "b.toml")


def test_an_update_keeps_everything_else_in_the_file() -> None:
    text = """# our budgets
[budget.mine] # decode
batch = 1
requested_bytes_per_token = 500
step_time_ms = 3.5
step_time_tolerance = "25%"
reasons = [
  "2025-01-01: old",
]

# about the other
[budget.other]
batch = 64
ops = 3
"""
    new, name = updated(text, a_run(), 'say "why"', "b.toml")
    assert name == "mine"
    assert new.startswith("# our budgets\n[budget.mine]\n")
    assert new.endswith("\n\n# about the other\n[budget.other]\nbatch = 64\nops = 3\n")
    table = tomllib.loads(new)["budget"]["mine"]
    assert table["requested_bytes_per_token"] == 1000
    assert "flops_per_token" not in table
    # No step was timed: the old limit stays.
    assert (table["step_time_ms"], table["step_time_tolerance"]) == (3.5, "25%")
    assert table["reasons"] == [
        "2025-01-01: old",
        '2026-01-02: say "why" (requested_bytes_per_token 500 -> 1,000)',
    ]


def test_a_new_budget_is_added_and_holds_today() -> None:
    first, name = updated("", a_run(), "first", "b.toml")
    assert name == "decode-b1-c2047"
    assert first.startswith("[budget.decode-b1-c2047]")
    again, same = updated(first, a_run(), "nothing new", "b.toml")
    assert same == name
    (budget,) = parse_budgets(again, "b.toml")
    assert {answer.outcome for answer in check(budget, a_run())} == {"passed"}
    other, second = updated(first, a_run(workload=Workload(name="decode", batch=2)), "x", "b.toml")
    assert second == "decode-b2"
    assert len(parse_budgets(other, "b.toml")) == 2


@pytest.mark.parametrize(
    "reason", ['quote " and \\', "line\nbreak", "\x00\x1b[0m", "日本 🚀", "]\n[x]"]
)
def test_any_reason_is_valid_toml(reason: str) -> None:
    text, _ = updated("", a_run(), reason, "b.toml")
    (budget,) = parse_budgets(text, "b.toml")
    assert budget.reasons[0].startswith("2026-01-02: ")
    assert "\n[x]" not in text
