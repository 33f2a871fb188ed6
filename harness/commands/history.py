"""`profile history DIR`: one number over many runs, and where it changed."""

from __future__ import annotations

from pathlib import Path

import click

from rooflens.errors import InputError
from rooflens.harness.options import chosen_format, json_option, word_option

FORMATS = ("text", "csv", "html", "json")


@click.command("history")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--metric",
    default="requested_bytes",
    show_default=True,
    metavar="NAME",
    help="requested_bytes, moved_bytes, requested_flops, executed_flops, ops, launches, "
    "step_time_ns ...",
)
@click.option("--operator", default="", metavar="CLASS", help="Follow one operator class.")
@click.option(
    "--label",
    default="commit",
    show_default=True,
    metavar="KEY",
    help="The label of a run that names its point.",
)
@word_option("--format", FORMATS, "What to write.", default="text", show_default=True)
@json_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to write; standard output by default (history.html for html).",
)
def command(
    directory: Path,
    metric: str,
    operator: str,
    label: str,
    format: str,
    as_json: bool,
    output: Path | None,
) -> None:
    """Draw one number of many runs over time and name the operator that changed it.

    \b
    Examples:
      profile history rooflens-runs
      profile history rooflens-runs --metric requested_bytes --operator attention
      profile history rooflens-runs --metric step_time_ns --format html -o history.html
    """
    from rooflens.harness.commands.diff import write_whole
    from rooflens.harness.run_sets import run_paths
    from rooflens.reports import history_page
    from rooflens.reports.history import Entry, history
    from rooflens.runfile import read_run

    if not directory.is_dir():
        raise InputError(f"No folder of runs at {directory}.", "Give e.g. rooflens-runs.")
    entries = [Entry(path.name, read_run(path)) for path in run_paths(directory)]
    series = history(entries, metric, operator, label)
    chosen = chosen_format(format, as_json)
    render = {
        "text": history_page.render_text,
        "csv": history_page.render_csv,
        "html": history_page.render_html,
        "json": history_page.render_json,
    }[chosen]
    text = render(series)
    if output is None and chosen == "html":
        output = Path("history.html")
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
        return
    write_whole(output, text)
    click.echo(f"Wrote {output}")
