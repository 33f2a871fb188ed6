"""Pages of the real model, counted on meta: the sentences a newcomer reads first."""

from __future__ import annotations

import pytest

from rooflens.harness.plan import RunOptions, make_plan
from rooflens.harness.running import run_step
from rooflens.reports.html import render_html
from rooflens.reports.markdown import render_markdown
from rooflens.reports.view import Page, build_page


@pytest.fixture(scope="module")
def page() -> Page:
    plan = make_plan(RunOptions(workload="decode", device="meta", gpu="rtx4090", attention="eager"))
    return build_page(run_step(plan))


def test_the_prediction_for_an_rtx_4090(page: Page) -> None:
    assert page.verdict.sentence == (
        "On an RTX 4090 this decode step cannot take less than 14.1 ms (prediction, not measured); "
        "it asks memory for 16.21 GB, 1.136× the 14.27 GB that its operators need."
    )
    assert "context 2047 + 1 new = 2048 keys" in page.subtitle


def test_the_first_finding_is_the_copy_for_the_query_heads(page: Page) -> None:
    first = page.findings.cards[0]
    assert first.rule.startswith("R03")
    assert first.saves.startswith("939.5 MB a step (5.8 % of the requested bytes)")


def test_the_formulas_carry_exact_numbers(page: Page) -> None:
    filled = {formula.name: formula.filled for formula in page.measured.formulas}
    assert filled["Floor of the step"].startswith(
        "max(14,258,990,088 B / 1.008 TB/s, 14,962,655,232"
    )
    assert filled["Software amplification"] == "16,211,262,656 / 14,270,129,160 byte = 1.136×"
    assert filled["Intensity of the step"].endswith("= 1.0496 FLOP/B")


def test_it_is_small(page: Page) -> None:
    assert len(render_html(page).encode()) < 400_000
    assert len(render_markdown(page)) < 20_000
