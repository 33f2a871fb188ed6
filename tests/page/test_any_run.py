"""Whatever a run holds, its page can be written, and says nothing it does not know."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest

from rooflens.model import Run
from rooflens.reports.html import render_html
from rooflens.reports.markdown import render_markdown
from rooflens.reports.text import render_text
from rooflens.reports.view import build_page
from tests.page import sample_runs

ODD_NUMBERS = (0, 1, -5, 1e-9, 1e24, 0.5)


def spoil(value: Any, choose: random.Random) -> Any:
    """Replace some numbers, drop some quantities and records, at random."""
    if isinstance(value, dict):
        if {"unit", "source"} <= set(value):
            draw = choose.random()
            if draw < 0.25:
                return {"absent": "not collected: spoiled by a test"}
            if draw < 0.5:
                return {**value, "value": choose.choice(ODD_NUMBERS)}
            return value
        return {key: spoil(item, choose) for key, item in value.items()}
    if isinstance(value, list):
        kept = [spoil(item, choose) for item in value if choose.random() > 0.15]
        return kept if choose.random() > 0.1 else []
    if isinstance(value, float) and choose.random() < 0.2:
        return float(choose.choice(ODD_NUMBERS))
    return value


def spoiled(seed: int) -> Run:
    """A run that decodes, with odd and missing numbers everywhere."""
    choose = random.Random(seed)
    make = choose.choice([sample_runs.gpu_run, sample_runs.counted_run, sample_runs.changed_run])
    plain = msgspec.to_builtins(make())
    made = {key: spoil(item, choose) for key, item in plain.items()}
    for name in ("machine", "workload", "model", "tools", "labels", "captures"):
        made[name] = plain[name]
    for roof in made["roofs"]:
        roof["peak_flops_per_s"] = abs(roof["peak_flops_per_s"]) or 1.0
        roof["bandwidth_bytes_per_s"] = abs(roof["bandwidth_bytes_per_s"]) or 1.0
    if choose.random() < 0.3:
        made["timeline"] = None
    return msgspec.convert(made, Run)


@pytest.mark.parametrize("block", range(5))
def test_odd_and_missing_numbers_never_break_a_page(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        page = build_page(spoiled(seed))
        for text in (render_html(page), render_markdown(page), render_text(page)):
            shown = re.sub(r"<style>.*?</style>|<script.*?</script>", "", text, flags=re.S)
            assert not re.search(r"\b(nan|inf|None)\b", shown), f"seed {seed}"
