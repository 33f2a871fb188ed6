"""A number over many runs: order, series, changes, and who did it."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from typing import Any

import pytest

from rooflens.errors import UsageError
from rooflens.model import Machine, Run, Workload, absent, known
from rooflens.reports import history_page
from rooflens.reports.history import Entry, history
from tests import builders


def entry(day: int, attention: int = 1000, norm: int = 500, **fields: Any) -> Entry:
    rows = tuple(
        builders.operator(name, count=2, requested_bytes=known(size, "byte", "counted"))
        for name, size in (("attention", attention), ("norm", norm))
    )
    quantities: dict[str, Any] = {"requested_bytes": known(attention + norm, "byte", "counted")}
    quantities |= fields.pop("quantities", {})
    fields.setdefault("labels", {"commit": f"c{day}"})
    run = builders.run(
        created_at=f"2026-01-{day:02d}T00:00:00Z",
        operators=rows,
        totals=builders.totals(**quantities),
        **fields,
    )
    return Entry(f"run-{day}", run)


def timed(day: int, ms: float) -> Entry:
    return entry(day, quantities={"step_time_ns": known(ms * 1e6, "ns", "host")})


def test_an_exact_change_is_found_where_it_happened_and_names_the_operator() -> None:
    days = [entry(1), entry(2), entry(3, attention=1200), entry(4, attention=1200), entry(5)]
    random.Random(1).shuffle(days)
    (series,) = history(days, "requested_bytes")
    assert [point.label for point in series.points] == ["c1", "c2", "c3", "c4", "c5"]
    assert [(change.index, change.delta.change) for change in series.changes] == [
        (2, 200), (4, -200),
    ]  # fmt: skip
    assert series.changes[0].operators == ("attention ▲ worse",)
    assert series.changes[1].operators == ("attention ▼ better",)


def test_one_operator_class_can_be_followed() -> None:
    days = [entry(1), entry(2, attention=1200, norm=300)]
    assert history(days, "requested_bytes")[0].changes == ()
    (series,) = history(days, "requested_bytes", "norm")
    assert [change.delta.change for change in series.changes] == [-200]


def test_runs_that_must_not_be_compared_are_series_of_their_own() -> None:
    other = Machine(device="cuda", gpu="Tesla T4")
    longer = Workload(name="decode", batch=1, context=4095)
    runs = [entry(1), entry(2, attention=9, machine=other), entry(3, norm=9, workload=longer)]
    found = history(runs, "requested_bytes")
    assert [len(series.points) for series in found] == [1, 1, 1]
    assert all(not series.changes for series in found)


def test_a_missing_number_is_neither_a_change_nor_the_end_of_one() -> None:
    gap = entry(2, quantities={"requested_bytes": absent("crashed")})
    (series,) = history([entry(1), gap, entry(3)], "requested_bytes")
    assert series.changes == ()
    assert "crashed" in history_page.render_text([series])
    (series,) = history([entry(1), gap, entry(3, norm=501)], "requested_bytes")
    assert [change.index for change in series.changes] == [2]


def test_moved_bytes_change_from_one_percent_on() -> None:
    def moved(day: int, value: int) -> Entry:
        return entry(day, quantities={"moved_bytes": known(value, "byte", "counters")})

    (series,) = history([moved(1, 1000), moved(2, 1009), moved(3, 1100)], "moved_bytes")
    assert [change.index for change in series.changes] == [2]


def test_a_step_of_times_is_found_and_noise_is_not() -> None:
    numbers = random.Random(5)

    def noisy(day: int, ms: float) -> Entry:
        return timed(day, ms * (1 + 0.02 * numbers.gauss(0, 1)))

    quiet = [noisy(day, 10) for day in range(1, 25)]
    assert history(quiet, "step_time_ns")[0].changes == ()
    stepped = [noisy(day, 10 if day < 12 else 12) for day in range(1, 25)]
    (change,) = history(stepped, "step_time_ns")[0].changes
    assert change.index == 11
    assert change.p is not None
    assert change.p < 0.05
    assert change.delta.relative == pytest.approx(0.2, abs=0.03)


def test_few_runs_show_no_change_of_times() -> None:
    days = [timed(day, 10 if day < 4 else 20) for day in range(1, 7)]
    assert history(days, "step_time_ns")[0].changes == ()


def test_false_changes_of_times_are_rare() -> None:
    numbers = random.Random(11)
    claimed = 0
    for _ in range(200):
        days = [timed(day, math_ms(numbers)) for day in range(1, 17)]
        claimed += bool(history(days, "step_time_ns")[0].changes)
    assert claimed / 200 <= 0.05


def math_ms(numbers: random.Random) -> float:
    return 10 * (1 + 0.06 * numbers.gauss(0, 1))


def test_wrong_words_are_answered() -> None:
    with pytest.raises(UsageError, match="requested_bytes"):
        history([entry(1)], "requested_byte")
    with pytest.raises(UsageError, match="attention"):
        history([entry(1)], "ops", "atention")


def test_csv_has_unrounded_numbers_and_no_formula() -> None:
    run = entry(1, labels={"commit": "=HYPERLINK(1)"})
    text = history_page.render_csv(history([run, entry(2, norm=501)], "requested_bytes"))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["value"] for row in rows] == ["1500", "1501"]
    assert rows[0]["label"] == "'=HYPERLINK(1)"
    assert (rows[1]["change"], rows[1]["operators"]) == ("1", "norm ▲ worse")


def test_json_holds_points_and_changes() -> None:
    data = json.loads(
        history_page.render_json(history([entry(1), entry(2, norm=501)], "requested_bytes"))
    )
    assert data[0]["points"][1]["value"]["value"] == 1501
    assert data[0]["changes"][0]["delta"]["change"] == 1


def test_the_page_is_self_contained_and_inert() -> None:
    hostile = entry(2, norm=900, labels={"commit": "<script>alert(1)</script>"})
    page = history_page.render_html(history([entry(1), hostile], "requested_bytes"))
    assert "<script" not in page
    assert re.findall(r"(?:src|href)=\"(?!#)", page) == []
    assert page.count("<circle") == 2
    assert "norm ▲ worse" in page


def test_a_long_history_stays_small() -> None:
    def at(number: int) -> Entry:
        run = entry(1, norm=500 + number % 7).run
        return Entry(f"run-{number}", with_time(run, number))

    page = history_page.render_html(history([at(number) for number in range(2000)], "ops"))
    assert len(page.encode()) < 1_000_000
    assert "Only the newest 400 of 2000 runs are shown." in page


def with_time(run: Run, number: int) -> Run:
    import msgspec

    stamp = f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return msgspec.structs.replace(run, created_at=stamp)


def test_a_series_without_any_number_has_a_table_and_no_picture() -> None:
    page = history_page.render_html(history([entry(1)], "moved_bytes"))
    assert "<svg" not in page
    assert "not measured in this test" in page
