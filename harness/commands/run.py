"""`profile run`: run one step of a workload, write a run directory, print the verdict."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from rooflens.harness import options as opt
from rooflens.harness.plan import DEFAULT_STEPS, DEFAULT_WARMUP, RunOptions


@click.command("run")
@click.argument("workload")
@opt.model_option
@click.option("--weights", help="dummy (default), dummy-full, or a directory of safetensors.")
@opt.batch_option
@opt.context_option
@opt.prompt_option
@opt.query_tokens_option
@opt.logits_option
@opt.attention_option
@opt.dtype_option
@click.option(
    "--layers",
    metavar="N|all|auto",
    default="auto",
    show_default=True,
    callback=opt.layers,
    help="Layers that are executed; counts always cover all.",
)
@opt.word_option("--device", opt.DEVICES, "Where it runs.", default="auto", show_default=True)
@opt.gpu_option
@click.option(
    "--evidence",
    metavar="LEVEL,...",
    default="auto",
    show_default=True,
    callback=opt.evidence,
    help="theory, counted, timeline, counters; auto is all that works here.",
)
@opt.count_option("--steps", 1, "Timed steps.", default=str(DEFAULT_STEPS), show_default=True)
@opt.count_option(
    "--warmup", 0, "Steps before them.", default=str(DEFAULT_WARMUP), show_default=True
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights and tokens.")
@click.option("--refresh-ceilings", is_flag=True, help="Probe this machine's ceilings again.")
@click.option(
    "--interleave",
    metavar="ENV",
    type=click.Path(path_type=Path),
    help="Another Python environment to run alternately with this one, for honest times.",
)
@opt.count_option("--rounds", 1, "Rounds of --interleave.", default="10", show_default=True)
@opt.label_option
@opt.output_option
@opt.force_option
@opt.format_options("text", "json", "markdown")
def command(
    output: Path | None,
    force: bool,
    format: str,
    as_json: bool,
    interleave: Path | None,
    rounds: int,
    **options: Any,
) -> None:
    """Run a step of WORKLOAD here, write a report, say what it wastes.

    \b
    Examples:
      profile run decode --batch 1
      profile run prefill --prompt 2048 --attention eager
      profile run decode --context 32k --device meta --gpu h200
      profile run decode --interleave ../base/.venv -o rooflens-runs/compared
    """
    if interleave is not None:
        from rooflens.harness.interleave import interleave_command

        click.echo(interleave_command(interleave, sys.argv[1:], rounds, output), nl=False)
        return
    from rooflens.harness.plan import make_plan
    from rooflens.harness.progress import terminal_progress
    from rooflens.harness.run_directory import (
        PARENT,
        default_directory,
        refuse_unwritable,
        render_run,
        write_run,
    )
    from rooflens.harness.running import run_step
    from rooflens.runfile import refuse_existing

    # Before minutes of work, not after.
    refuse_unwritable(output or PARENT / "x")
    if output is not None:
        refuse_existing(output, force)
    progress = terminal_progress()
    with progress.stage("Looking at the machine"):  # torch, when the device is `auto`
        plan = make_plan(
            RunOptions(command=("profile", *opt.recorded_command(sys.argv[1:])), **options)
        )
    with tempfile.TemporaryDirectory(prefix="rooflens-") as scratch:
        run = run_step(plan, progress, Path(scratch))
        directory = output if output is not None else default_directory(run)
        with progress.stage("Writing the report"):
            write_run(run, directory, force=force, captures=sorted(Path(scratch).iterdir()))
    chosen = opt.chosen_format(format, as_json)
    click.echo(render_run(run, chosen, directory), nl=False)
    # With JSON or Markdown nothing else may go to standard output.
    click.echo(f"Wrote {directory / 'report.html'}", err=chosen != "text")
