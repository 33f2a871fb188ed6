"""The verdict in the terminal: one sentence, step against floor, top three findings."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rooflens.model import absent
from rooflens.reports.text import render_text
from rooflens.reports.view import build_page
from tests import builders
from tests.page import sample_runs


def test_the_verdict_of_a_counted_run(golden: Callable[[str, str], None]) -> None:
    golden("page/counted.txt", render_text(build_page(sample_runs.counted_run())))


def test_the_verdict_of_a_gpu_run(golden: Callable[[str, str], None]) -> None:
    golden("page/gpu.txt", render_text(build_page(sample_runs.gpu_run())))


def test_lines_fit_and_have_no_trailing_blanks() -> None:
    for width in (60, 100):
        lines = render_text(build_page(sample_runs.gpu_run()), width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert not [line for line in lines if line != line.rstrip()]


def test_only_the_three_largest_findings_are_shown() -> None:
    run = sample_runs.counted_run()
    first = run.findings[0]
    many = [
        replace(first, rule=f"R{n:02}-x", saving_bytes=sample_runs.counted(n)) for n in range(1, 6)
    ]
    text = render_text(build_page(replace(run, findings=tuple(many))))
    assert "R05-x" in text
    assert "R03-x" in text
    assert "R02-x" not in text
    assert "and 2 more in the report" in text


def test_color_is_only_added_on_request_and_markup_in_names_is_inert() -> None:
    page = build_page(sample_runs.hostile_run())
    assert "\x1b" not in render_text(page)
    assert "\x1b[1m" in render_text(page, color=True)
    named = build_page(builders.run(labels={"a": "[bold]b[/bold]"}, command=("[red]x",)))
    assert "\x1b" not in render_text(named)


def test_a_counted_step_without_theory_says_what_it_asks_for() -> None:
    run = sample_runs.counted_run()
    none = absent("no theory for this step")
    totals = replace(run.totals, minimum_bytes=none, compulsory_bytes=none, floor_ns=none)
    text = render_text(build_page(replace(run, totals=totals, roofs=())))
    assert "asks memory for" in text
    assert "no time, no bytes" not in text
    assert "profile run --model" in text
    assert "--gpu" not in text


def test_nothing_measured_still_gives_a_text() -> None:
    text = render_text(build_page(builders.run()))
    assert "no time, no bytes and no kernels" in text


def test_the_name_of_a_roof_is_foreign_text() -> None:
    run = sample_runs.counted_run()
    roofs = tuple(replace(roof, name="H200\x1b]0;x\x07\nnext") for roof in run.roofs)
    text = render_text(build_page(replace(run, roofs=roofs)))
    assert roofs and "H200" in text
    assert not {"\x1b", "\x07"} & set(text)
