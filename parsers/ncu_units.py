"""Numbers and units as ncu prints them: scaled, digit-grouped, in two locales, or missing.

A value is worth nothing without its unit: both ncu's scaling (`Mbyte`, `usecond`) and digit
grouping are undone here, and an unknown unit is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from rooflens.errors import InputError

Style = Literal["english", "german"]
"""`english`: 1,234.5 - `german`: 1.234,5 (ncu follows the locale on Windows)."""

_TIMES_NS = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "µs": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9,
}  # fmt: skip
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_NOUNS = {
    "byte", "sector", "cycle", "inst", "warp", "thread", "block", "request", "wavefront", "pass",
    "register", "hz", "sample", "cluster", "SM", "tag", "bank", "tick",
}  # fmt: skip
_PLAIN = {"", "%", "ratio", "(!)", "-"}

_MISSING = {
    "": "the cell is empty",
    "n/a": "ncu printed n/a: no such metric here, or it was not collected",
    "no data": "ncu printed no data",
    "nan": "ncu printed nan: the kernel was not measured in that replay pass",
    "-nan": "ncu printed -nan: the kernel was not measured in that replay pass",
    "inf": "ncu printed inf: divided by zero",
    "-inf": "ncu printed -inf: divided by zero",
    "(!) nan": "ncu printed nan: the kernel was not measured in that replay pass",
}

_GERMAN = re.compile(r"^-?\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?$|^-?[\d.]+,(?:\d{1,2}|\d{4,})$")
_ENGLISH = re.compile(r"^-?\d{1,3}(?:,\d{3}){2,}(?:\.\d+)?$|^-?[\d,]+\.(?:\d{1,2}|\d{4,})$")
_PLAIN_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?$")
_ENGLISH_GROUPED = re.compile(r"^-?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_GERMAN_GROUPED = re.compile(r"^-?\d{1,3}(?:\.\d{3})+(?:,\d+)?$")


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[str, float]:
    """Split a printed unit into its base and the factor to it: `Mbyte` -> ("byte", 1e6).

    Times become ns, rates per second `/s`, and cycles per time hz. Raises InputError when the unit
    is not known.
    """
    numerator, slash, denominator = unit.strip().partition("/")
    base, factor = _noun(numerator, unit)
    if not slash:
        return base, factor
    if denominator in _TIMES_NS:
        per_second = factor * 1e9 / _TIMES_NS[denominator]
        return ("hz" if base == "cycle" else f"{base}/s"), per_second
    below, divisor = _noun(denominator, unit)
    return f"{base}/{below}", factor / divisor


def _noun(word: str, unit: str) -> tuple[str, float]:
    if word in _PLAIN:
        return word, 1.0
    if word in _TIMES_NS:
        return "ns", _TIMES_NS[word]
    if word in _NOUNS:
        return word, 1.0
    if word[:1] in _PREFIXES and word[1:].lower() in _NOUNS:
        return word[1:].lower(), _PREFIXES[word[:1]]
    raise InputError(
        f'Unknown unit "{unit[:40]}".', "Print again with --print-units base, or report the unit."
    )


def missing_reason(text: str) -> str:
    """Why a printed cell is no number, or empty when it may be one."""
    return _MISSING.get(text.strip().lower(), "")


def number_style(texts: Iterable[str]) -> Style:
    """Decide for a whole file how its numbers are written.

    `1.234` alone does not say; two groups, or a group that is not three digits long, does. Raises
    InputError when a file has both.
    """
    german = english = ""
    for text in texts:
        if not german and _GERMAN.match(text):
            german = text
        elif not english and _ENGLISH.match(text):
            english = text
        if german and english:
            raise InputError(
                f'The numbers are written in two ways: "{german}" and "{english}".',
                "Were two files put together? Import them one by one.",
            )
    return "german" if german else "english"


def parse_number(text: str, style: Style) -> int | float | None:
    """Read a printed number; None when it is a word, `1.5 (2; 3)` gives its total 1.5.

    Digit groups are undone only where they are whole groups of three.
    """
    if style == "english" and _PLAIN_NUMBER.match(text):
        return int(text) if "." not in text else float(text)
    word = text.strip()
    if word.endswith(")") and " (" in word:
        word = word[: word.index(" (")]
    if style == "german":
        if "," in word or _GERMAN_GROUPED.match(word):
            word = word.replace(".", "").replace(",", ".")
    elif "," in word:
        if not _ENGLISH_GROUPED.match(word):
            return None
        word = word.replace(",", "")
    if word.isascii() and word.lstrip("-").isdigit():
        return int(word) if len(word) < 400 else None
    if "_" in word:
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if value - value == 0 else None
