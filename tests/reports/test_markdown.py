"""Markdown for a pull request: short, complete, and deaf to hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from rooflens.model import Check, Run
from rooflens.reports.markdown import MAX_CHARACTERS, escape, render_markdown
from rooflens.reports.view import build_page
from tests import builders
from tests.page import sample_runs


def rendered(text: str) -> str:
    """HTML as a Markdown viewer would show it (tables and raw HTML on, as on GitHub)."""
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def test_the_summary_of_a_counted_run(golden: Callable[[str, str], None]) -> None:
    golden("page/counted.md", render_markdown(build_page(sample_runs.counted_run())))


def test_the_summary_of_a_gpu_run(golden: Callable[[str, str], None]) -> None:
    golden("page/gpu.md", render_markdown(build_page(sample_runs.gpu_run())))


def huge_run() -> Run:
    """Far more of everything than fits."""
    run = sample_runs.gpu_run(kernels=sample_runs.many_kernels(3000))
    findings = tuple(
        replace(run.findings[0], rule=f"R{n}", why="because " * 200, remedy="do " * 400)
        for n in range(300)
    )
    checks = tuple(
        Check(id=f"check{n}", outcome="failed", message="word " * 300, fix="fix " * 300)
        for n in range(300)
    )
    return replace(run, findings=findings, checks=checks, command=("x" * 100_000,))


@pytest.mark.parametrize("make", [sample_runs.hostile_run, huge_run, builders.run])
def test_it_always_fits_a_comment(make: Callable[[], Run]) -> None:
    text = render_markdown(build_page(make()))
    assert len(text) < MAX_CHARACTERS
    assert text.count("<details>") == text.count("</details>")
    assert "cannot take less" in text or make is builders.run


def test_what_is_cut_is_said() -> None:
    assert "left out to fit" in render_markdown(build_page(huge_run()))


def test_hostile_names_stay_text() -> None:
    html = rendered(render_markdown(build_page(sample_runs.hostile_run())))
    tags = {tag.lower() for tag in re.findall(r"</?([a-zA-Z][a-zA-Z0-9]*)", html)}
    assert not tags & {"img", "script", "a"}
    assert "\u202e" not in html


def test_tables_keep_their_columns_with_hostile_names() -> None:
    html = rendered(render_markdown(build_page(sample_runs.hostile_run())))
    for table in re.findall(r"<table>.*?</table>", html, re.S):
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)
        counts = {len(re.findall(r"<t[hd]", row)) for row in rows}
        assert len(counts) == 1
        # A cell that a name had closed early would leave the last one empty.
        assert len(rows) > 1


@given(st.text(max_size=60))
def test_escaped_text_is_one_line_without_markup(text: str) -> None:
    html = rendered("x " + escape(text))
    assert "\n" not in escape(text)
    inside = html.strip().removeprefix("<p>").removesuffix("</p>")
    assert not re.search(r"<[a-zA-Z/!]", inside)


@pytest.mark.parametrize(
    "text",
    ["1. list", "- list", "+ list", "> quote", "# title", "=====", "    code", "~~~", "|a|b|"],
)
def test_no_text_starts_a_block(text: str) -> None:
    html = rendered(escape(text))
    assert html.startswith("<p>")
    assert html.count("<") == 2


@pytest.mark.parametrize("text", ["14.34 kB", "0.1.0", "2026-01-02", "x-y", "q_proj", "(a)"])
def test_plain_text_is_left_alone(text: str) -> None:
    assert escape(text) == text


def test_a_mention_reaches_nobody_and_a_link_is_none() -> None:
    assert "@someone" not in escape("thanks @someone")
    assert "https://" not in escape("see https://example.org")
