"""The shape of the repository: sizes, names, links, and what a wheel holds."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("harness", "parsers", "reports", "templates", "workloads")
SOURCES = [
    path
    for folder in ("rooflens", *FOLDERS, "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(part.is_symlink() for part in path.parents if part != ROOT)
]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
GRAB_BAGS = {"utils", "util", "helpers", "helper", "common", "misc"}


def test_sources_are_found() -> None:
    assert len(SOURCES) > 20


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= MAX_FILE_LINES, f"{path} is too long"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{path}:{node.lineno} {node.name}: {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_have_a_docstring_and_a_name(path: Path) -> None:
    assert path.stem not in GRAB_BAGS
    assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), f"{path} has no docstring"


@pytest.mark.parametrize("folder", FOLDERS)
def test_package_links_are_relative(folder: str) -> None:
    link = ROOT / "rooflens" / folder
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{folder}"


@pytest.mark.slow
def test_wheel_holds_only_rooflens_and_runs(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rooflens"}
    for needed in ("rooflens/harness/cli.py", "rooflens/py.typed", "rooflens/run.schema.json"):
        assert needed in names
    assert any(name.startswith("rooflens/templates/") for name in names)
    assert any(name.endswith("architectures/qwen2.5-7b.json") for name in names)
    shown = subprocess.run(
        [sys.executable, "-c", "import rooflens.__main__ as m; m.main(['theory', 'decode'])"],
        cwd=tmp_path / "site",
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "lm_head" in shown.stdout
