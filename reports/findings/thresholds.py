"""Every threshold of the rules, with its origin. No rule has a number of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """A limit, what it means and where it comes from."""

    value: float
    meaning: str
    origin: str


VERIFY_TOKENS_MAX = Threshold(
    16,
    "new tokens per sequence up to which logits at every position are a verify step's own work",
    "own choice: published speculative decoders draft 3 to 8 tokens, trees up to 16 a branch",
)
