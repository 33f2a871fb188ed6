"""A run directory from own torch code."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.harness.recording import record_run, save_run
from rooflens.model import Run
from rooflens.reports.compare import compare
from rooflens.reports.compare.records import Verdict
from rooflens.runfile import read_run


def test_own_code_becomes_a_run_that_can_be_compared(tmp_path: Path) -> None:
    import torch

    with torch.device("meta"):
        narrow, wide = (torch.nn.Sequential(torch.nn.Linear(8, size)) for size in (16, 32))
    tokens = torch.empty(1, 8, device="meta")

    def recorded(model: torch.nn.Module) -> Run:
        return record_run(lambda: model(tokens), model, batch=1, new_tokens=1, name="toy")

    runs = [recorded(narrow), recorded(wide)]
    # Weight 16 x 8, bias 16, input 8, output 16; float32.
    assert runs[0].totals.requested_bytes.value == 4 * (16 * 8 + 16 + 8 + 16)
    assert runs[0].totals.requested_flops.value == 2 * 8 * 16
    assert runs[0].workload.dtype == "float32"
    assert runs[0].totals.step_time_ns.absent == "recorded, not timed"
    directory = save_run(runs[0], tmp_path / "run")
    assert read_run(directory) == runs[0]
    assert (directory / "report.html").is_file()
    assert compare([runs[0]], [runs[0]]).verdict is Verdict.NO_CHANGE_SHOWN
    assert compare([runs[0]], [runs[1]]).verdict is Verdict.NOT_COMPARABLE


def test_a_step_without_an_op_is_refused() -> None:
    import torch

    with pytest.raises(InputError, match="no torch operator"):
        record_run(lambda: None, torch.nn.Linear(2, 2))
