"""`profile list`: the workloads, models and GPUs that other commands take by name."""

from __future__ import annotations

import click

from rooflens.harness.options import chosen_format, format_options


@click.command("list")
@format_options("text", "json")
def command(format: str, as_json: bool) -> None:
    """Workloads, models and GPUs by name.

    \b
    Example:
      profile list
    """
    from rooflens.harness.catalogue import catalogue, render_json, render_text

    entries = catalogue()
    as_text = chosen_format(format, as_json) == "text"
    click.echo(render_text(entries) if as_text else render_json(entries))
