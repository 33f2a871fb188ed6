"""Every way Rooflens ends early, with its exit code.

    RooflensError           base: message, hint, exit_code
    |- UsageError        2  the command line asks for something that cannot be
    |- InputError        2  a file is unreadable, empty, truncated or not what it claims to be
    |- CannotJudge       3  there is not enough evidence for a verdict
    '- ProfilerError     4  a profiler, the machine, or evidence asked for by name

Library code raises these and nothing else on bad input; `harness/cli.py` catches them once and
prints one line: what happened, where, and what to do next. A regression or a broken budget is no
error but an answer: those commands return code 1, and 3 for runs that must not be compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RooflensError(Exception):
    """An expected failure: what happened and where, and (`hint`) what to do next."""

    exit_code = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(RooflensError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class InputError(RooflensError):
    """A file is unreadable, empty, truncated, or not what it claims to be."""

    exit_code = 2


class CannotJudge(RooflensError):
    """The evidence does not allow a verdict."""

    exit_code = 3


class ProfilerError(RooflensError):
    """A profiler or the machine failed, or evidence that was asked for by name cannot be had."""

    exit_code = 4


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `Did you mean "x"?` for a near miss, else the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return f'Did you mean "{close[0]}"?' if close else "Known: " + ", ".join(names) + "."
