"""Kernel groups of the eager reference step by operator class and part (groups.toml)."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

from rooflens.model import Op
from rooflens.quantity import Record


class Group(Record, frozen=True, kw_only=True, rename={"op_class": "class"}):
    """One row of groups.toml."""

    op_class: str
    part: str | None = None
    product: bool | None = None
    group: str
    theory: str | None = None


@cache
def groups() -> tuple[Group, ...]:
    """All rows, in the file's order; of several that fit an op, the first counts."""
    import msgspec

    text = resources.files(__package__).joinpath("groups.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["group"], tuple[Group, ...])


def group_of(op: Op) -> Group | None:
    """The kernel group of a classified op; None for classes that the reference step has not."""
    for row in groups():
        fits_part = row.part is None or row.part == op.part
        fits_product = row.product is None or row.product == bool(op.flops)
        if row.op_class == op.op_class and fits_part and fits_product:
            return row
    return None
