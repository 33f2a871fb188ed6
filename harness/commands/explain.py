"""`profile explain`: what a rule looks for, why, what to do, and an example."""

from __future__ import annotations

import click

from rooflens.errors import UsageError, did_you_mean

EPILOG = """\b
Examples:
  profile explain R03
  profile explain repeat-kv-expand
  profile explain                       all rules, one line each
"""


@click.command(epilog=EPILOG)
@click.argument("rule", required=False)
def command(rule: str | None) -> None:
    """What a finding's rule looks for, why it matters, and how to fix it.

    RULE is a number (R03), a name (repeat-kv-expand) or both; without it, all rules are listed.
    """
    from rooflens.reports.findings.catalogue import RULES
    from rooflens.reports.findings.explain import explanation, overview

    if rule is None:
        click.echo(overview(RULES), nl=False)
        return
    wanted = rule.strip().lower()
    for known in RULES:
        if wanted in {known.id.lower(), known.number.lower(), known.slug.lower()}:
            click.echo(explanation(known), nl=False)
            return
    names = [name for known in RULES for name in (known.number.lower(), known.slug)]
    raise UsageError(f'No rule "{rule}".', did_you_mean(wanted, names))
