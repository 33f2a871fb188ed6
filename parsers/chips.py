"""Which counters exist on which chip. The table is data/ncu_counters.json, with its sources."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

TENSOR_PREFIX = "sm__ops_path_tensor_"

_CHIP_IDS = {
    0x140: "gv100", 0x162: "tu102", 0x164: "tu104", 0x166: "tu106", 0x167: "tu117",
    0x168: "tu116", 0x170: "ga100", 0x172: "ga102", 0x173: "ga103", 0x174: "ga104", 0x176: "ga106",
    0x177: "ga107", 0x180: "gh100", 0x192: "ad102", 0x193: "ad103", 0x194: "ad104", 0x196: "ad106",
    0x197: "ad107", 0x1A0: "gb100", 0x1A2: "gb102", 0x1B2: "gb202", 0x1B3: "gb203", 0x1B5: "gb205",
    0x1B6: "gb206", 0x1B7: "gb207",
}  # fmt: skip
"""`device__attribute_chip` to chip: the chip numbers of the Linux kernel's nouveau driver; those of
TU116, GA100, GA102, GA104, GA107, AD106 and GH100 were also seen in reports that name the GPU."""


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = resources.files("rooflens.parsers").joinpath("data/ncu_counters.json").read_text("utf-8")
    table = json.loads(text)
    assert isinstance(table, dict)
    return table


@lru_cache(maxsize=1)
def chip_names() -> tuple[str, ...]:
    """Every chip of the table, sorted."""
    return tuple(sorted(c for chips in _table()["chips_by_source"].values() for c in chips))


def chip_source(chip: str) -> str:
    """Which list the counters of a chip were read from."""
    for source, chips in _table()["chips_by_source"].items():
        if chip in chips:
            return str(source)
    return ""


def chip_of_id(number: float | None) -> str:
    """Chip name for `device__attribute_chip`, or empty when it is not known."""
    return "" if number is None else _CHIP_IDS.get(int(number), "")


_CHIP_OF_CAPABILITY = {
    "7.0": "gv100", "7.2": "gv11b", "7.5": "tu102", "8.0": "ga100", "8.6": "ga102", "8.7": "ga10b",
    "8.9": "ad102", "9.0": "gh100", "10.0": "gb100", "10.1": "gb10b", "10.3": "gb110",
    "11.0": "gb10b", "12.0": "gb202", "12.1": "gb20b",
}  # fmt: skip
"""A chip whose counters stand for all of one compute capability (7.5: those with tensor cores)."""


def chip_of_capability(capability: str) -> str:
    """Chip whose counter names hold for a compute capability such as `8.9`, or empty."""
    return _CHIP_OF_CAPABILITY.get(capability.strip(), "")


@lru_cache(maxsize=4096)
def exists(chip: str, metric: str) -> bool:
    """Whether a base metric (without `.sum`) exists on a chip."""
    if metric.startswith(TENSOR_PREFIX):
        return metric.removeprefix(TENSOR_PREFIX) in tensor_counters(chip)
    row = _table()["metrics"].get(metric)
    if row is None or chip not in chip_names():
        return False
    return chip in row["have"] if "have" in row else chip not in row["lack"]


@lru_cache(maxsize=1)
def listed_metrics() -> tuple[str, ...]:
    """Every base metric that the table knows on some chip."""
    tensor = {n for row in _table()["tensor"] for n in row["names"]}
    return tuple(sorted([*_table()["metrics"], *(TENSOR_PREFIX + n for n in tensor)]))


@lru_cache(maxsize=64)
def tensor_counters(chip: str) -> tuple[str, ...]:
    """Tensor operation counters of a chip, without their prefix; of all chips when it is empty."""
    rows = _table()["tensor"]
    if not chip:
        return tuple(sorted({name for row in rows for name in row["names"]}))
    return tuple(next((row["names"] for row in rows if chip in row["chips"]), ()))


@lru_cache(maxsize=64)
def tensor_parents(chip: str) -> tuple[str, ...]:
    """The counters that are no part of another one: to be added, each once."""
    return tuple(
        name
        for name in tensor_counters(chip)
        if name.startswith("src_") and "_sparsity_" not in name and "_realtime" not in name
    )


def has_tensor_cores(chip: str) -> bool | None:
    """False for TU116 and TU117, None for a chip that the table lacks."""
    return None if chip not in chip_names() else bool(tensor_counters(chip))


def has_dram_counters(chip: str) -> bool | None:
    """False for integrated chips (Orin, Thor, GB10), None for a chip that the table lacks."""
    return None if chip not in chip_names() else exists(chip, "dram__bytes")
