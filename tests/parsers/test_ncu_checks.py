"""What a capture says about itself: nothing missing goes unsaid."""

from __future__ import annotations

from rooflens.model import Check, Launch, absent, known
from rooflens.parsers.ncu_checks import is_dead, launch_checks, passes_of
from tests.builders import launch

NAN = absent("dram__bytes.sum: ncu recorded nan: the kernel died in replay or was not measured")
WHOLE = {"duration_ns": 5, "dram_bytes": 5, "l2_bytes": 5, "flops": 5}


def checks(*launches: Launch) -> dict[str, Check]:
    return {check.id: check for check in launch_checks(launches)}


def share(percent: float, clock: float = 1e9, passes: int = 1) -> Launch:
    metrics = {
        "dram_percent_of_roof": known(percent, "1", "counters"),
        "sm_clock_hz": known(clock, "1", "counters"),
        "passes": known(passes, "1", "counters"),
    }
    return launch(0, "k", **WHOLE, metrics=metrics)


def test_a_whole_capture_has_nothing_to_say() -> None:
    assert checks(launch(0, "k", **WHOLE)) == {}


def test_dead_kernels_are_counted_and_named() -> None:
    dead = launch(0, "flash_fwd", duration_ns=NAN, dram_bytes=NAN, l2_bytes=NAN, flops=NAN)
    assert is_dead(dead)
    check = checks(dead, launch(1, "k", **WHOLE))["ncu-dead-kernels"]
    assert check.outcome == "warning"
    assert check.message.startswith("1 of 2 kernels died in replay")
    assert "flash_fwd" in check.message
    assert checks(dead)["ncu-dead-kernels"].outcome == "failed"


def test_missing_quantities_are_said_with_their_commonest_reason() -> None:
    found = checks(launch(0, "k", duration_ns=1), launch(1, "k", **WHOLE))
    assert found["ncu-no-dram-bytes"].message == (
        "1 of 2 kernels without DRAM bytes: not measured in this test."
    )
    assert found["ncu-no-flops"].fix.startswith("See `profile metrics")
    assert "ncu-no-duration-ns" not in found


def test_above_105_percent_of_the_roof_is_a_failure() -> None:
    assert checks(share(104.9))["above-roof"].outcome == "passed"
    failed = checks(share(105.1), share(50))["above-roof"]
    assert failed.outcome == "failed"
    assert "105 %" in failed.message


def test_a_clock_that_moved_is_said() -> None:
    assert "sm-clock" not in checks(share(1, 1.00e9), share(1, 1.05e9))
    assert "1.00 to 1.20 GHz" in checks(share(1, 1.00e9), share(1, 1.20e9))["sm-clock"].message


def test_passes_of_a_capture() -> None:
    assert passes_of([share(1, passes=3)]) == {"passes": "3"}
    assert passes_of([share(1, passes=3), share(1, passes=40)]) == {"passes": "3 to 40"}
    assert passes_of([launch(0, "k")]) == {}
