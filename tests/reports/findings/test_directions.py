"""The five checks that people do by hand."""

from __future__ import annotations

from rooflens.model import StepTime, Timeline, known
from rooflens.reports.findings.directions import directions
from tests import builders
from tests.builders import kernel, op, tensor

FLASH = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
PRODUCT = "nvjet_tst_128x16_64x11_2x1_v_bz_TNT"
ALL_REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>"


def timed(name: str, us: float, **fields: object) -> object:
    return kernel(name, duration_ns=known(us * 1000, "ns", "timeline"), **fields)


def test_without_evidence_nothing_can_be_said() -> None:
    answers = directions(builders.run())
    assert len(answers) == 5
    assert {answer.verdict for answer in answers} == {"could not look"}


def test_a_grouped_fused_call_is_not_enough_to_know_the_kernel() -> None:
    query, key, value = (
        tensor(1, (1, 28, 1, 128)),
        tensor(2, (1, 4, 9, 128)),
        tensor(3, (1, 4, 9, 128)),
    )
    call = op(
        0, "aten.scaled_dot_product_attention", inputs=(query, key, value),
        outputs=(tensor(4, (1, 28, 1, 128)),), op_class="attention", part="fused", layer=0,
    )  # fmt: skip
    gathers, reuse, occupancy, pages, moved = directions(builders.run(ops=(call,)))
    assert gathers.verdict == "no"
    assert reuse.verdict == "could not look"
    assert "28 query heads share 4 KV heads" in reuse.evidence[0]
    assert occupancy.verdict == "could not look"
    assert pages.verdict == "no"
    assert moved.verdict == "could not look"


def test_a_step_that_waits_for_its_neighbours_is_named() -> None:
    step = StepTime(
        index=0, start_ns=0, wall_ns=10e6, busy_ns=9.5e6, idle_ns=0.5e6, launches=3, kernels=3
    )
    run = builders.run(
        kernels=(timed(PRODUCT, 60), timed(FLASH, 20), timed(ALL_REDUCE, 20)),
        timeline=Timeline(source="nsys", steps=(step,), representative_step=0),
    )
    moved = directions(run)[4]
    assert moved.verdict == "yes"
    assert "communication: 20 % of the kernel time" in moved.evidence
    assert "idle: 5.0 % of the step (500 µs)" in moved.evidence


def test_low_occupancy_counts_only_below_the_roofs() -> None:
    def row(occupancy: float, dram: float) -> object:
        metrics = {
            "occupancy_percent": known(occupancy, "1", "counters"),
            "dram_throughput_percent": known(dram, "1", "counters"),
            "registers_per_thread": known(168, "1", "counters"),
        }
        return timed(FLASH, 20, metrics=metrics)

    low = directions(builders.run(kernels=(row(12, 26),)))[2]
    assert low.verdict == "yes"
    assert "occupancy 12 %, 168 registers a thread" in low.evidence[0]
    fine = directions(builders.run(kernels=(row(12, 91),)))[2]
    assert fine.verdict == "no"
