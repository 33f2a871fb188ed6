"""A counter capture joined to a recording: counted and counters on one page.

The capture is a CSV as ncu prints it, with one kernel per recorded op of layers 0 and 1 and of what
lies outside layers. Every kernel moves 5 % more than its op asked for: every expectation follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import Imported, import_files
from rooflens.model import Op
from rooflens.reports.markdown import render_markdown
from rooflens.reports.view import build_page

AMPLIFICATION = 1.05
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
HEAD = ("ID", "Process ID", "Process Name", "Host Name", RANGES, "Kernel Name", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
SASS = [f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma")]
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
PIPE = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"
METRICS = ("gpu__time_duration.sum", "dram__bytes.sum", TENSOR, PIPE, *SASS)
UNITS = ("ns", "byte", "", "%", "inst", "inst", "inst")


@lru_cache(maxsize=1)
def recorded() -> tuple[Op, ...]:
    """All 28 layers of the reference decode step."""
    from rooflens.harness.counting import count_step
    from rooflens.workloads.registry import workload

    spec = workload("decode").spec(
        model="qwen2.5-7b", weights=None, batch=1, context=2047, prompt=None, query_tokens=None,
        logits="last", attention="sdpa", dtype=None, device="meta", layers=None, seed=0,
    )  # fmt: skip
    return count_step(spec)


def moved(op: Op) -> int:
    """What the kernel of an op moves."""
    return round((op.bytes_in + op.bytes_out) * AMPLIFICATION)


def cell(text: object) -> str:
    return '"' + str(text).replace('"', '""') + '"'


def capture(folder: Path, ops: Sequence[Op], layers: Sequence[int | None]) -> Path:
    """A wide CSV with one kernel per op of the given layers."""
    lines = [",".join(map(cell, (*HEAD, *METRICS))), ",".join(map(cell, ("",) * 12 + UNITS))]
    for op in ops:
        if op.layer not in layers:
            continue
        ranges = "  ".join(
            f'"rooflens:{name}:none:none:none:none:none:none"'
            for name in ("step", f"op {op.index} {op.name}")
        )
        name = "gemm_kernel" if op.flops else "vectorized_elementwise_kernel"
        ids = (len(lines) - 2, 1, "python", "host", f"7  {ranges} ", name, 1, 7, "(128, 1, 1)",
               "(8, 1, 1)", 0, "9.0")  # fmt: skip
        busy = 50 if op.flops else 0
        time_ns = 1000 + moved(op) // 2000  # at most 2 TB/s
        values = (time_ns, moved(op), op.flops, busy, op.elementwise_flops, 0, 0)
        lines.append(",".join(map(cell, (*ids, *values))))
    path = folder / "step.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def imported(folder: Path, layers: Sequence[int | None]) -> Imported:
    options = ImportOptions(
        model="qwen2.5-7b", workload="decode", batch=1, context=2047, gpu="h100-sxm"
    )
    return import_files([capture(folder, recorded(), layers)], options, recorded())


def test_every_kernel_joins_its_op_and_the_sums_are_those_of_the_ops(tmp_path: Path) -> None:
    run = imported(tmp_path, [None, *range(28)]).run
    assert run.evidence == ("theory", "counted", "counters")
    (check,) = [c for c in run.checks if c.id == "kernel-join"]
    launches = sum(kernel.count for kernel in run.kernels)
    assert check.message.startswith(f"{launches:,} of {launches:,} launches")
    assert f": {launches:,} by op id." in check.message
    assert run.totals.moved_bytes.value == sum(moved(op) for op in recorded())
    assert run.totals.executed_flops.value == sum(op.flops for op in recorded())
    requested = float(run.totals.requested_bytes.value or 0)
    assert float(run.totals.moved_bytes.value or 0) / requested == pytest.approx(
        AMPLIFICATION, rel=1e-4
    )
    for row in run.operators:
        assert float(row.moved_bytes.value or 0) == pytest.approx(
            float(row.requested_bytes.value or 0) * AMPLIFICATION, rel=1e-3, abs=2
        ), row.op_class


def test_two_layers_stand_for_all_and_say_so(tmp_path: Path) -> None:
    run = imported(tmp_path, [None, 0, 1]).run
    assert run.totals.moved_bytes.value == sum(moved(op) for op in recorded())
    assert run.totals.moved_bytes.extrapolated_from == (0, 1)
    rows = {row.op_class: row for row in run.operators if row.part is None}
    assert rows["up_proj"].moved_bytes.extrapolated_from == (0, 1)
    assert rows["lm_head"].moved_bytes.extrapolated_from == ()
    (check,) = [c for c in run.checks if c.id == "sampled-layers"]
    assert check.outcome == "passed"
    assert check.message.startswith("The capture holds layers 0, 1 of 28: ")


def test_a_layer_that_lost_a_kernel_is_not_extrapolated(tmp_path: Path) -> None:
    path = capture(tmp_path, recorded(), [None, 0, 1])
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:20] + lines[21:]), "utf-8")
    options = ImportOptions(model="qwen2.5-7b", workload="decode", batch=1, context=2047)
    run = import_files([path], options, recorded()).run
    assert run.totals.moved_bytes.value is None
    assert "failed" in {c.outcome for c in run.checks if c.id == "sampled-layers"}
    rows = {row.op_class: row for row in run.operators if row.part is None}
    assert "layers 0 and 1 of the capture have" in (rows["up_proj"].moved_bytes.absent or "")
    assert rows["lm_head"].moved_bytes.value is not None


def test_operators_of_counted_and_counters(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """Minimum, requested and moved bytes side by side; the findings have goldens of their own."""
    page = render_markdown(build_page(imported(tmp_path, [None, 0, 1]).run))
    operators = page.partition("#### Operators")[2].partition("</details>")[0]
    assert "q_proj" in operators
    golden("import/counted-and-counters.md", operators)
