"""The table of kernel groups is complete and uses the words of the data model."""

from __future__ import annotations

from rooflens.reports.join.groups import group_of, groups
from rooflens.vocabulary import OPERATOR_CLASSES, PARTS
from tests.builders import op


def test_rows_use_known_classes_parts_and_theory() -> None:
    for row in groups():
        assert row.op_class in OPERATOR_CLASSES
        assert row.part is None or row.part in PARTS[row.op_class]
        assert row.theory is None or row.theory in OPERATOR_CLASSES


def test_the_first_row_that_fits_counts() -> None:
    tables = group_of(op(0, "aten.cos", op_class="rope", part="tables"))
    rotate = group_of(op(0, "aten.mul", op_class="rope", part="rotate"))
    assert tables is not None and tables.group == "rotary tables"
    assert rotate is not None and rotate.group == "rotary"
    product = group_of(op(0, "aten.bmm", op_class="attention", part="scores", flops=2))
    scale = group_of(op(0, "aten.mul", op_class="attention", part="scores"))
    assert product is not None and product.group == "bmm QK^T"
    assert scale is not None and scale.group == "scores elementwise"
    assert group_of(op(0, "aten.fft", op_class="other")) is None
