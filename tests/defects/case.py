"""A planted defect, or a healthy counterpart that looks like one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rooflens.model import Run


@dataclass(frozen=True)
class Case:
    """One run for one rule.

    `saving` is the bytes that disappear under the remedy, counted by hand; None where the rule's
    """

    rule: str
    name: str
    planted: bool
    build: Callable[[], Run]
    saving: int | None = None
    baseline: Callable[[], Run] | None = None


def planted(
    rule: str,
    name: str,
    build: Callable[[], Run],
    saving: int | None = None,
    baseline: Callable[[], Run] | None = None,
) -> Case:
    """A run with the defect."""
    return Case(rule, name, True, build, saving, baseline)


def healthy(
    rule: str, name: str, build: Callable[[], Run], baseline: Callable[[], Run] | None = None
) -> Case:
    """A run in which the rule must find nothing."""
    return Case(rule, name, False, build, None, baseline)
