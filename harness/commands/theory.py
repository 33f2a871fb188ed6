"""`profile theory`: what a step must move and compute, from the model's configuration alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rooflens.errors import UsageError
from rooflens.harness.options import (
    Decorator,
    batch_option,
    chosen_format,
    context_option,
    count_option,
    format_options,
    gpu_option,
    logits_option,
    model_option,
    word_option,
)
from rooflens.units import parse_token_count

if TYPE_CHECKING:
    from rooflens.reports.theory.answer import Answer
    from rooflens.reports.theory.architecture import Architecture
    from rooflens.reports.theory.gpus import Gpu

FORMATS = ("text", "json", "csv", "markdown", "html")

EPILOG = """\b
Examples:
  profile theory decode --batch 1 --context 2048 --gpu 4090
  profile theory prefill --prompt 8k --gpu h100 --format html -o prefill.html
  profile theory gemm --m 256 --k 3584 --n 512 --gpu 4090
"""


def _counts(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """A comma list of token counts: `1k,8k,513`."""
    if value is None:
        return ()
    option = param.opts[0]
    return tuple(parse_token_count(piece, option) for piece in value.split(","))


dtype_option = click.option(
    "--dtype", help="Of activations and products: bf16, fp16, fp32, tf32, fp8 ...; the model's own."
)
weights_option = click.option(
    "--weights-dtype", help="Of the layers' projections: fp8, int8, int4, awq, fp4 ..."
)
kv_option = click.option("--kv-dtype", help="Of the KV cache: fp8, int8 ...")
tp_option = count_option("--tp", 1, "Tensor-parallel ranks.", default="1", show_default=True)
contexts_option = click.option(
    "--contexts",
    callback=_counts,
    metavar="N,N,...",
    help="Cached tokens per sequence when they differ; replaces --batch and --context.",
)
queries_option = click.option(
    "--queries",
    callback=_counts,
    metavar="N,N,...",
    help="New tokens per sequence when they differ: a prefill chunk among decodes.",
)
accumulate_option = word_option(
    "--accumulate",
    ("float32", "float16"),
    "Of the roof's peak: GeForce peaks differ.",
    default="float32",
    show_default=True,
    aliases={"fp32": "float32", "fp16": "float16"},
)
unfused_option = click.option(
    "--unfused", is_flag=True, help="Attention scores pass through memory."
)
absorbed_option = click.option(
    "--absorbed/--not-absorbed", default=None, help="MLA: queries meet the latents directly."
)
sampling_option = click.option("--sampling", is_flag=True, help="Include the greedy choice.")
file_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file."
)


def _options(*options: Decorator[Any]) -> Decorator[Any]:
    def apply(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


_step_options = _options(
    model_option, gpu_option, dtype_option, weights_option, kv_option, tp_option,
    contexts_option, queries_option, unfused_option, absorbed_option, sampling_option,
    accumulate_option, format_options(*FORMATS), file_option,
)  # fmt: skip
_bare_options = _options(
    gpu_option, dtype_option, accumulate_option, format_options(*FORMATS), file_option
)


@click.group("theory", epilog=EPILOG)
def command() -> None:
    """What a step must move and compute, from its config alone."""


@command.command("decode")
@batch_option
@context_option
@logits_option
@_step_options
def decode(batch: int, context: int | None, **options: Any) -> None:
    """One new token per sequence over a KV cache."""
    _step("decode", options, batch, 2047 if context is None else context, query_tokens=1)


@command.command("prefill")
@batch_option
@context_option
@count_option("--prompt", 1, "New tokens.", default="2048", show_default=True)
@logits_option
@_step_options
def prefill(batch: int, context: int | None, prompt: int, **options: Any) -> None:
    """A prompt, or with --context a chunk of one."""
    _step("prefill", options, batch, context or 0, query_tokens=prompt)


@command.command("verify")
@batch_option
@context_option
@count_option(
    "--query-tokens", 1, "Drafted tokens and the one before.", default="5", show_default=True
)
@_step_options
def verify(batch: int, context: int | None, query_tokens: int, **options: Any) -> None:
    """Check k drafted tokens in one step (k+1 new tokens, all scored)."""
    options["logits"] = "all"
    context = 2047 if context is None else context
    _step("verify", options, batch, context, query_tokens)


@command.command("gemm")
@count_option("--m", 1, "Rows of the activations.", required=True)
@count_option("--n", 1, "Columns of the weight.", required=True)
@count_option("--k", 1, "The dimension that is summed over.", required=True)
@click.option("--bias", is_flag=True, help="With a bias [N].")
@weights_option
@_bare_options
def gemm(
    m: int, n: int, k: int, bias: bool, gpu: str | None, dtype: str | None,
    weights_dtype: str | None, accumulate: str, **output: Any,
) -> None:  # fmt: skip
    """One product [M, K] x [K, N]."""
    from rooflens.reports.theory import operators
    from rooflens.reports.theory.answer import gemm_answer
    from rooflens.reports.theory.formats import activation_format, number_format

    dtype = dtype or "bfloat16"
    activation = activation_format(dtype)
    weight = number_format(weights_dtype or dtype, "--weights-dtype")
    product = operators.gemm(
        m, k, n, activation=activation, weight=weight, bias=bias, detail="gemm"
    )
    found = _gpu(gpu)
    _print(
        gemm_answer(
            product, found, dtype=dtype, weights_dtype=weights_dtype, accumulate=accumulate
        ),
        **output,
    )


@command.command("attention")
@batch_option
@context_option
@count_option("--query-tokens", 1, "New tokens.", default="1", show_default=True)
@count_option("--heads", 1, "Query heads.", default="28", show_default=True)
@count_option("--kv-heads", 1, "Key/value heads.", default="4", show_default=True)
@count_option("--head-dim", 1, "Width of a head.", default="128", show_default=True)
@count_option("--window", 1, "Sliding window in keys.")
@click.option("--full", is_flag=True, help="Every query attends every key (not causal).")
@unfused_option
@kv_option
@_bare_options
def attention(gpu: str | None, accumulate: str, context: int | None, **options: Any) -> None:
    """Attention of one layer: q new tokens over L keys."""
    from rooflens.reports.theory.single import attention_answer

    output = {name: options.pop(name) for name in ("format", "as_json", "output")}
    if context is None:
        context = 2047 if options["query_tokens"] == 1 else 0
    found = _gpu(gpu)
    _print(attention_answer(found, context=context, accumulate=accumulate, **options), **output)


def _gpu(name: str | None) -> Gpu | None:
    from rooflens.reports.theory.gpus import gpu

    return None if name is None else gpu(name)


def _step(
    workload: str, options: dict[str, Any], batch: int, context: int, query_tokens: int
) -> None:
    from rooflens.reports.theory.answer import step_answer
    from rooflens.reports.theory.step import StepShape

    architecture = model_architecture(options["model"])
    shape = StepShape(
        workload=workload,
        batch=batch,
        context=context,
        query_tokens=query_tokens,
        logits=options["logits"],
        dtype=options["dtype"] or architecture.dtype,
        weights_dtype=options["weights_dtype"] or architecture.weights_dtype,
        kv_dtype=options["kv_dtype"],
        tp=options["tp"],
        contexts=options["contexts"],
        queries=options["queries"],
        fused=not options["unfused"],
        absorbed=options["absorbed"],
        sampling=options["sampling"],
    )
    found = _gpu(options["gpu"])
    answer = step_answer(architecture, shape, found, options["accumulate"])
    _print(answer, options["format"], options["as_json"], options["output"])


def model_architecture(model: str) -> Architecture:
    """The architecture of `--model`, called by its own name, never by a path."""
    from rooflens.architectures import load_config
    from rooflens.reports.theory.architecture import Architecture

    path = Path(model)
    if path.is_file():
        name = path.resolve().parent.name if path.name == "config.json" else path.stem
    elif path.is_dir():
        name = path.resolve().name
    else:
        name = model
    return Architecture.from_config(load_config(model), name)


def _print(answer: Answer, format: str, as_json: bool, output: Path | None) -> None:
    write_or_print(_rendered(answer, chosen_format(format, as_json)), output)


def _rendered(answer: Answer, format: str) -> str:
    if format in ("json", "csv"):
        from rooflens.reports.theory.rendering.data import answer_csv, answer_json

        return answer_json(answer) if format == "json" else answer_csv(answer)
    if format == "html":
        from rooflens.reports.theory.rendering.page import answer_html

        return answer_html(answer)
    from rooflens.reports.theory.rendering.text import answer_markdown, answer_text

    return answer_text(answer) if format == "text" else answer_markdown(answer)


def write_or_print(text: str, output: Path | None) -> None:
    """To standard output, or to a file that is named afterwards."""
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text if text.endswith("\n") else text + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"--output: cannot write {output}: {error.strerror}.") from None
    click.echo(f"Wrote {output}")
