"""Numbers read the same everywhere, and rounding never changes what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflens.model import Quantity, TimeRange, absent, known
from rooflens.reports import format as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "1.000 kB"),
        (7176, "7.176 kB"),
        (939_524_096, "939.5 MB"),
        (999_960_000, "1.000 GB"),
        (16_211_262_656, "16.21 GB"),
        (166_788_900_000, "166.8 GB"),
        (1.2e24, "1,200,000 EB"),
        (-939_524_096, "−939.5 MB"),
    ],
)
def test_bytes_use_decimal_units_and_four_digits(value: float, text: str) -> None:
    assert fmt.bytes_text(value) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"),
        (850, "850 ns"),
        (6310, "6.31 µs"),
        (14_145_823.5, "14.1 ms"),
        (999_600, "1.00 ms"),
        (9_996_000, "10.0 ms"),
        (12_000_000_000, "12.0 s"),
        (7.2e12, "7,200 s"),
    ],
)
def test_times_use_three_digits(ns: float, text: str) -> None:
    assert fmt.time_text(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.0579, "5.8 %"),
        (0.371, "37 %"),
        (0.99996, ">99.9 %"),
        (1, "100 %"),
        (1.5, "150 %"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_everything(share: float, text: str) -> None:
    assert fmt.percent_text(share) == text


def test_a_share_beside_a_limit_is_cut_and_not_rounded() -> None:
    assert fmt.percent_floor_text(0.94999) == "94.9 %"


@pytest.mark.parametrize(("ratio", "text"), [(1.1360, "1.136×"), (4.4, "4.400×"), (35.6, "35.6×")])
def test_ratios(ratio: float, text: str) -> None:
    assert fmt.ratio_text(ratio) == text


def test_a_change_always_has_a_sign() -> None:
    assert fmt.delta_text(0.042) == "+4.2 %"
    assert fmt.delta_text(-0.008) == "−0.8 %"
    assert fmt.delta_text(0) == "±0 %"


def test_a_range_names_its_unit_once_where_it_can() -> None:
    assert fmt.time_range_text(TimeRange(low=920_000, high=1_400_000)) == "920 µs to 1.40 ms"
    assert fmt.time_range_text(TimeRange(low=1_100_000, high=1_400_000)) == "1.10 to 1.40 ms"
    assert fmt.time_range_text(TimeRange(low=0, high=1_400_000)) == "up to 1.40 ms"
    assert fmt.time_range_text(TimeRange(low=1_400_000, high=1_400_001)) == "1.40 ms"


def test_keys_of_a_step() -> None:
    assert fmt.keys_text(2047, 1) == "context 2047 + 1 new = 2048 keys"
    assert fmt.keys_text(None, 1) == ""


def test_an_absent_quantity_is_a_dash_and_its_exact_text_is_the_reason() -> None:
    missing = absent("not collected: ERR_NVGPUCTRPERM")
    assert fmt.quantity_text(missing) == "–"
    assert fmt.exact_text(missing) == "not collected: ERR_NVGPUCTRPERM"
    assert fmt.source_text(missing) == ""


def test_a_quantity_prints_in_its_own_unit() -> None:
    assert fmt.quantity_text(known(14_962_655_232, "flop", "theory")) == "14.96 GFLOP"
    assert fmt.quantity_text(known(1.0496, "flop/byte", "theory")) == "1.05"
    assert fmt.quantity_text(known(14_145_823, "ns", "theory")) == "14.1 ms"
    assert fmt.exact_text(known(16_211_262_656, "byte", "counted")) == "16,211,262,656 byte"


def test_extrapolation_is_said() -> None:
    sampled = Quantity(value=1, unit="byte", source="counters", extrapolated_from=(0, 1))
    assert fmt.source_text(sampled) == "counters, extrapolated from 2 layers"


def test_axis_ticks() -> None:
    assert [fmt.tick_text(n) for n in (1e-4, 0.01, 1, 5, 1000, 2e4, 1e12)] == [
        "10⁻⁴", "0.01", "1", "5", "1000", "2·10⁴", "10¹²",
    ]  # fmt: skip


@given(st.floats(min_value=1, max_value=1e18))
def test_the_printed_bytes_are_within_rounding_of_the_value(value: float) -> None:
    number, unit = fmt.bytes_text(value).split(" ")
    factor = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(value, rel=6e-3)


@given(st.floats(min_value=1e-3, max_value=1e15))
def test_the_printed_time_is_within_rounding_of_the_value(value: float) -> None:
    number, unit = fmt.time_text(value).split(" ")
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(value, rel=6e-3)
