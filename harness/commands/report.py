"""`profile report RUN`: write the report of a run again, in any format."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from rooflens.errors import UsageError
from rooflens.harness.options import chosen_format, json_option, word_option
from rooflens.model import Run

FORMATS = ("html", "text", "markdown", "json", "csv")
TABLES = ("operators", "kernels", "findings")


@click.command("report")
@click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Another run: adds what changed since.",
)
@word_option("--format", FORMATS, "What to write.", default="html", show_default=True)
@word_option("--table", TABLES, "Which table --format csv writes.", default="operators")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to write; - is standard output.  [default: report.html and "
    "summary.md beside run.json; standard output for other formats]",
)
@json_option
def command(
    run_path: Path,
    baseline: Path | None,
    format: str,
    table: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write the report of a run again, as HTML, text, Markdown, JSON or CSV.

    \b
    Examples:
      profile report rooflens-runs/decode-b1-1
      profile report after --baseline before -o changes.html
      profile report decode-b1-1 --format csv --table kernels > kernels.csv
    """
    from rooflens.runfile import read_run, run_json_path

    run = read_run(run_path)
    base = read_run(baseline) if baseline is not None else None
    chosen = chosen_format(format, as_json)
    if output is None and chosen == "html":
        _write_both(run, base, run_json_path(run_path))
        return
    text = _rendered(run, base, chosen, table)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
        return
    _write(output, text)
    click.echo(f"Wrote {output}")


def _write_both(run: Run, baseline: Run | None, run_json: Path) -> None:
    """Rewrite report.html and summary.md: one must not tell an older story than the other."""
    from rooflens.reports.html import render_html
    from rooflens.reports.markdown import render_markdown
    from rooflens.reports.view import build_page

    page = build_page(run, baseline)
    for name, text in (("report.html", render_html(page)), ("summary.md", render_markdown(page))):
        _write(run_json.with_name(name), text)
        click.echo(f"Wrote {run_json.with_name(name)}")


def _rendered(run: Run, baseline: Run | None, format: str, table: str) -> str:
    if format == "json":
        from rooflens.runfile import encode_run

        return encode_run(run).decode()
    if format == "csv":
        from rooflens.reports.tables import TABLES as WRITERS

        return WRITERS[table](run)
    from rooflens.reports.view import build_page

    page = build_page(run, baseline)
    if format == "markdown":
        from rooflens.reports.markdown import render_markdown

        return render_markdown(page)
    if format == "text":
        from rooflens.reports.text import render_text

        return render_text(page, color=sys.stdout.isatty())
    from rooflens.reports.html import render_html

    return render_html(page)


def _write(output: Path, text: str) -> None:
    """Replace the file whole: a reader never sees half of it."""
    scratch = output.with_name(f".{output.name}.part")
    try:
        scratch.write_text(text, "utf-8")
        scratch.replace(output)
    except OSError as error:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise UsageError(
            f"Cannot write {output}: {error.strerror or error}.", "Use another -o."
        ) from None
