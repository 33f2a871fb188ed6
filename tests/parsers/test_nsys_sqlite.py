"""What an nsys export says, on captures small enough to work out by hand."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.model import Check, Timeline
from rooflens.parsers import nsys_sqlite
from rooflens.reading import Reading
from tests.captures import PROCESS, START_END, THREAD, ExportFile


def read(export: ExportFile, folder: Path, without: tuple[str, ...] = ()) -> Reading:
    return nsys_sqlite.read(export.write(folder / "a.sqlite", without))


def timeline(reading: Reading) -> Timeline:
    assert reading.timeline is not None
    return reading.timeline


def check(reading: Reading, id: str) -> Check:
    return next(c for c in reading.checks if c.id == id)


def sums(reading: Reading) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for row in reading.kernels:
        assert row.duration_ns.value is not None
        count, time = found.get(row.name, (0, 0.0))
        found[row.name] = (count + row.count, time + row.count * float(row.duration_ns.value))
    return found


def one_step(export: ExportFile) -> ExportFile:
    """A step of ours: 0 to 1000, with two kernels on two streams that overlap for 50 ns."""
    export.domain(3, "rooflens")
    export.range(0, 1000, "step", domain=3)
    export.range(10, 400, "model.layers.0.self_attn.q_proj", domain=3)
    export.launch(20, 100, 300, "gemm_a")
    export.launch(500, 250, 450, "gemm_b", stream=8)
    return export


def test_busy_is_a_union_over_streams_and_idle_is_the_rest(tmp_path: Path) -> None:
    step = timeline(read(one_step(ExportFile()), tmp_path)).steps[0]
    assert (step.wall_ns, step.busy_ns, step.idle_ns) == (1000, 350, 650)
    assert (step.kernels, step.launches) == (2, 2)


def test_the_innermost_range_of_the_launch_owns_a_kernel(tmp_path: Path) -> None:
    reading = read(one_step(ExportFile()), tmp_path)
    rows = {row.name: row for row in reading.kernels}
    assert rows["gemm_a"].nvtx == ("step", "model.layers.*.self_attn.q_proj")
    assert (rows["gemm_a"].op_class, rows["gemm_a"].join.method) == ("q_proj", "nvtx path")
    assert rows["gemm_b"].nvtx == ("step",)


def test_a_range_is_projected_from_first_start_to_last_end(tmp_path: Path) -> None:
    ranges = {r.path[-1]: r for r in timeline(read(one_step(ExportFile()), tmp_path)).ranges}
    assert ranges["step"].device_ns.value == 350
    assert ranges["step"].host_ns.value == 1000
    assert ranges["model.layers.*.self_attn.q_proj"].device_ns.value == 200


def test_names_of_ranges_may_be_registered_strings(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 100, "registered", registered=True)
    export.launch(10, 20, 30)
    assert [r.path for r in timeline(read(export, tmp_path)).ranges] == [("registered",)]


@pytest.mark.parametrize("missing", ["textId", "domainId", "endGlobalTid"])
def test_older_schemas_lack_columns_of_ranges(tmp_path: Path, missing: str) -> None:
    export = ExportFile()
    export.range(0, 100, "step 1")
    export.launch(10, 20, 30)
    assert timeline(read(export, tmp_path, (missing,))).ranges[0].count == 1


def test_a_later_version_of_the_range_table_is_found(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 100, "new", table="NVTX_EVENTS_V2")
    export.launch(10, 20, 30)
    assert timeline(read(export, tmp_path)).ranges[0].path == ("new",)


def test_start_end_ranges_are_ranges_too(tmp_path: Path) -> None:
    export = ExportFile()
    for at in (0, 100):
        export.range(at, at + 90, "decode", kind=START_END)
        export.launch(at + 10, at + 20, at + 60)
    found = timeline(read(export, tmp_path))
    assert [step.phase for step in found.steps] == ["decode", "decode"]
    assert [step.busy_ns for step in found.steps] == [40, 40]


def test_a_start_end_range_is_projected_unless_it_changes_threads(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 100, "stays", kind=START_END)
    export.range(0, 100, "moves", kind=START_END, end_thread=THREAD + 1)
    export.launch(10, 20, 70)
    reading = read(export, tmp_path)
    ranges = {r.path: r for r in timeline(reading).ranges}
    assert ranges[("stays",)].device_ns.value == 50
    assert ranges[("moves",)].device_ns.value is None
    assert ranges[("moves",)].host_ns.value == 100
    assert {row.nvtx for row in reading.kernels} == {()}


def test_an_unclosed_range_ends_with_the_capture_and_is_counted(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, None, "serve")
    export.launch(10, 20, 300)
    found = timeline(read(export, tmp_path))
    assert found.ranges[0].host_ns.value == 300
    assert any("1 NVTX ranges were still open" in fact for fact in found.facts)


def test_correlation_ids_count_per_process(tmp_path: Path) -> None:
    export = ExportFile()
    other = 0x0001_0000_0900_0000
    for process, name in ((PROCESS, "mine"), (other, "theirs")):
        export.range(0, 100, name, thread=process + 7)
        export.call(10, 12, 1, thread=process + 7)
    export.kernel(20, 30, "a", correlation=1, process=PROCESS)
    export.kernel(40, 60, "b", correlation=1, process=other, device=1)
    rows = {row.name: row for row in read(export, tmp_path).kernels}
    assert (rows["a"].nvtx, rows["b"].nvtx) == (("mine",), ("theirs",))
    assert (rows["a"].device, rows["b"].device) == (0, 1)


def test_a_hand_reduced_export_has_no_process_and_no_registers(tmp_path: Path) -> None:
    export = ExportFile()
    export.launch(10, 20, 70)
    reading = read(export, tmp_path, ("globalPid", "graphNodeId", "contextId"))
    assert sums(reading) == {"gemm": (1, 50.0)}
    assert check(reading, "timeline-launches").outcome == "passed"


def test_graph_nodes_belong_to_the_launch_that_replays_them(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 100, "decode 1")
    export.call(10, 14, 1, "cudaGraphLaunch_v10000")
    for i in range(3):
        export.kernel(20 + 10 * i, 28 + 10 * i, f"k{i}", correlation=1, node=100 + i)
    reading = read(export, tmp_path)
    step = timeline(reading).steps[0]
    assert (step.kernels, step.launches) == (3, 1)
    assert timeline(reading).phases[0].graph_launches == 1
    assert reading.graphs == ()
    assert check(reading, "timeline-graphs").outcome == "passed"


def test_whole_graphs_are_graphs_and_never_kernels(tmp_path: Path) -> None:
    export = ExportFile()
    export.launch(0, 5, 8)
    for i in range(2):
        export.call(10 + 100 * i, 12 + 100 * i, 50 + i, "cudaGraphLaunch_v10000")
        export.graph(20 + 100 * i, 80 + 100 * i, 50 + i)
    reading = read(export, tmp_path)
    assert sums(reading) == {"gemm": (1, 3.0)}
    assert [(g.id, g.launches, g.duration_ns.value) for g in reading.graphs] == [(5, 2, 60.0)]
    assert "only as whole graphs" in check(reading, "timeline-graphs").message
    assert any("2 CUDA graph launches take 0.000 ms" in f for f in timeline(reading).facts)


def test_replays_without_their_kernels_are_a_named_warning(tmp_path: Path) -> None:
    export = ExportFile()
    export.launch(0, 5, 8)
    export.call(10, 12, 2, "cudaGraphLaunch_v10000")
    found = check(read(export, tmp_path), "timeline-graphs")
    assert found.outcome == "warning"
    assert "not at all" in found.message and "--cuda-graph-trace=node" in found.fix


def test_collectives_are_apart_and_copies_are_counted(tmp_path: Path) -> None:
    export = ExportFile()
    export.domain(3, "rooflens")
    export.range(0, 500, "step", domain=3)
    export.launch(10, 20, 120, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")
    export.launch(30, 130, 200, "gemm")
    export.call(40, 42, 9, "cudaMemcpyAsync_v3020")
    export.copy(210, 240, correlation=9)
    step = timeline(read(export, tmp_path)).steps[0]
    assert (step.communication_ns, step.copy_ns, step.busy_ns) == (100, 30, 200)


def test_launches_without_kernels_are_a_failure_with_a_fix(tmp_path: Path) -> None:
    export = ExportFile()
    export.call(10, 12, 1)
    found = check(read(export, tmp_path), "timeline-kernels")
    assert found.outcome == "failed"
    assert "1 launches" in found.message and "driver" in found.fix


def test_ranges_alone_give_host_times_and_say_so(tmp_path: Path) -> None:
    export = ExportFile()
    export.domain(3, "rooflens")
    export.range(0, 9, "warmup", domain=3)
    export.range(1, 8, "step", domain=3)
    for start, end in ((100, 300), (400, 610)):
        export.range(start, end, "step", domain=3)
        export.range(start + 5, start + 50, "layer 0", domain=3)
    reading = read(export, tmp_path)
    assert reading.step_times_ns == (200, 210)
    assert reading.machine.gpu == ""
    paths = {r.path: (r.count, r.host_ns.value) for r in timeline(reading).ranges}
    assert paths == {("step",): (2, 205.0), ("step", "layer *"): (2, 45.0)}
    assert timeline(reading).ranges[0].device_ns.absent == "no device activity in the capture"
    assert check(reading, "timeline-kernels").outcome == "warning"


def test_nothing_private_is_read(tmp_path: Path) -> None:
    export = one_step(ExportFile())
    secret = "TOKEN=hunter2 /home/alice"
    export.string(secret)
    export.add("ProcessStreams", ("globalPid", "content"), (PROCESS, secret))
    export.add("META_DATA_CAPTURE", ("name", "value"), ("PROCESS_0:ENVIRONMENT_VARIABLE", secret))
    export.add("TARGET_INFO_SYSTEM_ENV", ("name", "value"), ("Hostname", secret))
    assert "hunter2" not in repr(read(export, tmp_path))


def test_the_gpu_is_the_one_that_was_used(tmp_path: Path) -> None:
    export = one_step(ExportFile())
    columns = ("id", "name", "smCount", "chipName", "computeMajor", "computeMinor")
    export.add("TARGET_INFO_GPU", columns, (1, "NVIDIA A40", 84, "GA102", 8, 6))
    export.add("TARGET_INFO_GPU", columns, (0, "NVIDIA A100", 108, "GA100", 8, 0))
    export.add("TARGET_INFO_GPU", columns, (2, "Basic Render Driver", 0, "", 0, 0))
    machine = read(export, tmp_path).machine
    assert (machine.gpu, machine.gpu_count, machine.gpu_chip) == ("NVIDIA A100", 1, "GA100")
    assert machine.compute_capability == "8.0"


def test_rows_of_our_steps_are_per_step_means(tmp_path: Path) -> None:
    export = ExportFile()
    export.domain(3, "rooflens")
    for i, duration in enumerate((10, 20, 60)):
        at = 1000 * i
        export.range(at, at + 900, "step", domain=3)
        export.launch(at + 10, at + 100, at + 100 + duration, "k")
        export.launch(at + 20, at + 300, at + 305, "k")
    reading = read(export, tmp_path)
    assert [(r.name, r.count, r.duration_ns.value) for r in reading.kernels] == [("k", 2, 17.5)]
    assert reading.capture.regime["kernel counts"] == "per step"
    assert len(reading.step_times_ns) == 3


def test_launches_come_in_launch_order_with_their_full_path(tmp_path: Path) -> None:
    path = one_step(ExportFile()).write(tmp_path / "a.sqlite")
    launches = nsys_sqlite.read_launches(path)
    assert [launch.demangled for launch in launches] == ["gemm_a", "gemm_b"]
    assert launches[0].nvtx == ("step", "model.layers.0.self_attn.q_proj")
    assert launches[0].dram_bytes.value is None


def test_a_reading_of_our_steps_holds_mean_durations_per_launch(tmp_path: Path) -> None:
    export = ExportFile()
    export.domain(3, "rooflens")
    for i, (first, second) in enumerate(((10, 100), (20, 200), (60, 300))):
        at = 1000 * i
        export.range(at, at + 900, "step", domain=3)
        export.range(at + 5, at + 50, "model.layers.1.mlp.up_proj", domain=3)
        export.launch(at + 10, at + 100, at + 100 + first, "k")
        export.launch(at + 60, at + 300, at + 300 + second, "k")
    launches = read(export, tmp_path).launches
    assert [launch.duration_ns.value for launch in launches] == [30, 200]
    assert launches[0].nvtx == ("step", "model.layers.1.mlp.up_proj")


def test_captures_of_others_hold_no_single_launches(tmp_path: Path) -> None:
    export = ExportFile()
    export.range(0, 100, "decode 1")
    export.launch(10, 20, 30)
    assert read(export, tmp_path).launches == ()


def test_steps_that_do_not_wait_last_from_first_to_last_device_work(tmp_path: Path) -> None:
    export = ExportFile()
    for at in (0, 100):
        export.range(at, at + 50, f"step {at}")
        export.launch(at + 10, at + 40, at + 95)
    found = timeline(read(export, tmp_path))
    assert [(s.wall_ns, s.busy_ns) for s in found.steps] == [(55, 55), (55, 55)]
    assert any("do not wait" in fact for fact in found.facts)


def test_ranks_of_one_capture_count_once(tmp_path: Path) -> None:
    export = ExportFile()
    for thread in (THREAD, THREAD + 1):
        export.range(0, 100, "decode 1", thread=thread)
    export.launch(10, 20, 30)
    found = timeline(read(export, tmp_path))
    assert len(found.steps) == 1
    assert any("2 threads have step ranges" in fact for fact in found.facts)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    connection.close()
    with pytest.raises(InputError, match="not an export of nsys"):
        nsys_sqlite.read(path)


def test_missing_and_special_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.sqlite")
    for name in ("none.sqlite", "link.sqlite", "pipe.sqlite", "."):
        with pytest.raises(InputError) as caught:
            nsys_sqlite.read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_symlink_to_an_export_is_read(tmp_path: Path) -> None:
    one_step(ExportFile()).write(tmp_path / "a.sqlite")
    (tmp_path / "b.sqlite").symlink_to(tmp_path / "a.sqlite")
    assert len(nsys_sqlite.read(tmp_path / "b.sqlite").kernels) == 2
