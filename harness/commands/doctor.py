"""`profile doctor`: what works on this machine, and the one-line fix for what does not."""

from __future__ import annotations

import click

from rooflens.errors import ProfilerError
from rooflens.harness.options import chosen_format, format_options


@click.command("doctor")
@format_options("text", "json")
def command(format: str, as_json: bool) -> None:
    """What works on this machine, and the one-line fix for what does not.

    \b
    Example:
      profile doctor
    """
    from rooflens.harness.doctor import NEEDED_BY_RUN
    from rooflens.harness.doctor.report import diagnose, render_json, render_text

    diagnosis = diagnose()
    if chosen_format(format, as_json) == "json":
        click.echo(render_json(diagnosis))
    else:
        click.echo(render_text(diagnosis))
    broken = [c for c in diagnosis.checks if c.outcome == "failed" and c.id in NEEDED_BY_RUN]
    if broken:
        raise ProfilerError(f"`profile run decode` cannot work here: {broken[0].message}")
