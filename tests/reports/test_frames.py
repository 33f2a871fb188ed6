"""A run as DataFrames."""

from __future__ import annotations

from rooflens.model import Finding, Tensor, TimeRange, absent, known
from tests import builders


def test_tables_hold_values_sources_and_reasons() -> None:
    run = builders.run(
        operators=(
            builders.operator("norm", requested_bytes=known(12, "byte", "counted")),
            builders.operator("norm", part="cast"),
        ),
        kernels=(builders.kernel("gemm", nvtx=("step", "layer 0")),),
        findings=(
            Finding(
                rule="R03-repeat-kv-expand",
                outcome="found",
                title="K and V are copied",
                saving_bytes=known(7, "byte", "counted"),
                consumer_bytes=absent("no counters"),
                saving_ns=TimeRange(low=1, high=2),
            ),
        ),
        ops=(
            builders.op(
                0, "aten.add", layer=3, inputs=(Tensor(id=1, shape=(2, 3), dtype="int8", bytes=6),)
            ),
            builders.op(1, "aten.mul"),
        ),
    )
    frames = run.to_frames()
    operators = frames["operators"]
    assert operators.loc[0, "requested_bytes"] == 12
    assert operators.loc[0, "requested_bytes_source"] == "counted"
    assert operators["requested_bytes"].isna().tolist() == [False, True]
    assert operators.loc[1, "requested_bytes_source"] == "absent: not measured in this test"
    assert operators["part"].tolist() == ["", "cast"]
    assert frames["kernels"].loc[0, "nvtx"] == "step/layer 0"
    assert frames["findings"].loc[0, ["saving_bytes", "saving_ns_high"]].tolist() == [7, 2]
    assert frames["ops"].loc[0, "inputs"] == "int8[2,3]"
    assert frames["ops"]["layer"].isna().tolist() == [False, True]


def test_an_empty_run_has_empty_tables_with_their_columns() -> None:
    frames = builders.run().to_frames()
    assert set(frames) == {"operators", "kernels", "findings", "ops"}
    assert all(len(frame) == 0 and len(frame.columns) > 8 for frame in frames.values())
