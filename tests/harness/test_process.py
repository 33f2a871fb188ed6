"""Running other programs: output, time limits, children, and what cannot be started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rooflens.errors import ProfilerError
from rooflens.harness.process import end_processes_with, run_program


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_code_and_lines_in_order(tmp_path: Path) -> None:
    seen: list[str] = []
    code = "import sys; print('one'); sys.stdout.flush(); print('two', file=sys.stderr); exit(3)"
    done = run_program(python(code), timeout_s=60, folder=tmp_path, on_line=seen.append)
    assert (done.code, done.timed_out) == (3, False)
    assert seen == ["one", "two"]
    assert done.last_line == "two"


def test_arguments_are_never_a_shell_string(tmp_path: Path) -> None:
    hostile = "$(touch pwned); `touch pwned` | tee 'pwned'"
    done = run_program(
        [*python("import sys; print(sys.argv[1])"), hostile], timeout_s=60, folder=tmp_path
    )
    assert done.output.strip() == hostile
    assert list(tmp_path.iterdir()) == []


def test_environment_replaces_the_own_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    code = "import os; print(os.environ.get('MY_TOKEN'), os.environ['KEPT'])"
    done = run_program(python(code), timeout_s=60, folder=tmp_path, environment={"KEPT": "yes"})
    assert done.output.strip() == "None yes"


def test_time_limit_ends_the_program_and_its_children(tmp_path: Path) -> None:
    child = "import time, pathlib, os; pathlib.Path('child').write_text(str(os.getpid())); " \
            "time.sleep(600)"  # fmt: skip
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(600)"
    )
    done = run_program(python(parent), timeout_s=3, folder=tmp_path)
    assert done.timed_out
    pid = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody reaped has ended too.
    return " Z " not in Path(f"/proc/{pid}/stat").read_text()


def test_processes_in_sessions_of_their_own_are_found_by_their_temporary_folder(
    tmp_path: Path,
) -> None:
    # As nsys starts its agent: detached, so that ending the process group does not reach it.
    agent = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "    start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid)"
    )
    done = run_program(
        python(agent), timeout_s=60, folder=tmp_path,
        environment=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    pid = int(done.output)
    assert alive(pid)
    assert end_processes_with(tmp_path) == 1
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.05)
    assert not alive(pid)


def test_a_program_that_cannot_start_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match="cannot be started: No such file"):
        run_program(["/no/such/program"], timeout_s=5, folder=tmp_path)
