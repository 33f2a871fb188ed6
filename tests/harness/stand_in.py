"""A stand-in for the ncu executable: logs its arguments and replays a real report and real output.

It never runs the program under it. What it prints is what real ncu printed (tests/data), and the
report that it "writes" is a real one, so nothing here is invented tool output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SCRIPT = f"""#!{sys.executable}
import json, os, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("Version 2025.3.1.0 (build 36398880) (public-release)")
    raise SystemExit
with (here / "calls.jsonl").open("a") as log:
    log.write(json.dumps(sys.argv) + chr(10))
calls = len((here / "calls.jsonl").read_text().splitlines())
print((here / "output.txt").read_text(), end="")
failing = json.loads((here / "failing.json").read_text())
if calls in failing:
    raise SystemExit(1)
target = pathlib.Path(sys.argv[sys.argv.index("-o") + 1] + ".ncu-rep")
shutil.copyfile(here / "report.ncu-rep", target)
job = pathlib.Path(sys.argv[-1])
if job.name == "job.json":
    pathlib.Path(json.loads(job.read_text())["ops_file"]).write_text("[]")
"""


def make_stand_in(
    folder: Path, report: Path, output: str = "", failing: tuple[int, ...] = ()
) -> Path:
    """Put a stand-in called `ncu` into `folder`; calls numbered in `failing` leave no report."""
    folder.mkdir()
    program = folder / "ncu"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    (folder / "report.ncu-rep").write_bytes(report.read_bytes())
    (folder / "output.txt").write_text(output)
    (folder / "failing.json").write_text(json.dumps(failing))
    return program


def calls(folder: Path) -> list[list[str]]:
    """Argument lists of all captures, in order."""
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
