"""`profile wrap`: run any command under nsys or ncu with the right flags, then import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rooflens.harness import options as opt

TOOLS = ("nsys", "ncu")


@click.command("wrap", context_settings={"allow_interspersed_args": False})
@opt.word_option(
    "--tool", TOOLS, "nsys: times and gaps; ncu: bytes and FLOPs.", default="nsys",
    show_default=True,
)  # fmt: skip
@click.option("--delay", type=click.IntRange(0), default=0, help="nsys: start after so many s.")
@click.option("--duration", type=click.IntRange(0), default=0, help="nsys: stop after so many s.")
@opt.word_option(
    "--capture-range",
    ("none", "cudaProfilerApi", "nvtx"),
    "nsys: record only between cudaProfilerStart and Stop, or inside a range.",
    default="none",
    show_default=True,
)
@click.option("--nvtx-capture", default="", metavar="RANGE@DOMAIN", help="nsys: that range.")
@opt.word_option(
    "--set", ("standard", "minimal", "full"), "ncu: counters; minimal is one pass.",
    default="standard", show_default=True,
)  # fmt: skip
@click.option("--nvtx-include", multiple=True, metavar="FILTER", help='ncu: e.g. "step/".')
@click.option("--nvtx-exclude", multiple=True, metavar="FILTER", help="ncu: leave these out.")
@click.option("--kernel", default="", metavar="NAME|regex:EXPR", help="ncu: only such kernels.")
@click.option("--launch-skip", type=click.IntRange(0), default=0, help="ncu: skip the first N.")
@click.option("--launch-count", type=click.IntRange(0), default=0, help="ncu: profile only N.")
@opt.word_option(
    "--clock-control", ("base", "none"), "ncu: lock the clocks.", default="base", show_default=True
)
@opt.word_option(
    "--cache-control", ("all", "none"), "ncu: flush caches.", default="all", show_default=True
)
@opt.word_option(
    "--replay-mode", ("kernel", "application"), "ncu: how passes repeat.", default="kernel",
    show_default=True,
)  # fmt: skip
@click.option("--option", multiple=True, metavar="FLAG", help="Passed on to the profiler as it is.")
@click.option(
    "--time-limit", type=click.IntRange(1), default=3600, show_default=True, help="Seconds."
)
@opt.gpu_option
@opt.dtype_option
@click.option("--model", help="The model that runs, so that theory stands beside it.")
@click.option("--workload", metavar="NAME", help="decode, prefill or verify.")
@opt.count_option("--batch", 1, "Sequences of the step.")
@opt.context_option
@opt.prompt_option
@opt.query_tokens_option
@opt.label_option
@opt.output_option
@opt.force_option
@opt.format_options("text", "json", "markdown")
@click.argument("program", nargs=-1, required=True, metavar="-- CMD...")
def command(output: Path | None, force: bool, format: str, as_json: bool, **options: Any) -> None:
    """Run CMD under nsys or ncu, then import what was recorded.

    \b
    Child processes are followed, CUDA graphs are traced by node.
    Examples:
      profile wrap -- python serve.py
      profile wrap --delay 60 --duration 5 -- vllm serve Qwen/Qwen2.5-7B
      profile wrap --tool ncu --nvtx-include "step/" --gpu h100 -- python step.py
    """
    from rooflens.harness.run_directory import default_directory, render_run
    from rooflens.harness.wrapping import wrap
    from rooflens.runfile import refuse_existing

    if output is not None:
        refuse_existing(output, force)
    wrapped = wrap(options)
    for line in wrapped.notes:
        click.echo(line, err=True)
    directory = output if output is not None else default_directory(wrapped.run)
    wrapped.write(directory, force)
    chosen = opt.chosen_format(format, as_json)
    click.echo(render_run(wrapped.run, chosen, directory), nl=False)
    click.echo(f"Wrote {directory / 'report.html'}", err=chosen != "text")
