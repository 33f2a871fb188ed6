"""Numbers and units as ncu prints them."""

from __future__ import annotations

import pytest

from rooflens.errors import InputError
from rooflens.parsers.ncu_units import Style, base_unit, missing_reason, number_style, parse_number


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("nsecond", "ns", 1), ("us", "ns", 1e3), ("msecond", "ns", 1e6), ("s", "ns", 1e9),
        ("byte", "byte", 1), ("Gbyte", "byte", 1e9), ("Ksector", "sector", 1e3),
        ("Mcycle", "cycle", 1e6), ("cycle/nsecond", "hz", 1e9), ("cycle/usecond", "hz", 1e6),
        ("cycle/second", "hz", 1), ("Ghz", "hz", 1e9), ("hz", "hz", 1),
        ("Gbyte/second", "byte/s", 1e9), ("byte/s", "byte/s", 1), ("Tbyte/s", "byte/s", 1e12),
        ("byte/cycle", "byte/cycle", 1), ("Kbyte/block", "byte/block", 1e3),
        ("inst/cycle", "inst/cycle", 1), ("register/thread", "register/thread", 1),
        ("", "", 1), ("%", "%", 1),
    ],
)  # fmt: skip
def test_units(unit: str, base: str, factor: float) -> None:
    found, by = base_unit(unit)
    assert found == base
    assert by == pytest.approx(factor)


@pytest.mark.parametrize("unit", ["furlong", "Xbyte", "byte/fortnight", "kbyte!", "µ"])
def test_an_unknown_unit_raises(unit: str) -> None:
    with pytest.raises(InputError, match="Unknown unit"):
        base_unit(unit)


@pytest.mark.parametrize(
    ("text", "style", "number"),
    [
        ("1389856", "english", 1389856), ("999,845,384.51", "english", 999845384.51),
        ("4,096", "english", 4096), ("21747.809524", "english", 21747.809524),
        ("-1.5", "english", -1.5), ("1e9", "english", 1e9), ("1056 (1056)", "english", 1056),
        ("8170 (50; 50; 41)", "english", 8170), ("12,34", "english", None),
        ("1_000", "english", None), ("0x10", "english", None), ("SIMT", "english", None),
        ("nan", "english", None), ("inf", "english", None), ("", "english", None),
        ("9" * 500, "english", None),
        ("27.595.520", "german", 27595520), ("117.344", "german", 117344),
        ("65,77", "german", 65.77), ("1.234,5", "german", 1234.5), ("12", "german", 12),
    ],
)  # fmt: skip
def test_numbers(text: str, style: Style, number: float | None) -> None:
    assert parse_number(text, style) == number


def test_style_needs_proof_and_takes_no_other() -> None:
    assert number_style(["1.234", "5"]) == "english"
    assert number_style(["1.234", "27.595.520"]) == "german"
    assert number_style(["65,77"]) == "german"
    assert number_style(["1,234,567", "8,170"]) == "english"
    with pytest.raises(InputError):
        number_style(["65,77", "65.77"])


def test_every_missing_word_has_a_reason() -> None:
    for word in ("n/a", "nan", "-nan", "inf", "no data", " ", "(!) nan"):
        assert missing_reason(word)
    assert not missing_reason("3")
