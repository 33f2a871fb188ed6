"""The page is one file: small, inert, escaped, valid, and the same every time."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from rooflens.model import Check, Run, Shape, Timeline
from rooflens.reports.html import MAX_PAGE_BYTES, render_html
from rooflens.reports.view import build_page
from tests import builders
from tests.page import sample_runs

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Outline(HTMLParser):
    """Elements, ids, attributes and text of a page; fails on a wrong nesting."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["script"], ["style"]):
            self.raw[self.open[-1]] = data
        self.text.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


PAGES = {
    "nothing": lambda: build_page(builders.run()),
    "counted": lambda: build_page(sample_runs.counted_run()),
    "no roof": lambda: build_page(sample_runs.counted_run(None)),
    "gpu": lambda: build_page(sample_runs.gpu_run()),
    "hostile": lambda: build_page(sample_runs.hostile_run()),
    "changed": lambda: build_page(sample_runs.changed_run(), sample_runs.calm_run()),
    "hostile change": lambda: build_page(sample_runs.hostile_run(), sample_runs.gpu_run()),
}


@pytest.fixture(params=PAGES, ids=list(PAGES))
def page(request: pytest.FixtureRequest) -> str:
    return render_html(PAGES[request.param]())


def test_the_elements_nest_and_ids_are_unique(page: str) -> None:
    outline = Outline(page)
    ids = outline.values("id")
    assert len(ids) == len(set(ids))


def test_every_reference_inside_the_page_leads_somewhere(page: str) -> None:
    outline = Outline(page)
    ids = set(outline.values("id"))
    wanted = {link.removeprefix("#") for link in outline.values("href")}
    for names in outline.values("aria-labelledby"):
        wanted |= set(names.split())
    assert wanted
    assert wanted <= ids


def test_headings_come_in_order(page: str) -> None:
    levels = [int(tag[1]) for tag in Outline(page).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_nothing_is_requested_from_anywhere(page: str) -> None:
    outline = Outline(page)
    assert not outline.values("src")
    assert not outline.values("srcset")
    assert not outline.values("action")
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(outline.tags)
    assert all(link.startswith("#") for link in outline.values("href"))
    styles = outline.raw["style"]
    assert "url(" not in styles
    assert "@import" not in styles


def test_only_its_own_style_and_script_may_run(page: str) -> None:
    outline = Outline(page)
    policy = next(value for value in outline.values("content") if "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    style = re.findall(r"<style>(.*?)</style>", page, re.S)
    assert len(scripts) == len(style) == 1
    for text, kind in ((scripts[0], "script-src"), (style[0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert len(scripts[0]) <= 15_000
    assert len(style[0]) <= 20_000
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert not outline.values("style")


def test_every_picture_has_a_name_and_a_table_twin(page: str) -> None:
    outline = Outline(page)
    roles = [v for tag, name, v in outline.attributes if tag == "svg" and name == "role"]
    pictures = roles.count("img")
    assert page.count("The same numbers as a table") == pictures
    assert page.count("<caption") == page.count("<table")


def test_the_same_run_gives_the_same_page() -> None:
    first = render_html(build_page(sample_runs.gpu_run()))
    assert first == render_html(build_page(sample_runs.gpu_run()))


@pytest.mark.parametrize("name", ["hostile", "hostile change"])
def test_hostile_names_are_only_text(name: str) -> None:
    page = render_html(PAGES[name]())
    outline = Outline(page)
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 2
    assert "\u202e" not in page
    shown = "".join(outline.text)
    assert "</script><img src=x onerror=alert(1)>" in shown


def test_the_numbers_for_programs_are_embedded_as_json() -> None:
    run = sample_runs.hostile_run()
    page = render_html(build_page(run))
    found = re.search(r'<script type="application/json" id="run-data">(.*?)</script>', page, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert data["totals"]["requested_bytes"]["value"] == 1_354_000_000
    assert data["model"]["name"] == sample_runs.HOSTILE


def test_secrets_and_home_paths_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_PlantedSecretOfTheEnvironment")
    run = sample_runs.gpu_run(
        command=("profile", "run", "--token", "plantedTokenValue1", "/home/alice/model"),
        labels={"note": "AWS_SECRET_ACCESS_KEY=plantedSecret22 ok"},
    )
    page = render_html(build_page(run))
    for planted in ("PlantedSecret", "plantedTokenValue1", "plantedSecret22", "alice"):
        assert planted not in page
    assert "~/model" in page


def crowded_run() -> Run:
    """50,000 kernels with long names and 20,000 shapes."""
    shapes = tuple(
        Shape(
            row=f"stream {n % 9}", start_ns=n * 1000, duration_ns=900, label="k" * 60, kind="kernel"
        )
        for n in range(20_000)
    )
    strip = Timeline(source="nsys", steps=(), representative_step=None, shapes=shapes)
    run = sample_runs.gpu_run(kernels=sample_runs.many_kernels(50_000), timeline=strip)
    findings = [replace(run.findings[0], rule=f"R{n}", why="because " * 300) for n in range(400)]
    return replace(run, findings=tuple(findings))


def test_the_page_stays_small_however_much_there_is() -> None:
    page = render_html(build_page(crowded_run()))
    assert len(page.encode()) < MAX_PAGE_BYTES
    outline = Outline(page)
    assert "Other (49,800 kernels)" in "".join(outline.text)
    assert outline.tags.count("rect") <= 2_100


def test_rows_are_cut_and_the_cut_is_said_when_names_are_too_long() -> None:
    page = build_page(sample_runs.gpu_run(kernels=sample_runs.many_kernels(200)))
    table = page.kernels.table
    assert table is not None
    long = dataclasses.replace(table.rows[150][0], detail="<" * 400_000)
    rows = (*table.rows[:150], (long, *table.rows[150][1:]), *table.rows[151:])
    wide = dataclasses.replace(page.kernels, table=dataclasses.replace(table, rows=rows))
    text = render_html(dataclasses.replace(page, kernels=wide))
    assert len(text.encode()) < MAX_PAGE_BYTES
    assert "more rows are in run.json" in text


def test_text_at_every_limit_still_gives_a_small_page() -> None:
    shout = '"' * 3000
    run = sample_runs.gpu_run(kernels=sample_runs.many_kernels(250))
    finding = replace(run.findings[0], title=shout, why=shout, remedy=shout, evidence=(shout,) * 30)
    check = Check(id="x", outcome="failed", message=shout, fix=shout)
    many = replace(
        run,
        findings=tuple(replace(finding, rule=f"R{n}") for n in range(80)),
        checks=tuple(replace(check, id=f"c{n}") for n in range(300)),
        captures=tuple(replace(run.captures[0], note=shout, file=f"{n}") for n in range(300)),
        operators=tuple(
            builders.operator(f"class {n} {shout}", requested_bytes=sample_runs.counted(n + 1))
            for n in range(300)
        ),
        roofs=run.roofs * 300,
    )
    page = render_html(build_page(many))
    assert len(page.encode()) < MAX_PAGE_BYTES
    assert "were cut to keep it below 1 MB" in page
    Outline(page)
