"""A trace of one of several ranks is held against the theory of one rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import Imported, import_files
from tests.captures import call_event, kernel_event, trace_event, write_trace

WRITE = "vllm::reshape_and_cache_flash_kernel"


def events() -> list[dict[str, Any]]:
    """A prefill of 96 tokens and three decode steps, by their ranges."""
    made = []
    names = ["execute_context_1(96)_generation_0(0)", *["execute_context_0(0)_generation_1(1)"] * 3]
    for i, name in enumerate(names):
        at = 1000 * i
        made += [
            trace_event("user_annotation", name, at, 900),
            call_event(at + 10, 2 * i),
            call_event(at + 20, 2 * i + 1),
            kernel_event("sm90_xmma_gemm_bf16", at + 100, 400, 2 * i),
            kernel_event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at + 500, 300, 2 * i + 1),
        ]
    return made


def imported(folder: Path, ranks: int, model: str | None = "qwen2.5-7b") -> Imported:
    world = {"backend": "nccl", "rank": 0, "world_size": ranks}
    path = write_trace(folder / "trace.json", events(), distributedInfo=world)
    return import_files([path], ImportOptions(model=model, batch=1, context=96))


def test_theory_is_that_of_one_rank(tmp_path: Path) -> None:
    one = imported(tmp_path, 1).run.totals.compulsory_bytes.value
    four = imported(tmp_path, 4)
    share = four.run.totals.compulsory_bytes.value
    assert one is not None and share is not None
    assert 0.25 < share / one < 0.26  # norms and embedding rows are on every rank
    check = next(c for c in four.run.checks if c.id == "ranks")
    assert (check.outcome, "one of 4 ranks" in check.message) == ("passed", True)
    assert not any(c.id == "ranks" for c in imported(tmp_path, 1).run.checks)


def test_ranks_that_do_not_divide_the_model_leave_no_theory(tmp_path: Path) -> None:
    run = imported(tmp_path, 3).run
    assert run.totals.compulsory_bytes.value is None
    assert next(c for c in run.checks if c.id == "ranks").outcome == "warning"


def test_each_phase_says_what_theory_demands_of_it(tmp_path: Path) -> None:
    timeline = imported(tmp_path, 4).run.timeline
    assert timeline is not None
    said = [fact for fact in timeline.facts if "theory demands" in fact]
    assert [fact.partition(":")[0] for fact in said] == ["Prefill", "Decode"]
    assert "of each of 4 ranks; over 400 µs of kernels without collectives" in said[1]
