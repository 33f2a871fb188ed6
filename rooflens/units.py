"""Unit names and the few conversions between them. Formatting for people is reports/format.py."""

from __future__ import annotations

from rooflens.errors import UsageError

BYTE = "byte"
FLOP = "flop"
NS = "ns"
FLOP_PER_BYTE = "flop/byte"
ONE = "1"

NS_PER_S = 1_000_000_000

_COUNT_SUFFIXES = {"k": 1024, "m": 1024 * 1024}

DTYPE_BYTES: dict[str, float] = {
    "float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2,
    "fp8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1, "int4": 0.5, "fp4": 0.5,
}  # fmt: skip

DTYPE_ALIASES = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "fp64": "float64",
    "float": "float32", "double": "float64",
}  # fmt: skip


def seconds_to_ns(seconds: float) -> float:
    """Convert seconds to nanoseconds."""
    return seconds * NS_PER_S


def parse_token_count(text: str, option: str) -> int:
    """Read a token count as people type it: `2048`, `8k` (8192), `1m` (1048576).

    Raises UsageError that names `option` when the text is no such count.
    """
    cleaned = text.strip().lower().replace("_", "").replace(",", "")
    factor = _COUNT_SUFFIXES.get(cleaned[-1:], 1)
    digits = cleaned[:-1] if factor != 1 else cleaned
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f'{option}: "{text}" is not a token count.', "Use e.g. 2048 or 8k.")
    return int(digits) * factor
