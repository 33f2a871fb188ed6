"""Prefill and decode: by ranges, by what is launched, and when nothing can be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.model import PhaseTime, Timeline
from rooflens.parsers import nsys_sqlite
from rooflens.parsers.phases import similarity
from rooflens.parsers.timeline.names import grouping_name, phase_of_name, tokens_of_name
from tests.captures import ExportFile

DECODE = ("embedding_kernel", "rms_norm", "gemm", "flash_fwd_splitkv_kernel",
          "flash_fwd_splitkv_combine_kernel", "last_norm", "ArgMaxOps")  # fmt: skip
PREFILL = ("embedding_kernel", "rms_norm", "gemm", "flash_fwd_kernel", "last_norm", "ArgMaxOps")


def read(export: ExportFile, folder: Path) -> Timeline:
    found = nsys_sqlite.read(export.write(folder / "a.sqlite")).timeline
    assert found is not None
    return found


def run_step(export: ExportFile, at: int, names: tuple[str, ...], length: int = 400) -> None:
    for k, name in enumerate(names):
        low = at + (length + 100) * k
        export.launch(low - 50, low, low + length, name)


def serve(export: ExportFile, prefill: tuple[str, ...], decode: tuple[str, ...]) -> ExportFile:
    """One long step, then five short ones."""
    run_step(export, 1_000, prefill, 4_000)
    for i in range(5):
        run_step(export, 50_000 + 10_000 * i, decode)
    return export


@pytest.mark.parametrize(
    ("name", "phase", "tokens"),
    [
        ("execute_context_1(888_788544)_generation_0(0)", "prefill", 888),
        ("execute_context_0(0)_generation_8(8)", "decode", 8),
        ("execute_context_2(512)_generation_8(8)", "mixed", 520),
        ("prefill 3", "prefill", None),
        ("EXTEND", "prefill", None),
        ("decode", "decode", None),
        ("verify#2", "verify", None),
        ("prefill_or_decode", "", None),
        ("forward", "", None),
    ],
)
def test_names_of_ranges_say_the_phase(name: str, phase: str, tokens: int | None) -> None:
    assert (phase_of_name(name), tokens_of_name(name)) == (phase, tokens)


@pytest.mark.parametrize(
    ("name", "grouped"),
    [
        ("aten::add, seq = 5, op_id = 314359", "aten::add"),
        ("aten::add, op_id = 7", "aten::add"),
        ("ProfilerStep#12", "ProfilerStep"),
        ("layer 3", "layer *"),
        ("model.layers.27.mlp.down_proj", "model.layers.*.mlp.down_proj"),
        ("computing softmax", "computing softmax"),
        ("step 3 of 4", "step 3 of 4"),
    ],
)
def test_numbers_per_call_step_and_layer_do_not_split_groups(name: str, grouped: str) -> None:
    assert grouping_name(name) == grouped


def test_ranges_of_an_engine_name_phases_and_tokens(tmp_path: Path) -> None:
    export = ExportFile()
    for i, name in enumerate(("execute_context_1(64)_generation_0(0)",
                              "execute_context_0(0)_generation_1(1)",
                              "execute_context_0(0)_generation_1(1)")):  # fmt: skip
        export.range(1000 * i, 1000 * i + 900, name)
        export.launch(1000 * i + 10, 1000 * i + 50, 1000 * i + 90, "gemm")
    found = read(export, tmp_path)
    assert found.phase_method == "ranges"
    assert [(p.name, p.tokens, p.steps) for p in found.phases] == [
        ("prefill", 64, (0,)),
        ("decode", 1, (1, 2)),
    ]
    assert found.phases[0].confidence == "high"


def test_a_phase_range_around_our_steps_names_them(tmp_path: Path) -> None:
    export = ExportFile()
    export.domain(3, "rooflens")
    export.range(0, 1990, "prefill", domain=3)
    for at in (5, 1005):
        export.range(at, at + 900, "step", domain=3)
        export.launch(at + 10, at + 50, at + 90)
    assert [step.phase for step in read(export, tmp_path).steps] == ["prefill", "prefill"]


def phases(found: Timeline) -> dict[str, PhaseTime]:
    return {phase.name: phase for phase in found.phases}


def test_split_keys_tell_decode_from_prefill(tmp_path: Path) -> None:
    found = read(serve(ExportFile(), PREFILL, DECODE), tmp_path)
    assert [step.phase for step in found.steps] == ["prefill"] + ["decode"] * 5
    assert phases(found)["decode"].confidence in ("medium", "low")
    assert "only decode splits the keys" in phases(found)["decode"].reason
    assert found.phase_method == f"launch pattern ({phases(found)['decode'].confidence})"


def test_sums_of_a_phase_are_per_step(tmp_path: Path) -> None:
    decode = phases(read(serve(ExportFile(), PREFILL, DECODE), tmp_path))["decode"]
    assert (decode.kernels, decode.kernel_ns) == (7, 2800)
    assert decode.classes["attention"] == 800
    assert sum(decode.classes.values()) == sum(decode.families.values()) == 2800


def test_time_alone_says_nothing_about_the_phase(tmp_path: Path) -> None:
    other = ("embedding_kernel", "rms_norm", "gemm", "gemm_2", "gemm_3", "last_norm", "ArgMaxOps")
    found = read(serve(ExportFile(), PREFILL, other), tmp_path)
    assert {step.phase for step in found.steps} == {"step"}
    assert found.phases[0].confidence == "low"


def test_the_grid_of_the_cache_write_gives_the_tokens(tmp_path: Path) -> None:
    export = serve(ExportFile(), PREFILL, DECODE)
    export.launch(29_900, 30_000, 30_100, "vllm::reshape_and_cache_flash_kernel", grid=(96, 1, 1))
    for i in range(5):
        at = 50_000 + 10_000 * i + 450
        export.launch(at, at, at + 20, "vllm::reshape_and_cache_flash_kernel", grid=(2, 1, 1))
    found = phases(read(export, tmp_path))
    assert (found["prefill"].tokens, found["decode"].tokens) == (96, 2)
    assert "2 against 96 blocks" in found["decode"].reason


def test_similarity_counts_launches() -> None:
    assert similarity({1: 2, 2: 1}, {1: 2, 2: 1}) == 1
    assert similarity({1: 2}, {1: 1, 2: 1}) == pytest.approx(1 / 3)
    assert similarity({}, {}) == 1
