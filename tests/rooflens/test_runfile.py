"""Run files: round trip, schema, and what happens to broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from rooflens import runfile
from rooflens.errors import InputError, UsageError
from rooflens.model import Quantity, absent, known
from tests import builders

ROOT = Path(__file__).resolve().parents[2]


def sample_bytes() -> bytes:
    read = builders.tensor(1, (1, 4))
    run = builders.run(
        ops=(builders.op(0, "aten.clone", inputs=(read,), op_class="attention"),),
        totals=builders.totals(requested_bytes=known(8, "byte", "counted")),
    )
    return runfile.encode_run(run)


def test_round_trip_keeps_every_field() -> None:
    data = sample_bytes()
    assert runfile.encode_run(runfile.decode_run(data, "here")) == data


def test_json_says_class_and_absent_and_never_null_values() -> None:
    loaded = json.loads(sample_bytes())
    assert loaded["ops"][0]["class"] == "attention"
    assert loaded["totals"]["requested_bytes"] == {"value": 8, "unit": "byte", "source": "counted"}
    assert loaded["totals"]["moved_bytes"] == {"absent": "not measured in this test"}


def test_shipped_schema_is_current_and_accepts_a_run() -> None:
    shipped = (ROOT / "rooflens" / "run.schema.json").read_text("utf-8")
    assert shipped == runfile.schema_text(), "regenerate rooflens/run.schema.json"
    jsonschema.validate(json.loads(sample_bytes()), json.loads(shipped))


def test_quantity_is_a_value_or_a_reason() -> None:
    assert known(0, "byte", "counters").value == 0
    assert absent("why").absent == "why"
    with pytest.raises(ValueError, match="either"):
        Quantity()
    with pytest.raises(ValueError, match="unit"):
        Quantity(value=1)
    with pytest.raises(ValueError, match="NaN"):
        known(float("nan"), "byte", "counters")


@pytest.mark.parametrize("cut", [0, 1, 100, -2])
def test_truncated_run_is_one_clear_line(tmp_path: Path, cut: int) -> None:
    (tmp_path / "run.json").write_bytes(sample_bytes()[:cut])
    with pytest.raises(InputError) as caught:
        runfile.read_run(tmp_path)
    assert "run.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_newer_schema_version_says_upgrade(tmp_path: Path) -> None:
    newer = sample_bytes().replace(b'"schema_version": 1', b'"schema_version": 99')
    (tmp_path / "run.json").write_bytes(newer)
    with pytest.raises(InputError, match=r"version 99.*Upgrade"):
        runfile.read_run(tmp_path)


def test_run_directory_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    final = tmp_path / "run-1"
    with pytest.raises(KeyboardInterrupt), runfile.new_run_directory(final, force=False) as scratch:
        (scratch / "run.json").write_text("{}")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_existing_directory_is_replaced_only_with_force(tmp_path: Path) -> None:
    final = tmp_path / "run-1"
    with runfile.new_run_directory(final, force=False) as scratch:
        (scratch / "run.json").write_text("old")
    with pytest.raises(UsageError, match="--force"), runfile.new_run_directory(final, force=False):
        pass
    with runfile.new_run_directory(final, force=True) as scratch:
        (scratch / "run.json").write_text("new")
    assert (final / "run.json").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["run-1"]


def test_force_never_replaces_what_is_no_run_directory(tmp_path: Path) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    with pytest.raises(UsageError, match="not a run directory"):
        runfile.refuse_existing(other, force=True)
