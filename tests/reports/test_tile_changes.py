"""Tiles with a baseline: old → new, arrow, sign and word, never against the comparison."""

from __future__ import annotations

import pytest

from rooflens.model import Machine, Run, known
from rooflens.reports.html import render_html
from rooflens.reports.view import build_page
from rooflens.reports.view.page import Tile
from tests import builders


def run(requested: int, gpu: str = "") -> Run:
    return builders.run(
        machine=Machine(device="cuda", gpu=gpu) if gpu else Machine(device="meta"),
        totals=builders.totals(
            requested_bytes=known(requested, "byte", "counted"),
            minimum_bytes=known(1000, "byte", "theory"),
        ),
    )


def bytes_tile(base: Run, head: Run) -> Tile:
    tiles = build_page(head, base).verdict.tiles
    return next(tile for tile in tiles if tile.title == "Bytes requested / minimum")


@pytest.mark.parametrize(
    ("base", "head", "marks"),
    [(1000, 2000, ("▲", "+100 %", "worse")), (2000, 1000, ("▼", "50 %", "better"))],
)
def test_bytes_say_direction_sign_and_word(base: int, head: int, marks: tuple[str, ...]) -> None:
    tile = bytes_tile(run(base), run(head))
    assert all(mark in tile.change for mark in marks)
    assert tile.change_css == marks[-1]
    page = render_html(build_page(run(head), run(base)))
    assert f'<span class="change {marks[-1]}">{tile.change}</span>' in page


def test_the_same_run_has_no_colour() -> None:
    for tile in build_page(run(1000), run(1000)).verdict.tiles:
        assert tile.change_css == ""
        assert "worse" not in tile.change and "better" not in tile.change


def test_another_gpu_is_not_compared() -> None:
    tile = bytes_tile(run(1000, "NVIDIA H100"), run(2000, "NVIDIA H200"))
    assert tile.change == "not comparable with the baseline"
    assert tile.change_css == ""


def test_without_a_baseline_there_is_no_change() -> None:
    assert all(not tile.change for tile in build_page(run(1000)).verdict.tiles)
