"""Rules that need two runs, as a comparison shows and gates them."""

from __future__ import annotations

import msgspec
import pytest

from rooflens.model import Run, known
from rooflens.reports.compare import Comparison, compare
from rooflens.reports.compare.gate import evaluate, exit_code, parse_conditions
from rooflens.reports.compare.records import Verdict
from rooflens.reports.compare.renderers.markdown import render_markdown
from rooflens.reports.compare.renderers.text import render_text
from rooflens.reports.view.changes import changes
from tests import builders

FLASH = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
CUTLASS = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::Params)"


def run(name: str = FLASH, count: int = 28, clock_hz: float | None = None) -> Run:
    kernel = builders.kernel(
        name, op_class="attention", count=count, duration_ns=known(1000.0, "ns", "timeline")
    )
    made = builders.run(kernels=(kernel,))
    machine = msgspec.structs.replace(made.machine, sm_clock_hz=clock_hz)
    return msgspec.structs.replace(made, machine=machine)


def found(comparison: Comparison) -> list[str]:
    return [item.rule[:3] for item in comparison.differences if item.outcome == "found"]


def code(comparison: Comparison, condition: str) -> int:
    return exit_code(evaluate(comparison, parse_conditions([condition])))


def test_a_run_against_itself_shows_none() -> None:
    assert found(compare([run()], [run()])) == []


@pytest.mark.parametrize(("base", "head"), [(FLASH, CUTLASS), (CUTLASS, FLASH)])
def test_another_kernel_is_found_both_ways_and_gated(base: str, head: str) -> None:
    comparison = compare([run(base)], [run(head)])
    assert "R32" in found(comparison)
    assert code(comparison, "finding:R32") == 1
    assert code(compare([run()], [run()]), "finding:R32") == 0


@pytest.mark.parametrize(("base", "head"), [(28, 56), (56, 28)])
def test_more_and_fewer_launches_are_both_found(base: int, head: int) -> None:
    comparison = compare([run(count=base)], [run(count=head)])
    assert found(comparison) == ["R33"]
    assert code(comparison, "finding:R33") == 1


def test_clocks_refuse_time_and_no_count() -> None:
    comparison = compare([run(clock_hz=1.98e9)], [run(CUTLASS, clock_hz=1.41e9)])
    assert {"R38", "R32"} <= set(found(comparison))
    assert code(comparison, "time>5%") == 3
    substituted = next(item for item in comparison.differences if item.rule.startswith("R32"))
    assert substituted.saving_ns is None
    assert not any(" time" in line for line in substituted.evidence)
    assert code(comparison, "finding:R32") == 1


def test_every_output_says_it() -> None:
    comparison = compare([run()], [run(CUTLASS)])
    assert "R32-kernel-substitution" in render_text(comparison, ())
    assert "R32-kernel-substitution" in render_markdown(comparison, ())
    tables = {table.id: table for table in changes(comparison).tables}
    assert tables["changes-differences"].rows[0][0].text.startswith("R32")
    assert b'"differences"' in msgspec.json.encode(comparison)


def test_clocks_that_only_the_kernels_know_refuse_time_too() -> None:
    sides = []
    for clock in (1.98e9, 1.41e9):
        made = run()
        metrics = {"sm_clock_hz": known(clock, "1", "counters")}
        kernel = msgspec.structs.replace(made.kernels[0], metrics=metrics)
        sides.append(
            msgspec.structs.replace(made, kernels=(kernel,), step_times_ns=tuple([1e6] * 12))
        )
    comparison = compare(sides[:1], sides[1:])
    assert found(comparison) == ["R38"]
    assert comparison.time.verdict in (Verdict.NOT_COMPARABLE, Verdict.CANNOT_JUDGE)
    assert "clock" in comparison.time.reason
    same = compare(sides[:1], sides[:1])
    assert "clock" not in same.time.reason
