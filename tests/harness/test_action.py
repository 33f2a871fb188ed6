"""The GitHub Action and the ten-minute walk-through, executed as they are written.

The walk-through's blocks run in one shell, in order. The Action's shell steps run verbatim, with
the files and variables that GitHub provides; only GitHub itself is missing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action" / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
GUIDE = (ROOT / "docs" / "gate-in-ten-minutes.md").read_text("utf-8")


def environment(**more: str) -> dict[str, str]:
    """A small environment with this Python's `profile` and `python` first on the PATH."""
    tools = Path(sys.executable).parent
    path = f"{tools}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(more.pop("HOME", "/tmp")), "LANG": "C.UTF-8"} | more


def shell(script: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub runs `shell: bash`."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def guide_script(first: int, last: int) -> str:
    """The guide's shell blocks of some sections, with its files written where it says so."""
    script = []
    sections = re.split(r"^## (?=\d)", GUIDE, flags=re.MULTILINE)[1:]
    for section in sections:
        if not first <= int(section[0]) <= last:
            continue
        name = ""
        for text, language, block in re.findall(
            r"(.*?)```(\w+)\n(.*?)```\n", section, flags=re.DOTALL
        ):
            named = re.findall(r"save this as `([\w.]+)`", text, flags=re.IGNORECASE)
            name = named[-1] if named else name
            if language == "bash":
                script.append(block)
            elif language == "python":
                script.append(f"cat > {name} <<'END_OF_FILE'\n{block}END_OF_FILE\n")
    return "".join(script)


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The repository that the guide makes, and what its commands printed."""
    folder = tmp_path_factory.mktemp("guide")
    done = shell(guide_script(1, 4), folder, HOME=str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "serving", done.stdout


@pytest.mark.slow
def test_the_guide_turns_red_for_eager_attention_and_stays_green_for_a_rename(
    guided: tuple[Path, str],
) -> None:
    _, out = guided
    flip, rename = (part for part in re.split(r"(?=^REGRESSED|^NO_CHANGE)", out, flags=re.M)[1:])
    assert flip.startswith("REGRESSED: Requested bytes +")
    assert ": attention +" in flip.splitlines()[0]
    assert "exit code 1" in flip
    assert "scaled_dot_product_attention → " in flip
    assert rename.startswith("NO_CHANGE_SHOWN: No change")
    assert "4 modules renamed" in rename
    assert "exit code" not in rename


@pytest.mark.slow
def test_the_guides_budget_and_history_work(guided: tuple[Path, str]) -> None:
    repository, _ = guided
    done = shell(guide_script(6, 7), repository, HOME=str(repository.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit code 1" in done.stdout
    assert "is over the budget of" in done.stdout
    assert "attention ▲ worse" in done.stdout
    assert (repository / "history.html").is_file()


@dataclass
class Runner:
    """As much of a GitHub runner as the Action's shell steps see."""

    workspace: Path
    home: Path
    inputs: dict[str, str]
    event: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""

    @property
    def summary(self) -> Path:
        return self.home / "summary.md"

    def run(self) -> int:
        """Run the steps until one fails; returns the exit code of the job."""
        self.home.mkdir(exist_ok=True)
        for step in STEPS:
            if "if" in step and not self.event.get("github.event.pull_request.number"):
                continue
            done = self._step(step)
            self.log += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def _step(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        output = self.home / "output"
        output.write_text("")
        variables = {key: self._filled(value) for key, value in step.get("env", {}).items()}
        done = shell(
            step["run"], self.workspace, HOME=str(self.home), RUNNER_TEMP=str(self.home / "temp"),
            GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(self.summary),
            GITHUB_WORKSPACE=str(self.workspace), GITHUB_ACTION_PATH=str(ROOT / "action"),
            **variables,
        )  # fmt: skip
        pairs = [line.split("=", 1) for line in output.read_text().splitlines()]
        self.outputs[step.get("id", step["name"])] = dict(pairs)
        return done

    def _filled(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name.startswith("inputs."):
                return self.inputs[name.removeprefix("inputs.")]
            if name.startswith("steps."):
                _, step, _, key = name.split(".")
                return self.outputs[step][key]
            return self.event[name]

        return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=repository, env=environment(HOME=str(repository.parent)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def runner(guided: tuple[Path, str], tmp_path: Path, branch: str, **inputs: str) -> Runner:
    repository, _ = guided
    copy = tmp_path / "workspace"
    git(tmp_path, "clone", "-q", str(repository), str(copy))
    base = git(copy, "rev-parse", "origin/main")
    git(copy, "switch", "-q", "--detach", f"origin/{branch}")
    given = {
        "command": 'python profile_step.py "$ROOFLENS_OUTPUT"', "fail-on": "regression",
        "base": base, "directory": ".", "comment": "true", "package": "none", "token": "secret",
    } | inputs  # fmt: skip
    return Runner(copy, tmp_path / "runner", given)


def test_no_expression_stands_inside_a_shell_script() -> None:
    """A title of a pull request inside a script would be run; variables are not."""
    for step in STEPS:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_every_input_is_used_and_every_output_is_set() -> None:
    text = (ROOT / "action" / "action.yml").read_text("utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text.split("runs:")[1]
    for output in ACTION["outputs"].values():
        key = output["value"].split(".")[-1].split()[0]
        assert re.search(rf'echo "{key}=', text)


@pytest.mark.slow
def test_a_pull_request_that_flips_attention_fails_and_says_why(
    guided: tuple[Path, str], tmp_path: Path
) -> None:
    job = runner(guided, tmp_path, "flip")
    assert job.run() == 1
    assert job.outputs["compare"] == {"verdict": "REGRESSED", "exit-code": "1"}
    assert "::error title=Rooflens%3A REGRESSED::Requested bytes +" in job.log
    results = Path(job.outputs["profile"]["results"])
    assert {path.name for path in results.iterdir()} == {
        "base", "head", "comment.md", "changes.html", "changes.json", "junit.xml",
    }  # fmt: skip
    assert json.loads((results / "changes.json").read_text())["verdict"] == "REGRESSED"
    summary = job.summary.read_text("utf-8")
    html = MarkdownIt("gfm-like", {"linkify": False}).render(summary)
    assert "<h3>Rooflens: ▲ REGRESSED</h3>" in html
    assert html.count("<table>") >= 3
    assert "<details>" in html
    assert git(job.workspace, "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_a_pull_request_that_renames_a_module_passes(
    guided: tuple[Path, str], tmp_path: Path
) -> None:
    job = runner(guided, tmp_path, "rename", **{"fail-on": "any-change"})
    assert job.run() == 0, job.log
    assert job.outputs["compare"] == {"verdict": "NO_CHANGE_SHOWN", "exit-code": "0"}


FAKE_GH = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in *--paginate*) {answer} ;; esac
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "call"),
    [
        ("true", "--method POST repos/o/r/issues/7/comments"),
        ("echo 42; echo 43", "--method PATCH repos/o/r/issues/comments/42"),
    ],
)
def test_one_comment_is_kept_up_to_date(
    guided: tuple[Path, str], tmp_path: Path, answer: str, call: str
) -> None:
    job = runner(guided, tmp_path, "rename")
    results = tmp_path / "results"
    results.mkdir()
    (results / "comment.md").write_text("### Rooflens: ")
    done = comment_step(job, results, tmp_path, answer)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "gh.log").read_text().splitlines()
    assert call in calls[-1]
    assert f"body=@{results}/comment.md" in calls[-1]
    refused = comment_step(job, results, tmp_path, "exit 1; exit 1", tail="exit 1")
    assert refused.returncode == 0
    assert "::notice title=Rooflens::This token may not comment" in refused.stdout


def comment_step(
    job: Runner, results: Path, tmp_path: Path, answer: str, tail: str = ""
) -> subprocess.CompletedProcess[str]:
    step = next(step for step in STEPS if step["name"].startswith("Comment"))
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text(FAKE_GH.format(log=tmp_path / "gh.log", answer=answer) + tail)
    (tools / "gh").chmod(0o755)
    path = f"{tools}:{environment()['PATH']}"
    return shell(
        step["run"], job.workspace, PATH=path, GH_TOKEN="secret", REPOSITORY="o/r", NUMBER="7",
        RESULTS=str(results),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ({"command": "false"}, 4, "The command failed in the base"),
        ({"base": ""}, 2, "No base commit"),
    ],
)
def test_what_cannot_be_compared_is_an_error_with_its_reason(
    guided: tuple[Path, str], tmp_path: Path, inputs: dict[str, str], code: int, words: str
) -> None:
    job = runner(guided, tmp_path, "rename", **inputs)
    assert job.run() == code
    assert words in job.log


def test_pages_point_at_what_exists() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([\w/.-]+\.md)\)", page.read_text("utf-8")):
            if page.name in ("gate-in-ten-minutes.md", "gitlab.md", "comparing.md"):
                assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_the_gitlab_snippet_is_yaml_and_its_commands_exist() -> None:
    text = (ROOT / "docs" / "gitlab.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    job = yaml.safe_load(block)["rooflens"]
    assert job["artifacts"]["reports"]["junit"] == "junit.xml"
    assert [line.split()[1] for line in job["script"] if line.startswith("profile")] == ["diff"] * 3
    workflow = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)[0])
    used = workflow["jobs"]["gate"]["steps"][-1]
    assert set(used["with"]) <= set(ACTION["inputs"])


def test_profiling_tools_are_where_the_tests_look() -> None:
    assert os.access(Path(sys.executable).parent / "profile", os.X_OK)
