"""Ceilings are probed once, kept, and never believed when they are impossible."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rooflens.harness import ceilings
from rooflens.harness.ceilings import Ceilings, measured_ceilings, measured_roof


@pytest.fixture(autouse=True)
def small_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A probe of a few milliseconds, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(ceilings, "PROBE_SECONDS", 0.0)
    # The tests' own machine may be busy; what follows from that is tested on its own.
    monkeypatch.setattr(ceilings, "UNDISTURBED_SHARE", 0.0)
    monkeypatch.setattr(ceilings, "CPU_SIDES", (64, 128))
    monkeypatch.setattr(ceilings, "_buffer_bytes", lambda device: 1 << 20)
    return tmp_path


def kept_file(folder: Path) -> Path:
    (file,) = (folder / "rooflens").glob("*.json")
    return file


def test_probe_gives_a_measured_roof(small_probe: Path) -> None:
    roof = measured_roof("float32")
    assert roof is not None
    assert (roof.kind, roof.dtype, roof.prediction) == ("measured", "float32", False)
    # Wide enough for a probe of microseconds on a busy machine; a wrong unit is off by 1e3 or more.
    assert 1e6 < roof.bandwidth_bytes_per_s < 1e15
    assert 1e5 < roof.peak_flops_per_s < 1e15


def test_second_call_reads_the_kept_result(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured_ceilings("float32")

    def no_probe(*_: object) -> None:
        raise AssertionError("probed again")

    monkeypatch.setattr(ceilings, "_probe", no_probe)
    assert measured_ceilings("float32") == first
    assert ceilings.is_cached("float32")
    assert not ceilings.is_cached("float16")


def test_another_dtype_is_added_without_measuring_bandwidth_again(small_probe: Path) -> None:
    first = measured_ceilings("float32")
    both = measured_ceilings("bfloat16")
    assert first is not None and both is not None
    assert set(both.peak_flops_per_s) == {"float32", "bfloat16"}
    assert both.bandwidth_bytes_per_s == first.bandwidth_bytes_per_s
    assert both.peak_flops_per_s["float32"] == first.peak_flops_per_s["float32"]


def test_refresh_probes_again(small_probe: Path) -> None:
    measured_ceilings("float32")
    doctored = msgspec.json.decode(kept_file(small_probe).read_bytes())
    doctored["bandwidth_bytes_per_s"] = 123.0
    kept_file(small_probe).write_bytes(msgspec.json.encode(doctored))
    kept = measured_ceilings("float32")
    assert kept is not None and kept.bandwidth_bytes_per_s == 123.0
    fresh = measured_ceilings("float32", refresh=True)
    assert fresh is not None and fresh.bandwidth_bytes_per_s > 1e6


@pytest.mark.parametrize("bad", [0, -1.0, "fast"])
def test_an_impossible_kept_value_is_probed_again(small_probe: Path, bad: object) -> None:
    measured_ceilings("float32")
    doctored = msgspec.json.decode(kept_file(small_probe).read_bytes())
    doctored["bandwidth_bytes_per_s"] = bad
    kept_file(small_probe).write_bytes(msgspec.json.encode(doctored))
    again = measured_ceilings("float32")
    assert again is not None and again.bandwidth_bytes_per_s > 1e6


def test_a_damaged_file_is_probed_again(small_probe: Path) -> None:
    measured_ceilings("float32")
    kept_file(small_probe).write_bytes(b'{"name": "cut sho')
    assert measured_ceilings("float32") is not None


@pytest.mark.parametrize("seconds", [0.0, float("inf"), float("nan")])
def test_an_impossible_probe_gives_no_roof(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(ceilings, "_best_seconds", lambda work, device: seconds)
    assert measured_roof("float32") is None
    assert not (small_probe / "rooflens").exists()


def test_an_unwritable_cache_only_costs_time(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_probe / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_probe / "file"))
    assert measured_roof("float32") is not None


def test_a_disturbed_probe_is_repeated_and_the_better_result_kept(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "UNDISTURBED_SHARE", 0.9)
    probes = iter([(10e9, 0.5), (8e9, 0.95), (99e9, 1.0)])
    monkeypatch.setattr(ceilings, "_with_core_share", lambda probe, device: next(probes))
    first = measured_ceilings("float32")
    assert first is not None and first.disturbed
    assert not ceilings.is_cached("float32")
    second = measured_ceilings("float32")
    assert second is not None and not second.disturbed
    assert second.bandwidth_bytes_per_s == 10e9
    assert measured_ceilings("float32") == second


def test_raising_never_lowers_and_stops_at_the_first_undisturbed_probe(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "UNDISTURBED_SHARE", 0.9)
    probes = iter([(10e9, 1.0), (7e9, 0.5), (9e9, 0.95), (99e9, 1.0)])
    monkeypatch.setattr(ceilings, "_with_core_share", lambda probe, device: next(probes))
    measured_ceilings("float32")
    raised = ceilings.raise_ceilings("float32")
    assert raised is not None and raised.bandwidth_bytes_per_s == 10e9
    assert next(probes)[0] == 99e9


def test_a_user_without_a_home_probes_every_time(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", no_home)
    assert ceilings.cache_file("cpu") is None
    assert measured_roof("float32") is not None
    assert not ceilings.is_cached("float32")


def test_a_probe_that_runs_out_of_memory_gives_no_roof(
    small_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(ceilings, "_bandwidth_bytes_per_s", out_of_memory)
    assert measured_roof("float32") is None


def test_age_is_counted_in_days() -> None:
    found = Ceilings(
        name="x", bandwidth_bytes_per_s=1.0, peak_flops_per_s={}, buffer_bytes=1,
        cache_bytes=None, probed_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    assert found.age_days(datetime(2026, 2, 1, 12, tzinfo=UTC)) == 31.5
    assert found.roof("bfloat16") is None
