"""Budgets of a workload in `rooflens.toml`: what a step may request, move, compute and take.

    [budget.decode-b1]
    workload = "decode"                  # which runs: every key given must match
    batch = 1
    context = 2047
    requested_bytes_per_token = 14518271984
    flops_per_token = 14962655232
    ops = 1141
    findings_not_allowed = ["R01", "R03"]
    step_time_ms = 14.2
    step_time_tolerance = "10%"
    reasons = ["2026-12-01: first numbers"]

Limits are inclusive. Exact ones have no tolerance; moved bytes have 1 % and times 10 % unless the
budget says otherwise. docs/comparing.md lists every key.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rooflens.errors import CannotJudge, InputError, did_you_mean
from rooflens.model import Quantity, Run, Source, absent, known
from rooflens.reports.compare.gate import Answer
from rooflens.reports.compare.judging import implausible
from rooflens.reports.compare.times import step_samples
from rooflens.reports.format import count_text, exact_text, percent_text, quantity_text, time_text

SELECTORS: dict[str, type] = {
    "workload": str, "model": str, "batch": int, "context": int, "prompt": int,
    "query_tokens": int, "dtype": str, "logits": str, "attention": str, "device": str, "gpu": str,
}  # fmt: skip
EXACT_LIMITS = ("requested_bytes_per_token", "flops_per_token", "ops", "launches")
LIMITS = (*EXACT_LIMITS, "moved_bytes_per_token", "step_time_ms")
TOLERANCES = {"moved_bytes_tolerance": 0.01, "step_time_tolerance": 0.1}
WORDS = ("findings_not_allowed", "reasons")
ALPHA = 0.05


@dataclass(frozen=True)
class Budget:
    """One table of the file."""

    name: str
    selectors: Mapping[str, str | int]
    limits: Mapping[str, float]
    tolerances: Mapping[str, float]
    findings_not_allowed: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def parse_budgets(text: str, where: str) -> tuple[Budget, ...]:
    """Read the budgets of a file. Raises InputError that names the table and the key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}.", "See docs/comparing.md.") from None
    tables = data.get("budget", {})
    if not isinstance(tables, dict):
        raise InputError(f"{where}: budget is not a table.", "Write [budget.NAME] tables.")
    return tuple(_budget(name, table, where) for name, table in tables.items())


def _budget(name: str, table: object, where: str) -> Budget:
    place = f"{where}: [budget.{name}]"
    if not isinstance(table, dict):
        raise InputError(f"{place} is not a table.", "Write [budget.NAME].")
    known_keys = (*SELECTORS, *LIMITS, *TOLERANCES, *WORDS)
    for key, value in table.items():
        if key not in known_keys:
            raise InputError(f'{place} has an unknown key "{key}".', did_you_mean(key, known_keys))
        if not _fits(key, value):
            raise InputError(f"{place}: {key} = {value!r} has the wrong type.", _expected(key))
    return Budget(
        name=name,
        selectors={key: table[key] for key in SELECTORS if key in table},
        limits={key: table[key] for key in LIMITS if key in table},
        tolerances={
            key: _share(table[key]) if key in table else default
            for key, default in TOLERANCES.items()
        },
        findings_not_allowed=tuple(table.get("findings_not_allowed", ())),
        reasons=tuple(table.get("reasons", ())),
    )


def _fits(key: str, value: object) -> bool:
    if key in SELECTORS:
        return type(value) is SELECTORS[key]
    if key in TOLERANCES:
        return isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?\s*%", value) is not None
    if key in LIMITS:
        return type(value) in (int, float) and math.isfinite(float(str(value))) and value >= 0  # type: ignore[operator]
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _expected(key: str) -> str:
    if key in TOLERANCES:
        return 'Write a share like "5%".'
    if key in SELECTORS:
        return "Write text in quotes." if SELECTORS[key] is str else "Write a whole number."
    return "Write a number from 0." if key in LIMITS else "Write a list of texts."


def _share(text: str) -> float:
    return float(text.strip().removesuffix("%")) / 100


def matching(budgets: Sequence[Budget], run: Run, where: str) -> tuple[Budget, ...]:
    """The budgets that are about this run. Raises CannotJudge when there is none."""
    facts = run_facts(run)
    found = tuple(
        budget
        for budget in budgets
        if all(facts.get(key) == value for key, value in budget.selectors.items())
    )
    if not found:
        said = ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None)
        raise CannotJudge(
            f"No budget in {where} is for this run ({said}).",
            "Write one with `profile check RUN --update --reason ...`.",
        )
    return found


def run_facts(run: Run) -> dict[str, str | int | None]:
    """What selectors are compared with."""
    work = run.workload
    return {
        "workload": work.name, "model": run.model.name, "batch": work.batch,
        "context": work.context, "prompt": work.prompt, "query_tokens": work.query_tokens,
        "dtype": work.dtype or None, "logits": work.logits or None,
        "attention": work.attention or None, "device": run.machine.device,
        "gpu": run.machine.gpu or None,
    }  # fmt: skip


def tokens(run: Run) -> int | None:
    """New tokens of one step: what bytes and FLOPs are divided by."""
    work = run.workload
    new = work.query_tokens if work.query_tokens is not None else work.prompt
    return work.batch * new if work.batch and new else None


def actual(run: Run, limit: str) -> Quantity:
    """Today's number for one limit, in the limit's own unit (times in ns)."""
    if limit == "ops":
        return known(len(run.ops), "1", "counted") if run.ops else absent("no ops were counted")
    if limit == "launches":
        launches = sum(row.count for row in run.kernels)
        source: Source = "timeline" if "timeline" in run.evidence else "counters"
        return known(launches, "1", source) if launches else absent("no kernels were captured")
    if limit == "step_time_ms":
        times = step_samples(run)
        return known(median(times), "ns", "host") if times else run.totals.step_time_ns
    totals = {
        "requested_bytes_per_token": run.totals.requested_bytes,
        "moved_bytes_per_token": run.totals.moved_bytes,
        "flops_per_token": run.totals.requested_flops,
    }
    total, count = totals[limit], tokens(run)
    if total.value is None or total.unit is None or total.source is None:
        return total
    if count is None:
        return absent("the run does not say how many tokens its step has")
    value = total.value / count
    return known(int(value) if value.is_integer() else value, total.unit, total.source)


def check(budget: Budget, run: Run) -> tuple[Answer, ...]:
    """Hold a run against a budget: one answer a limit."""
    missing = implausible(run.totals)
    answers = [_check_limit(budget, name, run, missing) for name in budget.limits]
    answers += [_check_finding(budget, rule, run) for rule in budget.findings_not_allowed]
    return tuple(answers)


def _check_limit(budget: Budget, name: str, run: Run, missing: Sequence[str]) -> Answer:
    condition = f"{budget.name}: {name}"
    value = actual(run, name)
    if value.value is None:
        return Answer(
            condition=condition, outcome="cannot judge", message=value.absent or "not measured"
        )
    if name == "step_time_ms":
        return _check_time(budget, condition, run)
    limit = budget.limits[name]
    tolerance = budget.tolerances["moved_bytes_tolerance"] if name.startswith("moved") else 0.0
    if value.value > limit * (1 + tolerance):
        allowed = _like(value, limit)
        over = f", {percent_text((value.value - limit) / limit)} more" if limit else ""
        return Answer(
            condition=condition,
            outcome="failed",
            message=f"{quantity_text(value)} is over the budget of {quantity_text(allowed)}{over} "
            f"({exact_text(value)} against {count_text(limit)})",
        )
    if missing and name in ("requested_bytes_per_token", "flops_per_token"):
        return Answer(
            condition=condition,
            outcome="cannot judge",
            message=f"work is missing, which is not a win: {'; '.join(missing)}",
        )
    return Answer(
        condition=condition,
        outcome="passed",
        message=f"{quantity_text(value)} of {quantity_text(_like(value, limit))}",
    )


def _like(value: Quantity, number: float) -> Quantity:
    return known(number, value.unit or "1", value.source or "counted")


def _check_time(budget: Budget, condition: str, run: Run) -> Answer:
    """A time is over its budget when a sign test on the steps shows it."""
    limit_ns = budget.limits["step_time_ms"] * 1e6
    allowed = limit_ns * (1 + budget.tolerances["step_time_tolerance"])
    times = step_samples(run) or (float(actual(run, "step_time_ms").value or 0),)
    middle = median(times)
    said = f"median {time_text(middle)} of {len(times)} steps, budget {time_text(limit_ns)} + "
    said += percent_text(budget.tolerances["step_time_tolerance"])
    if middle <= allowed:
        return Answer(condition=condition, outcome="passed", message=said)
    above = sum(time > allowed for time in times)
    p = sum(math.comb(len(times), k) for k in range(above, len(times) + 1)) / 2 ** len(times)
    if p < ALPHA:
        return Answer(condition=condition, outcome="failed", message=f"{said} (p={p:.3f})")
    return Answer(
        condition=condition,
        outcome="cannot judge",
        message=f"{said}; {above} steps above it do not show that (p={p:.3f}), take more steps",
    )


def _check_finding(budget: Budget, rule: str, run: Run) -> Answer:
    condition = f"{budget.name}: finding {rule}"
    findings = [finding for finding in run.findings if is_rule(finding.rule, rule)]
    found = [finding for finding in findings if finding.outcome == "found"]
    if found:
        return Answer(condition=condition, outcome="failed", message=found[0].title)
    unknown = [finding for finding in findings if finding.outcome == "could_not_look"]
    if unknown or not findings:
        message = unknown[0].title if unknown else "the run does not answer this rule"
        return Answer(condition=condition, outcome="cannot judge", message=message)
    return Answer(condition=condition, outcome="passed", message="")


def is_rule(finding: str, rule: str) -> bool:
    """`R03` stands for `R03-repeat-kv-expand`."""
    return finding.lower() == rule.lower() or finding.lower().startswith(rule.lower() + "-")
