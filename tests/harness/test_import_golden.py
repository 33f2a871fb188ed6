"""Golden pages of counters-only runs: imported Nsight Compute reports as text and Markdown.

The goldens hold names and numbers that we compute from public reports, nothing of the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rooflens.harness.hints import ImportOptions
from rooflens.harness.importing import import_files
from rooflens.model import Run
from rooflens.reports.markdown import render_markdown
from rooflens.reports.text import render_text
from rooflens.reports.view import build_page

pytestmark = pytest.mark.conformance
pytest.importorskip("ncu_report")

CASES = {
    "rmsnorm": ("rmsnorm-H100PCIe-2025.1.0", ImportOptions()),
    "flash-attention": ("fa3fwd-full-RTX4060Ti-2025.4.1", ImportOptions(dtype="float16")),
    "default-set": ("linear-fp16w-A10-2023.2.0", ImportOptions()),
    "dead-kernel": ("flashfwd-nan-H800-2023.3.0", ImportOptions()),
}


def made(nsight: Path, name: str, options: ImportOptions) -> Run:
    """The run of a report, without what differs from one machine to the next."""
    path = nsight / "ncu-rep" / f"{name}.ncu-rep"
    run = import_files([path], options).run
    return msgspec.structs.replace(
        run,
        created_at="2026-01-02T03:04:05Z",
        command=("profile", "import", path.name),
        tools={"rooflens": "0", "ncu": run.tools["ncu"]},
    )


@pytest.mark.parametrize("case", CASES)
def test_counters_only_page(nsight: Path, golden: Callable[[str, str], None], case: str) -> None:
    page = build_page(made(nsight, *CASES[case]))
    golden(f"import/{case}.txt", render_text(page))
    golden(f"import/{case}.md", render_markdown(page))


def test_the_page_says_what_the_counters_say(nsight: Path) -> None:
    text = render_markdown(build_page(made(nsight, *CASES["rmsnorm"])))
    assert "2.161 GB" in text  # 3 launches x 720 MB
    assert "526" in text or "527" in text  # µs per launch
    assert "1.21" in text  # FLOP per byte
