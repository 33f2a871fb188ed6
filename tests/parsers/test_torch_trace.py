"""What a torch profiler trace says, on traces small enough to work out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.errors import InputError
from rooflens.model import Timeline
from rooflens.parsers import torch_trace
from rooflens.parsers.kineto import stream
from rooflens.reading import Reading
from tests.captures import call_event, kernel_event, trace_event, write_trace

Event = dict[str, Any]


def read(folder: Path, events: list[Event], **extra: Any) -> Reading:
    return torch_trace.read(write_trace(folder / "trace.json", events, **extra))


def timeline(reading: Reading) -> Timeline:
    assert reading.timeline is not None
    return reading.timeline


def one_step() -> list[Event]:
    return [
        trace_event("user_annotation", "ProfilerStep#3", 0, 100),
        trace_event("cpu_op", "aten::mm", 5, 20),
        call_event(10, 1),
        call_event(40, 2),
        kernel_event("gemm", 30, 20.5, 1),
        kernel_event("gemm", 60, 10, 2, stream=8),
    ]


def test_times_are_microseconds_and_become_whole_ns(tmp_path: Path) -> None:
    reading = read(tmp_path, one_step())
    step = timeline(reading).steps[0]
    assert (step.wall_ns, step.busy_ns, step.kernels) == (100_000, 30_500, 2)


def test_old_traces_have_large_integer_times(tmp_path: Path) -> None:
    big = 1_679_055_451_546_825
    events = [kernel_event("gemm", big, 7, 1), kernel_event("gemm", big + 9, 5, 2)]
    reading = read(tmp_path, events)
    assert [(r.count, r.duration_ns.value) for r in reading.kernels] == [(2, 6000.0)]


def test_an_operator_owns_the_kernels_it_launches(tmp_path: Path) -> None:
    paths = {row.nvtx for row in read(tmp_path, one_step()).kernels}
    assert paths == {("ProfilerStep", "aten::mm"), ("ProfilerStep",)}


def test_events_may_come_in_any_order_and_in_one_line(tmp_path: Path) -> None:
    backwards = read(tmp_path, one_step()[::-1])
    assert timeline(backwards).steps == timeline(read(tmp_path, one_step())).steps


def test_a_bare_list_of_events_is_a_trace(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps(one_step()), "utf-8")
    assert sum(row.count for row in torch_trace.read(tmp_path / "list.json").kernels) == 2


def test_gzip_and_plain_say_the_same(tmp_path: Path) -> None:
    plain = write_trace(tmp_path / "a.json", one_step())
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert torch_trace.read(packed).kernels == torch_trace.read(plain).kernels


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_may_end_anywhere(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(tmp_path, one_step(), deviceProperties=[{"id": 0, "name": "GPU \u00e9"}])
    monkeypatch.setattr(stream, "CHUNK_BYTES", chunk)
    again = torch_trace.read(tmp_path / "trace.json")
    assert (again.kernels, again.machine) == (expected.kernels, expected.machine)


def test_only_used_gpus_are_named_and_hip_has_no_cuda_capability(tmp_path: Path) -> None:
    gpus = [
        {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0},
        {"id": 1, "name": "Other"},
    ]
    machine = read(tmp_path, one_step(), deviceProperties=gpus, cuda_runtime_version=12040).machine
    assert (machine.gpu, machine.gpu_count, machine.cuda) == ("NVIDIA H100", 1, "12.4")
    assert machine.compute_capability == "9.0"
    hip = read(tmp_path, one_step(), deviceProperties=gpus, hip_runtime_version=7).machine
    assert hip.compute_capability == ""


def test_python_frames_are_left_out_for_privacy_except_modules(tmp_path: Path) -> None:
    events = [
        *one_step(),
        trace_event("python_function", "/home/alice/serve.py(3): main", 0, 90),
        trace_event("python_function", "nn.Module: Qwen2MLP_0", 6, 15),
    ]
    reading = read(tmp_path, events)
    assert "alice" not in repr(reading)
    assert ("ProfilerStep", "aten::mm", "nn.Module: Qwen2MLP_0") in {
        row.nvtx for row in reading.kernels
    }
    overhead = next(c for c in reading.checks if c.id == "timeline-overhead")
    assert overhead.outcome == "warning"


def test_launches_without_kernels_are_a_failure(tmp_path: Path) -> None:
    reading = read(tmp_path, [call_event(10, 1), trace_event("cpu_op", "aten::mm", 5, 20)])
    found = next(c for c in reading.checks if c.id == "timeline-kernels")
    assert found.outcome == "failed" and "1 launches" in found.message


def test_the_capture_of_graphs_is_not_their_replay(tmp_path: Path) -> None:
    events = [trace_event("user_annotation", "capture_32_FULL", 0, 500)]
    events += [call_event(10 * i, i, "hipLaunchKernel") for i in range(1, 20)]
    events.append(kernel_event("fill", 300, 2, 1))
    found = next(c for c in read(tmp_path, events).checks if c.id == "timeline-graphs")
    assert "capture of CUDA graphs" in found.message


def test_unusable_times_are_counted_and_left_out(tmp_path: Path) -> None:
    bad = [
        kernel_event("gemm", 10, -1, 1),
        kernel_event("gemm", 1e300, 1, 1),
        {**kernel_event("gemm", 10, 1, 1), "ts": "soon"},
        {**kernel_event("gemm", 10, 1, 1), "dur": None},
    ]
    reading = read(tmp_path, [*one_step(), *bad])
    assert sum(row.count for row in reading.kernels) == 2
    assert any("4 events without a usable time" in fact for fact in timeline(reading).facts)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cut short"),
        ("   ", "cut short"),
        ("kernels: 3", "does not begin as JSON"),
        ('{"a": 1}', "without traceEvents"),
        ('{"traceEvents": [{"ph": "X"', "cut short"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel"} \x00', "damaged"),
        ('{"traceEvents": [], "x": }', "damaged"),
        ('{"traceEvents": [' + "[" * 100_000, "profiler writes|damaged|cut short"),
        ('{"traceEvents": [{"ts": ' + "9" * 10_000 + "}]}", "profiler writes"),
        ('{"traceEvents": [{"ph": "X", "cat": "kv"}]}', "no event that torch"),
        ('{"traceEvents": [1, 2]}', "not an object"),
    ],
)
def test_what_is_no_trace_ends_in_one_clear_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=says) as caught:
        torch_trace.read(path)
    assert "\n" not in str(caught.value)


def test_a_cut_gzip_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    packed = gzip.compress(json.dumps({"traceEvents": one_step() * 200}).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="broken gzip"):
        torch_trace.read(path)


def test_a_decompression_bomb_is_stopped_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (32 << 20)))
    with pytest.raises(InputError, match="far more than a trace") as caught:
        torch_trace.read(path)
    assert int(str(caught.value).split("more than ")[1].split(" MiB")[0]) < 16
