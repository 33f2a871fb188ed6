"""The README's commands run, and what documents link to is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text("utf-8")
    missing = [link for link in _LINK.findall(text) if not (document.parent / link).exists()]
    assert missing == []


def readme_commands() -> list[str]:
    blocks = _BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_readme_has_its_examples() -> None:
    assert len(readme_commands()) >= 8


@pytest.mark.slow
def test_readme_commands_run(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    expected = {"diff": 1}  # the example is a regression
    for line in readme_commands():
        words = shlex.split(line)
        assert words[0] == "profile", line
        done = subprocess.run(
            [sys.executable, "-m", "rooflens", *words[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == expected.get(words[1], 0), f"{line}\n{done.stderr}"
        assert done.stdout.strip(), line
    assert (tmp_path / "runs" / "head" / "report.html").is_file()


def test_no_document_names_a_private_place() -> None:
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for word in ("/work/", "/root/", "localhost", "/tmp/"):
            assert word not in text, f"{document.name} names {word}"
