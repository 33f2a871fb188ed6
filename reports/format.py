"""Numbers as people read them. Every renderer, command and finding formats here and nowhere else.

    bytes_text(16_211_262_656)   "16.21 GB"        decimal units: 1 GB = 1e9 byte
    flops_text(14_962_655_232)   "14.96 GFLOP"     1 MAC = 2 FLOP
    time_text(14_145_823)        "14.1 ms"         from nanoseconds
    ratio_text(1.136)            "1.136×"
    percent_text(0.0579)         "5.8 %"
    quantity_text(absent("..."))  "–"              the reason is `Quantity.absent`

Values are rounded to a fixed number of significant digits. A share never rounds to 0 % or 100 %
unless it is exactly that.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal

from rooflens.model import Quantity, TimeRange

NONE = "–"
"""What stands where a number is missing; the reason is printed beside or below it."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_TIME_STEPS = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

SOURCE_LABELS: dict[str, str] = {
    "theory": "theory",
    "counted": "counted",
    "timeline": "timeline",
    "counters": "counters",
    "host": "host clock",
}
"""The word that a tag beside a number shows, by `Quantity.source`."""


def significant_text(value: float, digits: int) -> str:
    """Round to `digits` significant digits without exponent, with thousands separators."""
    if value == 0:
        return "0"
    exact = Decimal(repr(float(value)))
    places = digits - 1 - exact.adjusted()
    rounded = exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    # 9.996 to three digits is 10.00: one digit too many behind the point.
    if rounded.adjusted() > exact.adjusted() and places > 0:
        places -= 1
        rounded = exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    return f"{rounded:,.{max(places, 0)}f}".replace("-", "−")


def _scaled_text(value: float, unit: str, digits: int) -> str:
    """Print with the decimal prefix that leaves 1 to 999 before the point."""
    size = abs(value)
    step = 0
    while step < len(_PREFIXES) - 1 and _rounded(size / 1000**step, digits) >= 1000:
        step += 1
    if value == 0:
        return "0"
    if step == 0:
        return f"{count_text(value)} {unit}"
    return f"{significant_text(value / 1000**step, digits)} {_PREFIXES[step]}{unit}"


def _rounded(value: float, digits: int) -> float:
    return float(significant_text(abs(value), digits).replace(",", ""))


def bytes_text(value: float) -> str:
    """Bytes in decimal units, four digits: `939.5 MB`; `512 B` below 1000; nothing is `0`."""
    return _scaled_text(value, "B", 4)


def flops_text(value: float) -> str:
    """Floating-point operations, four digits: `14.96 GFLOP`."""
    return _scaled_text(value, "FLOP", 4)


def time_text(ns: float) -> str:
    """A time from nanoseconds, three digits: `850 ns`, `14.1 ms`, `12.0 s`."""
    if ns == 0:
        return "0"
    size = abs(ns)
    step = 0
    while step < len(_TIME_STEPS) - 1 and _rounded(size / _TIME_STEPS[step][0], 3) >= 1000:
        step += 1
    factor, unit = _TIME_STEPS[step]
    return f"{significant_text(ns / factor, 3)} {unit}"


def bandwidth_text(bytes_per_s: float) -> str:
    """A bandwidth, four digits: `1.008 TB/s`."""
    return _scaled_text(bytes_per_s, "B/s", 4)


def flop_rate_text(flops_per_s: float) -> str:
    """A rate of floating-point operations, four digits: `165.2 TFLOP/s`."""
    return _scaled_text(flops_per_s, "FLOP/s", 4)


def hertz_text(hertz: float) -> str:
    """A clock, four digits: `1.980 GHz`."""
    return _scaled_text(hertz, "Hz", 4)


def intensity_text(flop_per_byte: float) -> str:
    """Arithmetic intensity in FLOP per byte, three digits: `1.05`."""
    return significant_text(flop_per_byte, 3)


def ratio_text(ratio: float) -> str:
    """A factor, four digits up to 10 and three above: `1.136×`, `35.6×`."""
    return f"{significant_text(ratio, 4 if abs(ratio) < 10 else 3)}×"


def percent_text(share: float) -> str:
    """A share of 1 as per cent: `37 %`, `5.8 %`; `<0.1 %` and `>99.9 %` instead of 0 and 100."""
    percent = share * 100
    if percent == 0 or share == 1:
        return f"{percent:.0f} %"
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f} %" if abs(percent) < 10 or 99 < percent < 101 else f"{percent:.0f} %"


def percent_floor_text(share: float) -> str:
    """A share beside a limit: cut, never rounded up across it (`94.9 %` for 0.94999)."""
    return f"{math.floor(share * 1000) / 10:.1f} %"


def delta_text(relative: float) -> str:
    """A relative change with its sign: `+4.2 %`, `−0.8 %`."""
    sign = "+" if relative > 0 else "−" if relative < 0 else "±"
    return f"{sign}{percent_text(abs(relative))}"


def count_text(value: float) -> str:
    """A whole number with thousands separators; a fraction keeps up to two digits."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def plural(count: int, noun: str, many: str = "") -> str:
    """A count with its noun: `1 kernel`, `1,401 kernels`."""
    return f"{count_text(count)} {noun if count == 1 else many or noun + 's'}"


def time_range_text(span: TimeRange) -> str:
    """A saving in time: `0.92 to 1.40 ms`, or one time when both ends print the same."""
    low, high = time_text(span.low), time_text(span.high)
    if low == high:
        return high
    if span.low == 0:
        return f"up to {high}"
    low_number, low_unit = low.rsplit(" ", 1)
    return f"{low_number} to {high}" if high.endswith(f" {low_unit}") else f"{low} to {high}"


def tick_text(value: float) -> str:
    """A tick of a logarithmic axis: `0.01`, `1`, `500`, `10⁴`, `2·10⁴`."""
    if 0.01 <= value < 10_000:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10.0**exponent)
    power = "10" + str(exponent).translate(_SUPERSCRIPTS)
    return power if digit == 1 else f"{digit}·{power}"


def keys_text(context: int | None, query_tokens: int | None) -> str:
    """How many keys a step attends: `context 2047 + 1 new = 2048 keys`; empty when unknown."""
    if context is None or query_tokens is None:
        return ""
    return f"context {context} + {query_tokens} new = {context + query_tokens} keys"


def quantity_text(quantity: Quantity) -> str:
    """A quantity in its own unit, or `–` when it is absent."""
    if quantity.value is None:
        return NONE
    if quantity.unit == "byte":
        return bytes_text(quantity.value)
    if quantity.unit == "flop":
        return flops_text(quantity.value)
    if quantity.unit == "ns":
        return time_text(quantity.value)
    if quantity.unit == "flop/byte":
        return intensity_text(quantity.value)
    return count_text(quantity.value)


def exact_text(quantity: Quantity) -> str:
    """A quantity without rounding, with its unit: `16,211,262,656 byte`; or why there is none."""
    if quantity.value is None:
        return quantity.absent or ""
    unit = "" if quantity.unit == "1" else f" {quantity.unit}"
    return f"{count_text(quantity.value)}{unit}"


def source_text(quantity: Quantity) -> str:
    """The evidence level of a number in words, with what it was extrapolated from."""
    if quantity.source is None:
        return ""
    label = SOURCE_LABELS[quantity.source]
    layers = quantity.extrapolated_from
    if not layers:
        return label
    which = f"layer {layers[0]}" if len(layers) == 1 else f"{len(layers)} layers"
    return f"{label}, extrapolated from {which}"
