"""A timeline of our own step on a GPU: each launch finds its op by layer and place."""

from __future__ import annotations

from pathlib import Path

from rooflens.harness.collectors.timeline import with_timeline
from rooflens.model import Op, Run
from rooflens.parsers import nsys_sqlite
from tests import builders
from tests.captures import ExportFile

GEMM, ADD = "ampere_bf16_s16816gemm", "vectorized_elementwise_kernel"


def recorded() -> Run:
    """Two layers: a q projection, a rotation inside self_attn, and the residual addition."""
    ops: list[Op] = []
    for layer in range(2):
        path = f"model.layers.{layer}"
        for name, module, op_class in (
            ("aten.mm", f"{path}.self_attn.q_proj", "q_proj"),
            ("aten.mul", f"{path}.self_attn", "rope"),
            ("aten.add", path, "residual"),
        ):
            ops.append(
                builders.op(
                    len(ops), name, module=module, layer=layer, op_class=op_class,
                    flops=100 if name == "aten.mm" else 0,
                )
            )  # fmt: skip
    operators = tuple(builders.operator(name) for name in ("q_proj", "rope", "residual"))
    return builders.run(ops=tuple(ops), operators=operators)


def capture(path: Path) -> Path:
    """The same step: products of 100 ns, rotations of 20 ns, additions of 5 ns."""
    export = ExportFile()
    export.domain(3, "rooflens")
    export.range(0, 4000, "step", domain=3)
    for layer in range(2):
        at, prefix = 10 + 1000 * layer, f"model.layers.{layer}"
        export.range(at, at + 900, f"layer {layer}", domain=3)
        export.range(at + 10, at + 500, f"{prefix}.self_attn", domain=3)
        export.range(at + 20, at + 100, f"{prefix}.self_attn.q_proj", domain=3)
        export.launch(at + 30, at + 200, at + 300, GEMM)
        export.launch(at + 150, at + 400, at + 420, ADD)
        export.launch(at + 600, at + 700, at + 705, ADD)
    return export.write(path)


def test_pointwise_kernels_of_one_name_get_the_class_of_their_op(tmp_path: Path) -> None:
    reading = nsys_sqlite.read(capture(tmp_path / "step.sqlite"))
    run = with_timeline(recorded(), reading)
    times = {row.op_class: row.time_ns.value for row in run.operators}
    assert times == {"q_proj": 200, "rope": 40, "residual": 10}
    assert all(row.time_ns.source == "timeline" for row in run.operators)
    rows = {row.op_class: row for row in run.kernels}
    assert {name: row.count for name, row in rows.items()} == {
        "q_proj": 2, "rope": 2, "residual": 2,
    }  # fmt: skip
    assert rows["q_proj"].join.method == "nvtx path"
    assert rows["rope"].nvtx[-1] == "model.layers.*.self_attn"


def test_the_step_and_its_idle_time_come_along(tmp_path: Path) -> None:
    run = with_timeline(recorded(), nsys_sqlite.read(capture(tmp_path / "step.sqlite")))
    assert run.timeline is not None
    assert (run.timeline.steps[0].busy_ns, run.timeline.steps[0].wall_ns) == (250, 4000)
    assert run.step_times_ns == (4000,)
