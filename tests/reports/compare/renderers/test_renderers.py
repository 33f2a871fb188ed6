"""Every way a comparison is written down: readable, escaped, bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from rooflens.errors import UsageError
from rooflens.model import Machine, Run, known
from rooflens.reports.compare import compare
from rooflens.reports.compare.gate import Answer, evaluate, parse_conditions
from rooflens.reports.compare.records import Comparison
from rooflens.reports.compare.renderers import FORMATS, render
from rooflens.reports.html import render_html
from rooflens.reports.view import build_page
from tests import builders

HOSTILE = (
    "</code><script>alert(1)</script>|`~[x](javascript:alert(1)) ![i](https://evil.example/x.png)"
    " @everyone #1 %0A::error::owned\n::warning::owned \x00\x1b[31m‮"
)


def a_run(name: str, factor: int = 1, rows: int = 1) -> Run:
    ops = (
        builders.op(0, f"aten.{name}", module=name, op_class="attention", bytes_in=1000 * factor),
        builders.op(1, "aten.mm", module="model.up", op_class="up_proj", bytes_in=50, flops=9),
    )
    kernels = tuple(
        builders.kernel(
            f"{name}_{index}", nvtx=(f"{name}{index}",), count=factor,
            duration_ns=known(100.0 * factor, "ns", "timeline"),
        )
        for index in range(rows)
    )  # fmt: skip
    rows_of = tuple(
        builders.operator(op_class, requested_bytes=known(size, "byte", "counted"))
        for op_class, size in (("attention", 1000 * factor), ("up_proj", 50))
    )
    total = known(1000 * factor + 50, "byte", "counted")
    return builders.run(
        ops=ops, kernels=kernels, operators=rows_of, labels={"commit": name},
        totals=builders.totals(requested_bytes=total), machine=Machine(device="cuda", gpu="T4"),
    )  # fmt: skip


def judged(base: Run, head: Run, *conditions: str) -> tuple[Comparison, tuple[Answer, ...]]:
    comparison = compare([base], [head])
    return comparison, evaluate(comparison, parse_conditions(conditions))


@pytest.fixture
def worse() -> tuple[Comparison, tuple[Answer, ...]]:
    return judged(a_run("sdpa"), a_run("sdpa", 2), "op-bytes>1%,launches")


@pytest.mark.parametrize("format", ["text", "markdown", "junit", "github"])
def test_output_is_what_was_read_before(
    worse: tuple[Comparison, tuple[Answer, ...]],
    golden: Callable[[str, str], None],
    format: str,
) -> None:
    suffix = {"text": "txt", "markdown": "md", "junit": "xml", "github": "github.txt"}[format]
    golden(f"compare/worse.{suffix}", render(*worse, format))


def test_json_holds_the_comparison_and_the_gate(
    worse: tuple[Comparison, tuple[Answer, ...]],
) -> None:
    data = json.loads(render(*worse, "json"))
    assert data["verdict"] == "REGRESSED"
    assert data["operators"][0]["class"] == "attention"
    assert [answer["outcome"] for answer in data["gate"]] == ["failed", "failed"]
    assert data["comparison_version"] == 1


def test_junit_counts_what_it_holds(worse: tuple[Comparison, tuple[Answer, ...]]) -> None:
    suite = ElementTree.fromstring(render(*worse, "junit"))[0]
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
    assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))
    assert int(suite.get("failures") or 0) == 3


def test_a_report_only_run_has_no_failed_test_case() -> None:
    comparison, answers = judged(a_run("sdpa"), a_run("sdpa", 2), "never")
    suite = ElementTree.fromstring(render(comparison, answers, "junit"))[0]
    assert suite.get("failures") == "0"


def test_no_change_is_said_in_every_format() -> None:
    same = judged(a_run("sdpa"), a_run("sdpa"))
    for format in FORMATS:
        assert "NO_CHANGE_SHOWN" in render(*same, format).replace(
            "NO CHANGE SHOWN", "NO_CHANGE_SHOWN"
        )


def test_an_unknown_format_is_refused(worse: tuple[Comparison, tuple[Answer, ...]]) -> None:
    with pytest.raises(UsageError, match="markdown"):
        render(*worse, "markdwn")


@pytest.fixture
def hostile() -> tuple[Comparison, tuple[Answer, ...]]:
    return judged(a_run(HOSTILE), a_run(HOSTILE + "2", 2), "op-bytes>1%")


def test_hostile_names_stay_text_in_markdown(
    hostile: tuple[Comparison, tuple[Answer, ...]],
) -> None:
    text = render(*hostile, "markdown")
    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    for active in ("<script", "<img", "<a ", 'javascript:alert(1)"', "\x00", "\x1b", "‮"):
        assert active not in html
    # No bare mention or link survives: a word joiner stands behind @ and before ://.
    assert "@everyone" not in text
    assert "https://" not in text
    for line in text.splitlines():
        assert not line.startswith("::")


def test_hostile_names_make_no_workflow_command(
    hostile: tuple[Comparison, tuple[Answer, ...]],
) -> None:
    lines = render(*hostile, "github").splitlines()
    assert lines
    for line in lines:
        assert line.startswith(("::error title=Rooflens", "::warning title=Rooflens"))
        assert "%0A" not in line.replace("%250A", "")


def test_hostile_names_leave_valid_xml_and_plain_text(
    hostile: tuple[Comparison, tuple[Answer, ...]],
) -> None:
    ElementTree.fromstring(render(*hostile, "junit"))
    text = render(*hostile, "text")
    assert not set(text) & {"\x00", "\x1b", "‮"}


def test_hostile_names_are_inert_on_the_page(
    hostile: tuple[Comparison, tuple[Answer, ...]],
) -> None:
    page = render_html(build_page(a_run(HOSTILE, 2), comparison=hostile[0]))
    assert "<script>alert(1)" not in page
    assert page.count("</script>") == page.count("<script")


@pytest.mark.parametrize("rows", [0, 4000])
def test_outputs_stay_within_their_limits(rows: int) -> None:
    long = "void cutlass::Kernel<" + "|&<>" * 400
    head = a_run(long, 2, rows)
    comparison, answers = judged(a_run("other", 1, rows), head, "any-change")
    markdown = render(comparison, answers, "markdown")
    assert len(markdown) < 60_000
    assert "any-change" in markdown
    assert len(render_html(build_page(head, comparison=comparison)).encode()) < 1_000_000
    assert len(render(comparison, answers, "github").splitlines()) <= 20
    assert len(render(comparison, answers, "text").splitlines()) < 150


def test_markdown_shrinks_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflens.reports.compare.renderers import markdown

    comparison, answers = judged(a_run("a", 1, 300), a_run("b", 2, 300), "any-change")
    full = render(comparison, answers, "markdown")
    monkeypatch.setattr(markdown, "MAX_CHARACTERS", 1000 + len(full) // 2)
    small = render(comparison, answers, "markdown")
    assert len(small) <= len(full) // 2
    assert "REGRESSED" in small


def test_long_sentences_of_any_kind_do_not_break_the_limit() -> None:
    """Thousands of environment differences, notes and findings."""
    tools: dict[str, Any] = {f"tool{number}" + "x" * 300: "1" for number in range(3000)}
    base = builders.run(tools=tools)
    comparison, answers = judged(base, builders.run(), "never")
    assert len(render(comparison, answers, "markdown")) < 60_000
