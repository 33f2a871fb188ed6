"""`profile sweep`: theory, and on request real runs, over ranges of batch, context and GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rooflens.errors import UsageError, did_you_mean
from rooflens.harness.commands.theory import (
    dtype_option,
    file_option,
    kv_option,
    model_architecture,
    tp_option,
    weights_option,
    write_or_print,
)
from rooflens.harness.options import (
    ATTENTIONS,
    chosen_format,
    count_option,
    format_options,
    model_option,
    word_option,
)

if TYPE_CHECKING:
    from rooflens.harness.sweeping import SweepPlan
    from rooflens.reports.theory.sweep import Sweep

WORKLOADS = ("decode", "prefill", "verify")


@click.command("sweep")
@click.argument("workload")
@click.option("--batch", default="1", show_default=True, help="List; `..` doubles: 1,2,4..256.")
@click.option("--context", help="List of cached tokens: 1k,8k,32k.")
@click.option("--prompt", help="List of new tokens of a prefill: 128..32k.")
@click.option("--query-tokens", help="List of new tokens of a verify step: 1..8.")
@click.option("--gpu", help="List of GPUs whose roofs to use: 4090,h100,h200.")
@model_option
@dtype_option
@weights_option
@kv_option
@tp_option
@word_option("--engine", ("local", "ray"), "Who computes the points.", default="local")
@count_option("--workers", 1, "Processes of the local engine; all cores unless given.")
@click.option("--measure", "measured", is_flag=True, help="Also run each point here.")
@click.option("--device", default="auto", show_default=True, help="Where --measure runs.")
@click.option("--layers", default="auto", show_default=True, help="Layers --measure runs.")
@word_option("--attention", ATTENTIONS, "Attention that --measure runs.", default="sdpa")
@count_option("--steps", 1, "Timed steps per measured point.", default="3", show_default=True)
@format_options("text", "json", "csv", "markdown", "html")
@file_option
def command(
    workload: str, format: str, as_json: bool, output: Path | None, measured: bool, device: str,
    layers: str, attention: str, steps: int, **lists: Any,
) -> None:  # fmt: skip
    """Curves over batch, context and GPU, with the crossings.

    \b
    Examples:
      profile sweep decode --batch 1,2,4..256 --context 1k,8k,32k --gpu 4090,h100,h200
      profile sweep prefill --prompt 128..32k --gpu h100 --format html -o prefill.html
      profile sweep decode --batch 1..8 --context 1k --model qwen2.5-0.5b --measure
    """
    from rooflens.harness.sweeping import MeasureOptions, measure, run_sweep

    plan = _plan(workload, lists)
    sweep = run_sweep(plan)
    if measured:
        options = MeasureOptions(device=device, layers=layers, attention=attention, steps=steps)
        sweep = measure(sweep, plan, options, lambda line: click.echo(line, err=True))
    write_or_print(_rendered(sweep, chosen_format(format, as_json)), output)


def _plan(workload: str, lists: dict[str, Any]) -> SweepPlan:
    """What the options ask for; every mistake is named before anything is computed."""
    from rooflens.harness.sweeping import SweepPlan
    from rooflens.reports.theory.gpus import gpu
    from rooflens.reports.theory.step import StepShape
    from rooflens.reports.theory.sweep import parse_counts

    if workload not in WORKLOADS:
        raise UsageError(f'No workload "{workload}" to sweep.', did_you_mean(workload, WORKLOADS))
    queries = _new_tokens(workload, lists["prompt"], lists["query_tokens"])
    context = lists["context"] or ("0" if workload == "prefill" else "2047")
    architecture = model_architecture(lists["model"])
    names = [name.strip() for name in (lists["gpu"] or "").split(",") if name.strip()]
    base = StepShape(
        workload=workload,
        logits="all" if workload == "verify" else "last",
        dtype=lists["dtype"] or architecture.dtype,
        weights_dtype=lists["weights_dtype"] or architecture.weights_dtype,
        kv_dtype=lists["kv_dtype"],
        tp=lists["tp"],
    )
    return SweepPlan(
        architecture=architecture,
        model=lists["model"],
        base=base,
        batches=parse_counts(lists["batch"], "--batch"),
        contexts=parse_counts(context, "--context"),
        queries=queries,
        gpus=tuple({found.name: found for found in map(gpu, names)}.values()),
        engine=lists["engine"],
        workers=lists["workers"],
    )


def _new_tokens(workload: str, prompt: str | None, query_tokens: str | None) -> tuple[int, ...]:
    from rooflens.reports.theory.sweep import parse_counts

    if prompt is not None and workload != "prefill":
        raise UsageError(f"--prompt belongs to prefill; {workload} has none.")
    if query_tokens is not None and workload != "verify":
        raise UsageError(f"--query-tokens belongs to verify; {workload} has none.")
    if workload == "prefill":
        return parse_counts(prompt or "2048", "--prompt")
    return parse_counts(query_tokens or "5", "--query-tokens") if workload == "verify" else (1,)


def _rendered(sweep: Sweep, format: str) -> str:
    if format in ("json", "csv"):
        from rooflens.reports.theory.rendering.sweep_data import sweep_csv, sweep_json

        return sweep_json(sweep) if format == "json" else sweep_csv(sweep)
    if format == "html":
        from rooflens.reports.theory.rendering.sweep_page import sweep_html

        return sweep_html(sweep)
    from rooflens.reports.theory.rendering.sweep_words import sweep_markdown, sweep_text

    return sweep_text(sweep) if format == "text" else sweep_markdown(sweep)
