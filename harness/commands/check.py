"""`profile check RUN`: hold a run against the budgets of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rooflens.errors import InputError, UsageError
from rooflens.harness.options import chosen_format, format_options

if TYPE_CHECKING:
    from rooflens.model import Run
    from rooflens.reports.compare.gate import Answer


@click.command("check")
@click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--budget",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("rooflens.toml"),
    show_default=True,
    help="Where the budgets are.",
)
@click.option("--update", is_flag=True, help="Write this run's numbers as the new budget.")
@click.option("--reason", metavar="TEXT", help="Why the budget changes; kept in the file.")
@format_options("text", "json", "github")
def command(
    run_path: Path, file: Path, update: bool, reason: str | None, format: str, as_json: bool
) -> int:
    """Hold a run against the budgets of rooflens.toml; an exit code for CI.

    Exit code: 0 within all budgets, 1 over one of them, 3 one of them cannot be judged.

    \b
    Examples:
      profile check rooflens-runs/decode-b1-1 --update --reason "first numbers"
      profile check rooflens-runs/decode-b1-2 --budget rooflens.toml
    """
    from rooflens.runfile import read_run

    run = read_run(run_path)
    if update:
        _update(run, file, reason)
        return 0
    if reason is not None:
        raise UsageError("--reason says why a budget changes.", "Use it with --update.")
    from rooflens.reports.budgets import check, matching, parse_budgets
    from rooflens.reports.compare.gate import exit_code

    budgets = matching(parse_budgets(_read(file), str(file)), run, str(file))
    answers = tuple(answer for budget in budgets for answer in check(budget, run))
    click.echo(_rendered(answers, chosen_format(format, as_json)), nl=False)
    return exit_code(answers)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(
            f"No budgets at {file}: no such file.",
            'Write them with `profile check RUN --update --reason "first numbers"`.',
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {file}: {error}.") from None


def _update(run: Run, file: Path, reason: str | None) -> None:
    from rooflens.harness.commands.diff import write_whole
    from rooflens.reports.budget_file import updated

    if reason is None and sys.stdin.isatty():
        reason = click.prompt("Why does the budget change?")
    if reason is None or not reason.strip():
        raise UsageError(
            "A budget changes only with a reason.", 'Add --reason "why", e.g. "first numbers".'
        )
    text = _read(file) if file.exists() else ""
    new, name = updated(text, run, reason.strip(), str(file))
    write_whole(file, new)
    click.echo(f"Wrote [budget.{name}] to {file}")


def _rendered(answers: tuple[Answer, ...], format: str) -> str:
    if format == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(answers), indent=1).decode() + "\n"
    if format == "github":
        from rooflens.reports.compare.renderers.machine import render_answers

        return render_answers(answers)
    from rooflens.reports.format import plural

    lines = [
        f"{answer.outcome}  {answer.condition}" + (f": {answer.message}" if answer.message else "")
        for answer in answers
        if answer.message or answer.outcome != "passed"
    ]
    quiet = len(answers) - len(lines)
    if quiet:
        lines.append(f"passed  {plural(quiet, 'rule')} that must stay clear")
    return "\n".join(lines) + "\n" if lines else "The budget sets no limit.\n"
