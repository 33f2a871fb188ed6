"""The pages about theory run: every example prints what it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("page", ["claims.md", "theory.md"])
def test_examples_print_what_the_page_shows(page: str) -> None:
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0


def test_every_claim_is_on_the_page_and_has_a_test() -> None:
    text = (DOCS / "claims.md").read_text("utf-8")
    claims = [
        f"{d}{n}" for d, last in (("A", 21), ("B", 23), ("C", 12)) for n in range(1, last + 1)
    ]
    assert re.findall(r"^\*\*([ABC]\d+)\.", text, re.MULTILINE) == claims
    tests = " ".join(
        name
        for file in Path(__file__).parent.glob("test_claims_*.py")
        for name in re.findall(r"def (test_[abc]\d+\w+)", file.read_text("utf-8"))
    )
    untested = [c for c in claims if not re.search(rf"_{c.lower()}_", tests)]
    assert untested == []
