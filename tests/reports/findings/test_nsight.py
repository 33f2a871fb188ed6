"""Findings on the public captures: sensible where there is evidence, silent where there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.harness.importing import import_files
from rooflens.model import Finding, Run
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.directions import directions
from rooflens.reports.findings.engine import find

pytestmark = pytest.mark.conformance

LOOKED_AT = (
    "nsys-csv/kern_sum-dsocr-decode-RTX5090-2025.csv",
    "ncu-csv/fi-pageddecode-b1ctx32k-B200-ncu2025.csv",
    "ncu-csv/fi-pageddecode-b64ctx4k-B200-ncu2025.csv",
    "ncu-csv/fi-pageddecode-mha-noise-B200-ncu2025.csv",
    "torch-trace/vllm-tp4-1000in10out-H100-cu12.4.json.gz",
    "torch-trace/vllm-capture-decode-MI300X-rocm7.json.gz",
)

INVALID = {
    "ncu-csv/gemv-bf16-rooflinesection-RTX5090-ncu2025.csv": "no kernel has a time, bytes or FLOPs",
    "ncu-csv/gen-details-nan-H800-ncu2024.1.csv": "died in replay",
    "ncu-csv/gen-raw-nan-H800-ncu2024.1.csv": "died in replay",
    "ncu-csv/gen-raw-notime-GH200-ncu2024.1.csv": "no kernel has a time, bytes or FLOPs",
    "ncu-csv/gen-summary-gpu-A10G-ncu2024.1.csv": "no kernel has a time, bytes or FLOPs",
    "ncu-rep/flashfwd-nan-H800-2023.3.0.ncu-rep": "died in replay",
    "ncu-rep/rng-basic-GH200-2025.1.0.ncu-rep": "random numbers",
    "ncu-rep/sgemm6-missingtime-A10G-2023.1.1.ncu-rep": "died in replay",
    "ncu-rep/silu-notime-GH200-2025.1.0.ncu-rep": "no kernel has a time, bytes or FLOPs",
    "nsys-sqlite/llmc-runtimeonly-T4-2023.4.4.sqlite": "no kernel was launched",
    "nsys-sqlite/lm2.7B-cudagraph-A100-2024.6.2.sqlite": "CUDA graph launches",
    "nsys-sqlite/nocuda-RTX4060Ti-2024.6.2.sqlite": "no CUDA activity",
    "nsys-sqlite/nokernels-RTX5060Ti-2025.1.3.sqlite": "no kernel was launched",
    "torch-trace/cuptiprofiler-A100-old.json.gz": "not one kernel",
    "torch-trace/nokernels-A100-old.json": "not one kernel",
    "torch-trace/vllm-capture-decode-MI300X-rocm7.json.gz": "capture of CUDA graphs",
}
"""Captures that can be read and still carry no verdict, and a word of the reason. Files that hold
no kernel table at all (logs, text pages, truncated reports) are refused by the import."""


@cache
def imported(folder: Path) -> dict[str, Run]:
    """Every capture that can be imported, by its name in the folder."""
    runs = {}
    for path in sorted(folder.glob("*/*")):
        try:
            runs[f"{path.parent.name}/{path.name}"] = import_files([path]).run
        except InputError:
            continue
    return runs


def found(run: Run) -> list[Finding]:
    return [item for item in find(run) if item.outcome == "found"]


def test_invalid_captures_are_named_for_the_right_reason_and_no_others(nsight: Path) -> None:
    named = {
        name: item
        for name, run in imported(nsight).items()
        for item in found(run)
        if item.rule == "R36-invalid-capture"
    }
    assert named.keys() == INVALID.keys()
    for name, reason in INVALID.items():
        assert any(reason in line for line in named[name].evidence), (name, named[name].evidence)


def test_rules_speak_only_where_their_evidence_is(nsight: Path) -> None:
    needs = {rule.id: rule.needs for rule in RULES}
    for name, run in imported(nsight).items():
        for item in found(run):
            assert item.rule == "R36-invalid-capture" or run.kernels, name
            assert "ops" not in needs[item.rule] or "kernels" in needs[item.rule], name
            if item.saving_bytes.value is not None:
                rows = [run.kernels[row] for row in item.kernels]
                assert any(row.dram_bytes.value is not None for row in rows), name
            if item.saving_ns is not None and item.rule != "R19-launch-gap":
                assert any(run.kernels[row].duration_ns.value is not None for row in item.kernels)


def test_findings_of_all_captures(nsight: Path, golden: Callable[[str, str], None]) -> None:
    lines = [
        f"{name}: {', '.join(item.rule[:3] for item in found(run)) or 'nothing'}\n"
        for name, run in imported(nsight).items()
    ]
    golden("findings/captures.txt", "".join(lines))


def test_captures_that_were_looked_at(nsight: Path, golden: Callable[[str, str], None]) -> None:
    parts = []
    for name in LOOKED_AT:
        run = imported(nsight)[name]
        parts.append(f"== {name}\n")
        for item in found(run):
            parts.append(f"{item.rule} ({item.confidence}): {item.title}\n")
            parts.extend(f"    - {line}\n" for line in item.evidence)
        for item in find(run):
            if item.rule[:3] in {"R06", "R07"} and item.outcome != "found":
                parts.append(
                    f"{item.rule} {item.outcome}: {item.confidence_reason or item.title}\n"
                )
        for direction in directions(run):
            parts.append(f"? {direction.direction}: {direction.verdict}. {direction.answer}\n")
            parts.extend(f"    - {line}\n" for line in direction.evidence)
    golden("findings/looked_at.txt", "".join(parts))
