"""CSV for spreadsheets: raw numbers, their evidence, no formulas."""

from __future__ import annotations

import csv
import io

from rooflens.model import absent, known
from rooflens.reports.tables import findings_csv, kernels_csv, operators_csv
from tests import builders
from tests.page import sample_runs


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_operators_have_raw_numbers_with_their_evidence() -> None:
    rows = {row["class"]: row for row in read(operators_csv(sample_runs.counted_run()))}
    assert rows["attention"]["requested_bytes"] == "400000000"
    assert rows["attention"]["requested_bytes_source"] == "counted"
    assert rows["attention"]["moved_bytes"] == ""
    assert rows["attention"]["moved_bytes_source"] == ""


def test_kernels_and_findings_have_a_line_each() -> None:
    run = sample_runs.gpu_run()
    assert [row["name"] for row in read(kernels_csv(run))] == [k.name for k in run.kernels]
    lines = read(findings_csv(run))
    assert [line["rule"] for line in lines] == [f.rule for f in run.findings]
    assert float(lines[1]["saving_ns_high"]) == 250_000


def test_a_name_never_becomes_a_formula() -> None:
    run = builders.run(
        operators=(
            builders.operator("=HYPERLINK(1)", requested_bytes=known(1, "byte", "counted")),
            builders.operator("@SUM(A1)", requested_bytes=absent("x")),
        )
    )
    classes = [row["class"] for row in read(operators_csv(run))]
    assert classes == ["'=HYPERLINK(1)", "'@SUM(A1)"]
