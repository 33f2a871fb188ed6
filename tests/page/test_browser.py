"""The page in a real browser: accessible, complete in light, dark and print, without requests.

axe-core comes from the PyPI package `axe-core-python`; it runs inside a copy of the page in
headless Chromium, which prints the finished document. No driver and no download
is needed.
"""

from __future__ import annotations

import importlib.resources
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rooflens.reports.html import render_html
from rooflens.reports.view import build_page
from tests import builders
from tests.page import sample_runs

pytestmark = pytest.mark.browser

PAGES = {
    "nothing": lambda: build_page(builders.run()),
    "counted": lambda: build_page(sample_runs.counted_run()),
    "gpu": lambda: build_page(sample_runs.changed_run(), sample_runs.calm_run()),
    "hostile": lambda: build_page(sample_runs.hostile_run()),
}
OPEN_FOLDS = "document.querySelectorAll('details').forEach(function (d) { d.open = true; });"
RUN_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then(function (found) {
  var out = document.createElement("pre");
  out.id = "axe-result";
  out.textContent = JSON.stringify(found.violations.map(function (v) {
    return {id: v.id, impact: v.impact, nodes: v.nodes.map(function (n) { return n.html; })};
  }));
  document.body.appendChild(out);
});
"""


def chromium(folder: Path, *arguments: str) -> str:
    """Run headless Chromium with a profile of its own and return its standard output."""
    done = subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-background-networking", "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}", *arguments,
        ],
        capture_output=True, check=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def write(folder: Path, name: str) -> Path:
    file = folder / "report.html"
    file.write_text(render_html(PAGES[name]()), "utf-8")
    return file


def violations(folder: Path, page: str, *arguments: str) -> list[dict[str, Any]]:
    """What axe finds in a page with all folds open."""
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    # The page's own policy forbids foreign scripts, so the copy goes without it.
    copy = re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", page)
    scripts = f"<script>{OPEN_FOLDS}</script><script>{axe}</script><script>{RUN_AXE}</script>"
    file = folder / "axe.html"
    file.write_text(copy.replace("</body>", f"{scripts}</body>"), "utf-8")
    dom = chromium(folder, "--virtual-time-budget=30000", *arguments, "--dump-dom", file.as_uri())
    found = re.search(r'<pre id="axe-result">(.*?)</pre>', dom, re.S)
    assert found is not None, "axe did not finish"
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    result: list[dict[str, Any]] = json.loads(text)
    return result


@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "light") for name in PAGES), ("gpu", "dark"), ("counted", "dark")]
)
def test_axe_finds_no_violation(tmp_path: Path, name: str, scheme: str) -> None:
    page = write(tmp_path, name).read_text("utf-8")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    assert violations(tmp_path, page, *dark) == []


def test_axe_does_find_a_planted_violation(tmp_path: Path) -> None:
    page = write(tmp_path, "counted").read_text("utf-8")
    broken = page.replace("<main>", '<main><img src="data:,"><p style="color:#eee">pale</p>')
    serious = {v["id"] for v in violations(tmp_path, broken)}
    assert {"image-alt", "color-contrast"} <= serious


def test_dark_mode_really_changes_the_colours(tmp_path: Path) -> None:
    probe = (
        "<script>document.title = getComputedStyle(document.body).backgroundColor</script></body>"
    )
    page = write(tmp_path, "counted").read_text("utf-8")
    copy = re.sub(r"<meta http-equiv=[^>]*>", "", page).replace("</body>", probe)
    file = tmp_path / "probe.html"
    file.write_text(copy, "utf-8")
    titles = []
    for scheme in ("1", "0"):
        dom = chromium(
            tmp_path, f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", file.as_uri()
        )
        titles.append(re.search(r"<title>(.*?)</title>", dom, re.S))
    assert [title and title[1] for title in titles] == ["rgb(255, 255, 255)", "rgb(15, 18, 22)"]


def test_the_script_adds_sorting_under_the_policy(tmp_path: Path) -> None:
    dom = chromium(tmp_path, "--dump-dom", write(tmp_path, "gpu").as_uri())
    assert '<button type="button">Requested bytes</button>' in dom
    assert "Show only rows with" in dom


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    dom = chromium(tmp_path, "--dump-dom", write(tmp_path, "hostile").as_uri())
    assert "<img" not in dom


def test_it_prints(tmp_path: Path, pages_of: Callable[[Path], int]) -> None:
    target = tmp_path / "report.pdf"
    chromium(tmp_path, f"--print-to-pdf={target}", write(tmp_path, "gpu").as_uri())
    assert target.read_bytes().startswith(b"%PDF")
    assert 3 <= pages_of(target) <= 20


@pytest.fixture
def pages_of() -> Callable[[Path], int]:
    """Count the pages of a PDF by its page objects."""

    def count(file: Path) -> int:
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", file.read_bytes()))

    return count
