"""The nsys harness: its arguments, and a real capture of a step on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rooflens.errors import ProfilerError
from rooflens.harness import nsys
from rooflens.harness.process import Finished
from rooflens.harness.profiled_step import job_of, write_job
from rooflens.parsers import nsys_sqlite
from rooflens.workloads.spec import StepSpec

LAYERS = 28
MODULES_PER_LAYER = {  # under `layer *` of transformers' Qwen2
    "self_attn", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.act_fn",
    "input_layernorm", "post_attention_layernorm",
}  # fmt: skip


def test_arguments_on_a_gpu_trace_cuda_and_graph_nodes() -> None:
    made = nsys.profile_arguments(
        "/usr/bin/nsys", Path("/x/step.nsys-rep"), ["python", "a b.py"], nsys.NsysOptions(cuda=True)
    )
    assert made == [
        "/usr/bin/nsys", "profile", "-t", "cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none",
        "--cuda-graph-trace=node", "--force-overwrite=true", "-o", "/x/step.nsys-rep",
        "python", "a b.py",
    ]  # fmt: skip


def test_arguments_of_a_serving_engine() -> None:
    options = nsys.NsysOptions(
        cuda=False, delay_s=60, duration_s=5, capture_range="cudaProfilerApi",
        passed_on=("--trace-fork-before-exec=true",),
    )  # fmt: skip
    made = nsys.profile_arguments("nsys", Path("r.nsys-rep"), ["vllm"], options)
    assert made[2:-5] == [
        "-t", "nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--delay=60", "--duration=5",
        "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
    ]  # fmt: skip
    assert "--trace-fork-before-exec=true" in made


def test_a_known_failure_names_its_fix() -> None:
    output = "Importer error status: The importer binary and its dependencies were not found."
    done = Finished(arguments=("nsys",), code=1, output=output, seconds=1.0)
    error = nsys.failure_of(done, "nsys wrote no report")
    assert isinstance(error, ProfilerError)
    assert "host part" in error.message
    assert "ln -s" in error.hint


def test_a_failing_step_says_its_last_words() -> None:
    output = (
        "Generating '/x'\nTraceback (most recent call last):\nValueError: bad\nGenerated:\n /x\n"
    )
    done = Finished(arguments=("nsys",), code=1, output=output, seconds=1.0)
    with pytest.raises(ProfilerError, match=r"\(code 1\): ValueError: bad"):
        nsys.check_program(done)


@pytest.mark.nsight
@pytest.mark.slow
def test_a_real_capture_holds_step_layers_and_all_module_ranges_of_the_7b(tmp_path: Path) -> None:
    # 28 layers of the 7B at context 0: the ranges of the step, without a large cache.
    spec = StepSpec(workload="decode", context=0, weights="dummy")
    job = job_of(spec, annotation="modules", warmup=0, steps=1, cache_bytes=32 << 20)
    write_job(job, tmp_path / "job.json")
    report = tmp_path / "step.nsys-rep"
    done = nsys.capture(
        [sys.executable, "-m", "rooflens.harness.profiled_step", str(tmp_path / "job.json")],
        report,
        nsys.NsysOptions(cuda=False),
        timeout_s=240,
        attempts=2,
    )
    nsys.check_program(done)
    reading = nsys_sqlite.read(nsys.export_sqlite(report))
    nsys.check_reading(reading, steps=1, cuda=False)
    assert reading.timeline is not None
    counts = {entry.path[-1]: entry.count for entry in reading.timeline.ranges}
    assert counts["step"] == 1
    assert counts["layer *"] == LAYERS
    for module in MODULES_PER_LAYER:
        assert counts[f"model.layers.*.{module}"] == LAYERS, module
    for module in ("model", "model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"):
        assert counts[module] == 1, module
    step = next(entry for entry in reading.timeline.ranges if entry.path == ("step",))
    assert step.host_ns.value == reading.timeline.steps[0].wall_ns
