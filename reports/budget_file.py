"""Write today's numbers into a budget file, with the reason why they changed.

Only the one table is rewritten; the rest of the file, comments included, stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rooflens.model import Run
from rooflens.reports.budgets import (
    EXACT_LIMITS,
    TOLERANCES,
    Budget,
    actual,
    is_rule,
    parse_budgets,
    run_facts,
)
from rooflens.reports.format import count_text


def updated(text: str, run: Run, reason: str, where: str) -> tuple[str, str]:
    """Today's numbers as the new content of the file, and the name of the budget that was written.

    A budget that is about this run keeps its name, selectors, tolerances and set of limits;
    otherwise a new table is added. Everything else in the file stays as it is.
    """
    budgets = parse_budgets(text, where)
    facts = run_facts(run)
    old = next(
        (
            budget
            for budget in budgets
            if all(facts.get(key) == value for key, value in budget.selectors.items())
        ),
        None,
    )
    name = old.name if old else _free_name(run, budgets)
    return _replaced(text, name, _table(name, run, reason, old)), name


def _free_name(run: Run, budgets: Sequence[Budget]) -> str:
    work = run.workload
    parts = [work.name, f"b{work.batch}" if work.batch else ""]
    parts.append(f"p{work.prompt}" if work.prompt else f"c{work.context}" if work.context else "")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(part for part in parts if part)) or "run"
    taken = {budget.name for budget in budgets}
    number, name = 1, stem
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def _table(name: str, run: Run, reason: str, old: Budget | None) -> str:
    facts = run_facts(run)
    chosen = ("workload", "model", "batch", "context", "prompt", "query_tokens", "dtype", "logits")
    selectors = old.selectors if old else {key: value for key in chosen
                                           if (value := facts[key]) is not None}  # fmt: skip
    limits = _limits(run, old)
    found = {finding.rule for finding in run.findings if finding.outcome == "found"}
    clear = [finding.rule for finding in run.findings if finding.outcome == "clear"]
    kept = clear if old is None else [
        rule for rule in old.findings_not_allowed if not any(is_rule(name, rule) for name in found)
    ]  # fmt: skip
    lines = [f"[budget.{_key(name)}]"]
    lines += [f"{key} = {_toml(value)}" for key, value in selectors.items()]
    lines += [f"{key} = {_toml(value)}" for key, value in limits.items()]
    lines += [
        f'{key} = "{share * 100:g}%"'
        for key, share in (old.tolerances if old else {}).items()
        if share != TOLERANCES[key]
    ]
    lines.append(f"findings_not_allowed = {_toml(kept)}")
    changes = [
        f"{key} {count_text(old.limits[key])} -> {count_text(value)}"
        for key, value in limits.items()
        if old and value != old.limits[key]
    ]
    changes += [f"{rule} allowed" for rule in (old.findings_not_allowed if old else ())
                if rule not in kept]  # fmt: skip
    said = f"{run.created_at[:10]}: {reason}" + (f" ({', '.join(changes)})" if changes else "")
    reasons = [*(old.reasons if old else ()), said]
    lines += ["reasons = [", *(f"  {_toml(text)}," for text in reasons), "]"]
    return "\n".join(lines) + "\n"


def _limits(run: Run, old: Budget | None) -> dict[str, float]:
    """Today's numbers for the limits of a budget; what was not measured today keeps its limit."""
    limits: dict[str, float] = {}
    for limit in old.limits if old else (*EXACT_LIMITS, "moved_bytes_per_token"):
        value = actual(run, limit).value
        if value is not None:
            limits[limit] = round(value / 1e6, 6) if limit == "step_time_ms" else value
        elif old:
            limits[limit] = old.limits[limit]
    return limits


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    """A text, number or list of texts as TOML. Control characters cannot stand in it."""
    if isinstance(value, str):
        return json.dumps(re.sub(r"[\x00-\x1f\x7f]", " ", value), ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)


def _replaced(text: str, name: str, table: str) -> str:
    """Put a table in the place of the one with the same header, or at the end."""
    lines = text.splitlines(keepends=True)
    header = re.compile(rf'^\s*\[\s*budget\s*\.\s*(?:{re.escape(name)}|"{re.escape(name)}")\s*\]')
    start = next((index for index, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        before = text if not text or text.endswith("\n") else text + "\n"
        return f"{before}\n{table}" if before.strip() else table
    end = next(
        (
            index
            for index in range(start + 1, len(lines))
            # A comment above the next table belongs to that table.
            if re.match(r"^\s*\[[^\],]*\]\s*(#.*)?$", lines[index])
        ),
        len(lines),
    )
    while end > start + 1 and (
        not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")
    ):
        end -= 1
    return "".join(lines[:start]) + table + "".join(lines[end:])
