"""Old → new under each tile of the verdict, judged as the comparison judges it."""

from __future__ import annotations

from dataclasses import replace

from rooflens.reports.compare.deltas import NOT_JUDGED
from rooflens.reports.compare.records import Comparison, Delta, Verdict
from rooflens.reports.format import delta_text, quantity_text, ratio_text
from rooflens.reports.view.basis import ratio
from rooflens.reports.view.cells import clean
from rooflens.reports.view.page import Tile

_METRICS = {
    "Step time": "step_time_ns",
    "Floor: cannot take less": "floor_ns",
    "Bytes moved": "moved_bytes",
    "Bytes requested": "requested_bytes",
    "Minimum bytes": "minimum_bytes",
}
_RATIO = "Bytes requested / minimum"
_WORDS = {Verdict.IMPROVED: "better", Verdict.REGRESSED: "worse"}


def with_changes(
    tiles: tuple[Tile, ...], before: tuple[Tile, ...], comparison: Comparison
) -> tuple[Tile, ...]:
    """The tiles of the head with their change; `before` are the tiles of the baseline.

    Sums of several runs are pooled in the comparison; the last tile has the first run of each side.
    """
    totals = {item.metric: item for item in comparison.totals}
    return tuple(
        _changed(tile, old, totals, comparison) for tile, old in zip(tiles, before, strict=True)
    )


def _changed(tile: Tile, old: Tile, totals: dict[str, Delta], comparison: Comparison) -> Tile:
    if comparison.verdict is Verdict.NOT_COMPARABLE:
        return replace(tile, change="not comparable with the baseline")
    if tile.title == _RATIO:
        return _ratio(tile, totals)
    if tile.title in _METRICS:
        return _total(tile, totals[_METRICS[tile.title]])
    if tile.title != old.title:
        return replace(tile, change=f"the baseline has no {tile.title.lower()} to compare with")
    if tile.value == old.value:
        return replace(tile, change=f"{old.value} → {tile.value} ± no change shown")
    # Neither a busy share nor what rules could see has a test for noise: no better, no worse.
    return replace(tile, change=f"{old.value} → {tile.value}, not judged")


def _total(tile: Tile, delta: Delta) -> Tile:
    if delta.change is None:
        reason = delta.reason or delta.base.absent or delta.head.absent or "not comparable"
        return replace(tile, change=clean(f"not compared: {reason}", 200))
    sides = (quantity_text(delta.base), quantity_text(delta.head))
    return _worded(tile, sides, _word(delta), delta.change, delta.relative)


def _ratio(tile: Tile, totals: dict[str, Delta]) -> Tile:
    asked, needed = totals["requested_bytes"], totals["minimum_bytes"]
    old, new = ratio(asked.base, needed.base), ratio(asked.head, needed.head)
    if old is None or new is None or asked.change is None or needed.change is None:
        reason = asked.reason or needed.reason or "missing on one side"
        return replace(tile, change=clean(f"not compared: {reason}", 200))
    expected = Verdict.REGRESSED if new > old else Verdict.IMPROVED
    # The bytes are judged, not their share: a ratio that moves otherwise has no better or worse.
    word = _word(asked) if new == old or asked.verdict is expected else "not judged"
    return _worded(tile, (ratio_text(old), ratio_text(new)), word, new - old, new / old - 1)


def _word(delta: Delta) -> str:
    if delta.reason == NOT_JUDGED:
        return "not judged"
    return _WORDS.get(delta.verdict, str(delta.verdict).replace("_", " ").lower())


def _worded(
    tile: Tile, sides: tuple[str, str], word: str, change: float, relative: float | None
) -> Tile:
    arrow = "▲" if change > 0 else "▼" if change < 0 else "±"
    if change == 0:
        word = "no change shown"
    share = f" {delta_text(relative)}" if change and relative is not None else ""
    css = word if word in _WORDS.values() else ""
    text = f"{sides[0]} → {sides[1]} {arrow}{share} {word}"
    return replace(tile, change=text, change_css=css)
