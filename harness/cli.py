"""The command line: a table of commands, each imported only when it is used.

To add a command: write `harness/commands/<name>.py` with a click command called `command`, and add
one row to COMMANDS. The row repeats the first line of the command's docstring, so that `--help`
imports nothing (tests/harness/test_cli.py compares the two).
"""

from __future__ import annotations

import importlib
import sys

import click

from rooflens import __version__
from rooflens.errors import RooflensError

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "Run a step of WORKLOAD here, write a report, say what it wastes."),
    "report": ("report", "Write the report of a run again, as HTML, text, Markdown, JSON or CSV."),
    "diff": ("diff", "What changed between two runs, per operator; an exit code for CI."),
    "check": ("check", "Hold a run against the budgets of rooflens.toml; an exit code for CI."),
    "history": (
        "history",
        "Draw one number of many runs over time and name the operator that changed it.",
    ),
    "import": ("import_", "Read capture files of one step into a run directory."),
    "metrics": (
        "metrics",
        "Counters that exist on a GPU, how many passes they take, the ncu command.",
    ),
    "wrap": ("wrap", "Run CMD under nsys or ncu, then import what was recorded."),
    "theory": ("theory", "What a step must move and compute, from its config alone."),
    "explain": ("explain", "What a finding's rule looks for, why it matters, and how to fix it."),
    "doctor": ("doctor", "What works on this machine, and the one-line fix for what does not."),
    "list": ("list_", "Workloads, models and GPUs by name."),
    "sweep": ("sweep", "Curves over batch, context and GPU, with the crossings."),
}

EPILOG = """\b
Examples:
  profile run decode --batch 1                      run a step here, get a verdict
  profile run decode --device meta --gpu h200       no GPU: what an H200 could do
  profile report rooflens-runs/decode-b1-c2047-sdpa-cpu-1
"""


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"rooflens.harness.commands.{COMMANDS[cmd_name][0]}")
        loaded = module.command
        assert isinstance(loaded, click.Command)
        return loaded

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from rooflens.errors import did_you_mean

            raise click.UsageError(
                f'No command "{args[0]}". {did_you_mean(args[0], COMMANDS)}', ctx
            ) from error


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="rooflens")
def cli() -> None:
    """Find the bytes and FLOPs of an LLM step that did not have to happen, and what they cost."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `profile` and `rooflens`: turns every expected failure into one line."""
    stdout = sys.stdout
    try:
        code = cli.main(arguments, prog_name="profile", standalone_mode=False)
    except click.exceptions.Abort:
        _fail("Stopped.", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RooflensError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("Stopped; nothing half-written was left behind.", 130)
    except SystemExit as end:
        # `profile list | head`: the reader went away, which is no error of ours. click replaces
        # stdout and ends with 1 then, which here would say that a gate failed.
        sys.exit(end.code if sys.stdout is stdout else 0)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or type(error).__name__}{where}.", 4)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    click.echo(f"profile: {message}", err=True)
    sys.exit(code)
