"""`profile import`: capture files of one step -> a run directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rooflens.harness import options as opt


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@opt.gpu_option
@click.option("--workload", metavar="NAME", help="decode, prefill or verify: theory beside it.")
@click.option("--model", help="The model that ran, as in `profile run`: theory stands beside it.")
@opt.count_option("--batch", 1, "Sequences of the step.")
@opt.context_option
@opt.prompt_option
@opt.query_tokens_option
@opt.logits_option
@opt.dtype_option
@opt.count_option("--layers", 1, "Layers of the model, when the capture has only some.")
@opt.count_option("--steps", 1, "Equal steps in the capture.", default="1", show_default=True)
@click.option("--copy", is_flag=True, help="Copy the files too; they name hosts, users and paths.")
@opt.label_option
@opt.output_option
@opt.force_option
@opt.format_options("text", "json", "markdown")
def command(
    files: tuple[Path, ...],
    output: Path | None,
    force: bool,
    copy: bool,
    format: str,
    as_json: bool,
    **hints: Any,
) -> None:
    """Read capture files of one step into a run directory.

    \b
    Reads .ncu-rep, ncu CSV, nsys SQLite exports and stats, torch profiler traces; the format is
    found by content. Several files are merged: bytes from counters, times from a timeline.
    Examples:
      profile import step.ncu-rep
      profile import step.ncu-rep step.sqlite --model qwen2.5-7b --batch 1 --context 2047
      profile import kernels.csv --gpu rtx4090
    """
    from rooflens.harness.hints import ImportOptions
    from rooflens.harness.importing import import_files
    from rooflens.harness.run_directory import default_directory, render_run
    from rooflens.harness.writing_imports import write_import
    from rooflens.runfile import refuse_existing

    if output is not None:
        refuse_existing(output, force)
    hints["labels"] = dict(hints["labels"])
    options = ImportOptions(command=_command(files), **hints)
    imported = import_files(files, options)
    for sentence in imported.found:
        click.echo(sentence, err=True)
    directory = output if output is not None else default_directory(imported.run)
    write_import(imported, directory, files, force=force, copy=copy)
    chosen = opt.chosen_format(format, as_json)
    click.echo(render_run(imported.run, chosen, directory), nl=False)
    click.echo(f"Wrote {directory / 'report.html'}", err=chosen != "text")


def _command(files: tuple[Path, ...]) -> tuple[str, ...]:
    """The command line with file names instead of paths, which may be private."""
    names = {str(path): path.name for path in files}
    return ("profile", *opt.recorded_command(names.get(word, word) for word in sys.argv[1:]))
