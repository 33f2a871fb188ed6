"""The section "what changed" of a report page."""

from __future__ import annotations

from rooflens.model import Run, known
from rooflens.reports.compare import compare
from rooflens.reports.html import render_html
from rooflens.reports.view import build_page
from rooflens.reports.view.changes import changes
from tests import builders


def a_run(size: int, flops: int = 10) -> Run:
    row = builders.operator(
        "attention",
        requested_bytes=known(size, "byte", "counted"),
        elementwise_flops=known(flops, "flop", "counted"),
    )
    totals = builders.totals(requested_bytes=known(size, "byte", "counted"))
    return builders.run(operators=(row,), totals=totals)


def test_the_verdict_comes_first_and_what_is_told_is_not_judged() -> None:
    section = changes(compare([a_run(1000)], [a_run(1100, flops=20)]))
    assert section.sentence.startswith("REGRESSED: Requested bytes +100 B (+10 %)")
    rows = {row[0].text: [cell.text for cell in row] for table in section.tables
            for row in table.rows}  # fmt: skip
    assert rows["attention: requested bytes"][4] == "▲ worse"
    assert rows["attention: elementwise FLOPs"][4] == "not judged"
    assert "told, not judged" not in str(section)


def test_the_same_run_twice_has_a_sentence_and_no_table() -> None:
    section = changes(compare([a_run(1000)], [a_run(1000)]))
    assert section.sentence.startswith("NO CHANGE SHOWN: ")
    assert section.tables == ()


def test_the_page_with_a_baseline_has_the_section() -> None:
    page = render_html(build_page(a_run(1100), baseline=a_run(1000)))
    assert '<section id="changes"' in page
    assert "REGRESSED: Requested bytes" in page
    assert '<section id="changes"' not in render_html(build_page(a_run(1100)))
