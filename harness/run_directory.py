"""Write a run directory: run.json, report.html, summary.md and captures/, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rooflens.errors import UsageError
from rooflens.model import Run
from rooflens.runfile import encode_run, new_run_directory, next_run_directory

PARENT = Path("rooflens-runs")


def default_directory(run: Run, parent: Path = PARENT) -> Path:
    """`rooflens-runs/<workload>-<key options>-<n>`, the first n that is free."""
    return next_run_directory(parent, directory_stem(run))


def directory_stem(run: Run) -> str:
    """The workload and what was chosen about it: `decode-b1-c2047-sdpa-cpu`."""
    workload = run.workload
    parts = [workload.name or "import"]
    for letter, number in (("b", workload.batch), ("c", workload.context)):
        if number:
            parts.append(f"{letter}{number}")
    if workload.prompt:
        parts.append(f"p{workload.prompt}")
    elif workload.query_tokens is not None and workload.query_tokens > 1:
        parts.append(f"q{workload.query_tokens}")
    parts += [word for word in (workload.attention, workload.device) if word]
    return "-".join("".join(c if c.isalnum() or c in "._" else "_" for c in part) for part in parts)


def write_run(run: Run, final: Path, *, force: bool = False, captures: Sequence[Path] = ()) -> None:
    """Write everything that a run directory holds.

    `captures` are copied into `captures/`. Raises UsageError when `final` exists and may not be
    replaced. An error or Ctrl-C leaves nothing behind.
    """
    from rooflens.reports.html import render_html
    from rooflens.reports.markdown import render_markdown
    from rooflens.reports.view import build_page

    page = build_page(run)
    with new_run_directory(final, force) as scratch:
        (scratch / "run.json").write_bytes(encode_run(run))
        (scratch / "report.html").write_text(render_html(page), "utf-8")
        (scratch / "summary.md").write_text(render_markdown(page), "utf-8")
        folder = scratch / "captures"
        folder.mkdir()
        for capture in captures:
            shutil.copyfile(capture, folder / capture.name)


def refuse_unwritable(final: Path) -> None:
    """Raise UsageError when a run directory could not be made there: said before the work."""
    parent = next(folder for folder in (final.parent, *final.parent.parents) if folder.exists())
    if not parent.is_dir():
        raise UsageError(f"{final} cannot be made: {parent} is no directory.", "Use another -o.")
    if not os.access(parent, os.W_OK):
        raise UsageError(f"{final} cannot be made: {parent} is not writable.", "Use another -o.")


def render_run(run: Run, format: str, directory: Path) -> str:
    """What a command prints about a run it has written: `text`, `markdown` or `json`.

    The JSON is `run.json` without its long lists (`ops`, `kernels`), plus `directory`.
    """
    if format == "json":
        import msgspec

        summary = msgspec.to_builtins(run)
        for long_list in ("ops", "kernels"):
            del summary[long_list]
        text = msgspec.json.encode({"directory": str(directory)} | summary)
        return msgspec.json.format(text, indent=1).decode() + "\n"
    from rooflens.reports.view import build_page

    page = build_page(run)
    if format == "markdown":
        from rooflens.reports.markdown import render_markdown

        return render_markdown(page)
    from rooflens.reports.text import render_text

    return render_text(page).rstrip("\n") + "\n"
