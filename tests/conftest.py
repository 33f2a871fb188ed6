"""Shared fixtures: golden files, the public captures, and skipping that never hides in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NSIGHT = ROOT.parent / "shared" / "nsight"
GOLDEN = ROOT / "tests" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def _missing(marker: str) -> str:
    if marker == "conformance" and not NSIGHT.is_dir():
        return f"the public captures are not at {NSIGHT}"
    if marker == "nsight" and not (shutil.which("nsys") and shutil.which("ncu")):
        return "nsys and ncu are not on the PATH"
    if marker == "browser" and not shutil.which("chromium"):
        return "Chromium is not on the PATH"
    if marker == "gpu" and not Path("/proc/driver/nvidia/version").exists():
        return "no NVIDIA GPU"
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine cannot run; fail instead where CI says that it must run."""
    for marker in ("conformance", "nsight", "browser", "gpu"):
        if item.get_closest_marker(marker) is None:
            continue
        reason = _missing(marker)
        if reason and os.environ.get(f"ROOFLENS_{marker.upper()}") == "1":
            pytest.fail(f"required here, but {reason}")
        if reason:
            pytest.skip(reason)


@pytest.fixture
def nsight() -> Path:
    """The folder of public captures (use with the marker `conformance`)."""
    return NSIGHT


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with tests/golden/<name>; `--update-golden` rewrites it."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        assert file.is_file(), f"no golden file {file}; run pytest --update-golden and read it"
        assert text == file.read_text("utf-8")

    return check
