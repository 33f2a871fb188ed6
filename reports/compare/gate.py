"""From a comparison to an exit code: the conditions of `--fail-on`.

    regression        the verdict is REGRESSED                         (the default)
    any-change        anything exact differs, or a time changed
    launches[>2%]     ops or kernel launches differ, in either direction
    kernels           a kernel was substituted, is new or is gone
    bytes>1%          requested or moved bytes of the step grew by more
    op-bytes>1%       the same for any operator class
    flops>0%          requested or executed FLOPs of the step grew by more
    op-flops>0%       the same for any operator class
    time>5%           the step time regressed by more
    finding:R03       the finding appeared or grew, or two runs show it (finding:any: every rule)
    never             report only

Exit code 1: a condition failed. 3: none failed, but one could not be judged. 0: all passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rooflens.errors import UsageError, did_you_mean
from rooflens.model import Record
from rooflens.reports.compare.deltas import METRIC_NAMES, change_text
from rooflens.reports.compare.records import Comparison, Delta, Verdict
from rooflens.reports.format import percent_text

PLAIN = ("regression", "any-change", "launches", "kernels", "never")
LIMITED = ("launches", "bytes", "op-bytes", "flops", "op-flops", "time")
_LIMIT = re.compile(r"^([a-z-]+)\s*>\s*(\d+(?:\.\d+)?)\s*(%?)$")
_METRICS = {
    "bytes": ("requested_bytes", "moved_bytes"),
    "flops": ("requested_flops", "executed_flops"),
    "launches": ("calls", "launches"),
}
_NO_VERDICT = (Verdict.CANNOT_JUDGE, Verdict.NOT_COMPARABLE)


@dataclass(frozen=True)
class Condition:
    """One condition as it was written."""

    text: str
    kind: str
    limit: float = 0.0
    rule: str = ""


class Answer(Record, frozen=True, kw_only=True):
    """What a condition came to, and why."""

    condition: str
    outcome: Literal["passed", "failed", "cannot judge"]
    message: str


def parse_conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Read `--fail-on` values, each a comma list. Raises UsageError that says what is known."""
    conditions = [
        _parse(piece.strip()) for text in texts for piece in text.split(",") if piece.strip()
    ]
    return tuple(conditions) or (Condition("regression", "regression"),)


def _parse(text: str) -> Condition:
    lowered = text.lower()
    if lowered in PLAIN:
        return Condition(lowered, lowered)
    if lowered.startswith("finding:"):
        rule = text.partition(":")[2].strip()
        if not re.fullmatch(r"(?i)any|R\d{2}[A-Za-z0-9-]*", rule):
            raise UsageError(
                f'--fail-on: "{text}" names no rule.', "E.g. finding:R03, finding:any."
            )
        return Condition(lowered, "finding", rule=rule)
    match = _LIMIT.match(lowered)
    if match and match[1] in LIMITED:
        return Condition(lowered, match[1], limit=float(match[2]) / (100 if match[3] else 1))
    word = re.split(r"[>:]", lowered)[0].strip()
    if match or word in LIMITED:
        hint = f"E.g. {word}>1%." if word in LIMITED else did_you_mean(word, (*PLAIN, *LIMITED))
        raise UsageError(f'--fail-on: "{text}" is no condition.', hint)
    known = (*PLAIN, *(f"{name}>1%" for name in LIMITED), "finding:R03")
    raise UsageError(f'--fail-on: unknown condition "{text}".', did_you_mean(word, known))


def evaluate(comparison: Comparison, conditions: Sequence[Condition]) -> tuple[Answer, ...]:
    """Answer every condition."""
    return tuple(_answer(comparison, condition) for condition in conditions)


def exit_code(answers: Sequence[Answer]) -> int:
    """0 passed, 1 failed, 3 could not be judged."""
    outcomes = {answer.outcome for answer in answers}
    return 1 if "failed" in outcomes else 3 if "cannot judge" in outcomes else 0


def _answer(comparison: Comparison, condition: Condition) -> Answer:
    if condition.kind == "never":
        return Answer(condition=condition.text, outcome="passed", message="reports only")
    if comparison.verdict is Verdict.NOT_COMPARABLE:
        return Answer(condition=condition.text, outcome="cannot judge", message=comparison.sentence)
    failures, unknown = _CHECKS[condition.kind](comparison, condition)
    if failures:
        message = "; ".join(failures[:5])
        if len(failures) > 5:
            message += f"; and {len(failures) - 5} more"
        return Answer(condition=condition.text, outcome="failed", message=message)
    if comparison.verdict is Verdict.CANNOT_JUDGE:
        unknown = unknown or comparison.sentence
    if unknown:
        return Answer(condition=condition.text, outcome="cannot judge", message=unknown)
    return Answer(condition=condition.text, outcome="passed", message="")


Found = tuple[list[str], str]
"""What failed, and why it cannot be judged."""


def _regression(comparison: Comparison, condition: Condition) -> Found:
    return (list(comparison.reasons) if comparison.verdict is Verdict.REGRESSED else []), ""


def _any_change(comparison: Comparison, condition: Condition) -> Found:
    exact = (*_METRICS["bytes"], *_METRICS["flops"], *_METRICS["launches"], "elementwise_flops")
    found = [
        _delta_text("", item)
        for item in comparison.totals
        if item.metric in exact and item.change and item.verdict is not Verdict.WITHIN_NOISE
    ]
    found += [
        f"operator class {change.op_class}: {change.verdict}" for change in comparison.operators
    ]
    found += [f"{change.module or 'an op'}: {change.base_ops} → {change.head_ops}"
              for change in comparison.ops]  # fmt: skip
    found += [
        f"kernel {change.head_name or change.base_name} {change.kind}"
        for change in comparison.kernels
    ]
    if comparison.time.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        found.append(f"step time {comparison.time.reason}")
    return found, "" if found else _nothing_exact(comparison)


def _nothing_exact(comparison: Comparison) -> str:
    metrics = (*_METRICS["bytes"], *_METRICS["flops"], *_METRICS["launches"])
    known = any(item.change is not None for item in comparison.totals if item.metric in metrics)
    return "" if known else "no exact number is on both sides"


def _kernels(comparison: Comparison, condition: Condition) -> Found:
    found = [
        f"{change.base_name or 'nothing'} → {change.head_name or 'nothing'} ({change.op_class})"
        for change in comparison.kernels
        if change.kind in ("substituted", "new", "gone")
    ]
    known = any(item.metric == "launches" and item.change is not None for item in comparison.totals)
    return found, "" if known else "no kernels are on both sides"


def _totals(comparison: Comparison, condition: Condition) -> Found:
    deltas = [item for item in comparison.totals if item.metric in _METRICS[condition.kind]]
    both = condition.kind == "launches"
    found = [_delta_text("", item) for item in deltas if _exceeds(item, condition.limit, both)]
    if both:
        found += _classes(comparison, "calls", condition.limit, both=True)
        found += [
            f"kernel {change.head_name or change.base_name}: {change_text(change.launches)}"
            for change in comparison.kernels
            if _exceeds(change.launches, condition.limit, both)
        ]
    return found, _unknown(deltas)


def _unknown(deltas: Sequence[Delta]) -> str:
    if any(item.change is not None for item in deltas):
        return ""
    return (
        "; ".join(f"{METRIC_NAMES[item.metric]}: {item.reason}" for item in deltas) or "not there"
    )


def _op_totals(comparison: Comparison, condition: Condition) -> Found:
    metrics = _METRICS[condition.kind.removeprefix("op-")]
    found: list[str] = []
    for metric in metrics:
        found += _classes(comparison, metric, condition.limit, both=False)
    return found, _unknown([item for item in comparison.totals if item.metric in metrics])


def _classes(comparison: Comparison, metric: str, limit: float, both: bool) -> list[str]:
    return [
        _delta_text(f"{change.op_class} ", item)
        for change in comparison.operators
        for item in change.deltas
        if item.metric == metric and _exceeds(item, limit, both)
    ]


def _exceeds(item: Delta, limit: float, both: bool) -> bool:
    if not item.change or (item.change < 0 and not both):
        return False
    # Something out of nothing is more than any share.
    return item.relative is None or abs(item.relative) > limit


def _delta_text(prefix: str, item: Delta) -> str:
    return f"{prefix}{METRIC_NAMES[item.metric]} {change_text(item)}"


def _time(comparison: Comparison, condition: Condition) -> Found:
    time = comparison.time
    if time.verdict in _NO_VERDICT:
        return [], f"step time: {time.reason}"
    if time.verdict is Verdict.REGRESSED and (time.relative or 0) > condition.limit:
        return [f"step time {time.reason}, more than {percent_text(condition.limit)}"], ""
    return [], ""


def _finding(comparison: Comparison, condition: Condition) -> Found:
    chosen = [change for change in comparison.findings if _is_about(condition, change.rule)]
    failures = [
        f"{change.rule} {change.kind}: {change.title}"
        for change in chosen
        if change.kind in ("appeared", "grew")
    ]
    failures += [
        f"{finding.rule} found against the base: {finding.title}"
        for finding in comparison.differences
        if finding.outcome == "found" and _is_about(condition, finding.rule)
    ]
    unknown = [f"{change.rule}: {change.note}" for change in chosen if change.note]
    if not any(_is_about(condition, rule) for rule in comparison.rules):
        unknown.append(f"{condition.rule}: not a rule that both sides could answer")
    return failures, "; ".join(unknown)


def _is_about(condition: Condition, rule: str) -> bool:
    """`any` is about every rule, `R03` about `R03-repeat-kv-expand`."""
    wanted, name = condition.rule.lower(), rule.lower()
    return wanted == "any" or name == wanted or name.startswith(f"{wanted}-")


_CHECKS: dict[str, Callable[[Comparison, Condition], Found]] = {
    "regression": _regression,
    "any-change": _any_change,
    "kernels": _kernels,
    "launches": _totals,
    "bytes": _totals,
    "flops": _totals,
    "op-bytes": _op_totals,
    "op-flops": _op_totals,
    "time": _time,
    "finding": _finding,
}
