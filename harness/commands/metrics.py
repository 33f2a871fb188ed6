"""`profile metrics`: which counters to ask ncu for on a GPU; needs no GPU."""

from __future__ import annotations

import shlex

import click

from rooflens.errors import UsageError
from rooflens.harness import options as opt
from rooflens.parsers.planner import DTYPES, SETS, MetricPlan, ncu_arguments, plan_metrics
from rooflens.units import DTYPE_ALIASES

APPLICATION = ("python", "your_script.py")


@click.command("metrics")
@click.option("--gpu", required=True, help="A GPU (see `profile list`) or a chip, e.g. gh100.")
@opt.word_option(
    "--dtype",
    DTYPES,
    "Of the products, e.g. bf16.",
    aliases=DTYPE_ALIASES,
    default="bfloat16",
    show_default=True,
)
@opt.word_option(
    "--set", SETS, "minimal is one pass; full counts every format.", default=SETS[0],
    show_default=True,
)  # fmt: skip
@click.option("--add", multiple=True, metavar="METRIC", help="A further metric, by its ncu name.")
@click.option("--nvtx", default="", metavar="FILTER", help="Only kernels in a range, e.g. step/")
@opt.format_options("text", "json")
def command(
    gpu: str, dtype: str, set: str, add: tuple[str, ...], nvtx: str, format: str, as_json: bool
) -> None:
    """Counters that exist on a GPU, how many passes they take, the ncu command.

    \b
    Examples:
      profile metrics --gpu h200 --dtype bf16
      profile metrics --gpu gb202 --set full --json
    """
    plan = plan_metrics(chip_of(gpu), dtype, set, add)
    arguments = ncu_arguments(plan, "report", APPLICATION, nvtx)
    if opt.chosen_format(format, as_json) == "json":
        click.echo(as_json_text(plan, arguments), nl=False)
    else:
        click.echo(as_text(plan, arguments))


def chip_of(gpu: str) -> str:
    """Chip of a GPU name; a chip's own name stands for itself. Raises UsageError."""
    from rooflens.parsers.chips import chip_names
    from rooflens.reports.theory.gpus import gpu as find_gpu

    if gpu.lower() in chip_names():
        return gpu.lower()
    found = find_gpu(gpu)
    if found.chip not in chip_names():
        raise UsageError(
            f"--gpu {found.name}: no counter list for {found.chip or 'this GPU'}.",
            "ncu profiles NVIDIA GPUs from Volta on.",
        )
    return found.chip


def as_text(plan: MetricPlan, arguments: tuple[str, ...]) -> str:
    """The plan for people."""
    width = max(len(metric.name) for metric in plan.metrics)
    passes = f"{plan.passes} replay pass" + ("es" if plan.passes != 1 else "")
    lines = [
        f"{plan.chip}, {plan.dtype}, set {plan.set}: {len(plan.metrics)} metrics, {passes} "
        "(predicted; real ncu may add some)",
        "",
        *(f"  {metric.name:{width}}  {metric.why}" for metric in plan.metrics),
        "",
        *(f"Note: {note}" for note in plan.notes),
        f"Names from {plan.source}.",
        "",
        "Run:",
        f"  {shlex.join(arguments)}",
    ]
    return "\n".join(lines)


def as_json_text(plan: MetricPlan, arguments: tuple[str, ...]) -> str:
    """The plan for programs."""
    import msgspec

    made = msgspec.to_builtins(plan) | {"command": list(arguments)}
    text = msgspec.json.format(msgspec.json.encode(made), indent=1)
    return str(text, "utf-8") + "\n"
