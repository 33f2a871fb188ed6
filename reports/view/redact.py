"""Remove what a shared report must not carry: home paths, user names, credentials.

Records hold facts from an allow-list; free text (command lines, messages of tools, labels) goes
through here as well. Patterns only: the environment of whoever renders is never read.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from rooflens.model import Run

_T = TypeVar("_T")

_HOME = re.compile(r"(?:/home/[^/\s:'\"]+|/Users/[^/\s:'\"]+|/root)(?=[/\s:'\"]|$)")
_WINDOWS_HOME = re.compile(r"(?i)[a-z]:\\Users\\[^\\\s'\"]+")
# "token" is a common word here ("4 tokens", "--query-tokens 1"): only a name that ends in it, with
# a value that could be a credential, counts.
_SECRET_NAME = (
    r"[\w-]{0,40}(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key(?:[_-]id)?|credentials?"
    r"|authorization)"
)
_SECRET = re.compile(
    rf"(?i)\b({_SECRET_NAME}[\"']?\s*[=:]\s*(?:bearer\s+|basic\s+)?[\"']?)(?!\d+\b)[^\s\"',;]{{6,}}"
)
_SECRET_OPTION = re.compile(rf"(?i)-{{1,2}}{_SECRET_NAME}")
_KNOWN_KEYS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{8,})\b"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
REMOVED = "[removed]"


def redact(text: str) -> str:
    """Return `text` without home directories, logins and credentials."""
    text = _HOME.sub("~", text)
    text = _WINDOWS_HOME.sub("~", text)
    text = _URL_LOGIN.sub(REMOVED, text)
    text = _KNOWN_KEYS.sub(REMOVED, text)
    return _SECRET.sub(rf"\1{REMOVED}", text)


def redact_command(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Redact a command line; the argument after `--token` and the like goes too."""
    kept: list[str] = []
    hide_next = False
    for argument in arguments:
        kept.append(REMOVED if hide_next and not argument.startswith("-") else redact(argument))
        hide_next = bool(_SECRET_OPTION.fullmatch(argument))
    return tuple(kept)


def _redact_all(value: _T) -> _T:
    """Redact every string inside plain containers and records."""
    return msgspec.convert(_walk(msgspec.to_builtins(value)), type(value))


def _walk(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _walk(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(item) for item in value]
    return value


def redacted(run: Run) -> Run:
    """Return the run with all free text that a page shows redacted.

    Ops, kernels and timeline shapes are left alone: their names come from code, not from people,
    and there can be a hundred thousand of them.
    """
    return msgspec.structs.replace(
        run,
        command=redact_command(run.command),
        tools={redact(key): redact(text) for key, text in run.tools.items()},
        labels={redact(key): redact(text) for key, text in run.labels.items()},
        checks=tuple(_redact_all(check) for check in run.checks),
        captures=tuple(_redact_all(capture) for capture in run.captures),
        findings=tuple(_redact_all(finding) for finding in run.findings),
        model=_redact_all(run.model),
        machine=_redact_all(run.machine),
    )
