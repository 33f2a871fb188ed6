"""Following tensors by storage: producers, readers, and what one fused call would move."""

from __future__ import annotations

from rooflens.reports.findings.dataflow import Flow
from rooflens.reports.findings.groups import split_evenly
from tests.builders import op, tensor

X, Y, Z, OUT = (tensor(number, (8, 4)) for number in range(1, 5))
WEIGHT = tensor(9, (4,), role="weight")

SQUARE = op(0, "aten.pow", inputs=(X,), outputs=(Y,))
SCALE = op(1, "aten.mul", inputs=(Y, WEIGHT), outputs=(Z,))
LAST = op(2, "aten.mm", inputs=(Z,), outputs=(OUT,))
FLOW = Flow((SQUARE, SCALE, LAST))


def test_producer_is_the_last_writer_before() -> None:
    assert FLOW.producer(SCALE, Y) is SQUARE
    assert FLOW.producer(SQUARE, X) is None
    again = op(3, "aten.add_", inputs=(Y,), outputs=(Y,))
    reader = op(4, "aten.neg", inputs=(Y,), outputs=(tensor(7, (8, 4)),))
    flow = Flow((SQUARE, SCALE, LAST, again, reader))
    assert flow.producer(reader, Y) is again
    assert flow.producer(SCALE, Y) is SQUARE


def test_readers_come_after_the_writer() -> None:
    assert FLOW.readers(SQUARE) == [SCALE]
    assert FLOW.readers(LAST) == []


def test_came_in_is_old_data_but_no_weight() -> None:
    assert FLOW.came_in(SQUARE, X)
    assert not FLOW.came_in(SCALE, Y)
    assert not FLOW.came_in(SCALE, WEIGHT)


def test_reach_walks_through_accepted_ops_and_reports_the_rest() -> None:
    walked, ends = FLOW.reach(SQUARE, lambda reader: reader.name == "aten.mul")
    assert (walked, ends) == ([SCALE], [LAST])


def test_sources_walk_backward() -> None:
    assert FLOW.sources(LAST, Z, lambda producer: True) == [SQUARE, SCALE]
    assert FLOW.sources(LAST, Z, lambda producer: producer is SCALE) == [SCALE]


def test_a_fused_call_reads_what_enters_and_writes_what_leaves() -> None:
    # x (64 bytes) and the weight (8) enter, z (64) leaves; y never reaches memory.
    assert FLOW.fused_bytes((SQUARE, SCALE)) == 64 + 8 + 64


def test_a_result_that_nobody_reads_leaves_as_well() -> None:
    assert FLOW.fused_bytes((SCALE, LAST)) == 64 + 8 + 64


def test_a_split_is_exact() -> None:
    shares = split_evenly([SQUARE, SCALE], 101)
    assert sum(shares.values()) == 101
    assert split_evenly([SQUARE], 0) == {}
