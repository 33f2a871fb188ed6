"""The options that several commands share: one spelling, one meaning, one help line each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rooflens.architectures import DEFAULT_MODEL
from rooflens.errors import RooflensError, UsageError, did_you_mean
from rooflens.units import DTYPE_ALIASES, parse_token_count
from rooflens.vocabulary import EVIDENCE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
DEVICES = ("auto", "cuda", "cpu", "meta")
DTYPES = ("bfloat16", "float16", "float32")
LOGITS = ("last", "all")


class Count(click.ParamType):
    """A whole number as people type it (`2048`, `8k`), not below `minimum`."""

    name = "count"

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        if isinstance(value, int):
            number = value
        else:
            option = _option_name(param)
            text = str(value)
            negative = text.startswith("-") and text[1:].isdigit()
            number = int(text) if negative else parse_token_count(text, option)
        if number < self.minimum:
            raise UsageError(f"{_option_name(param)} {number}: it must be {self.minimum} or more.")
        return number


class Word(click.ParamType):
    """One of a few words; a near miss is answered with a suggestion, in one line."""

    name = "word"

    def __init__(self, words: tuple[str, ...], aliases: dict[str, str] | None = None) -> None:
        self.words = words
        self.aliases = aliases or {}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | None:
        word = self.aliases.get(str(value).lower(), str(value).lower())
        if word not in self.words:
            hint = did_you_mean(word, self.words)
            raise UsageError(f'{_option_name(param)}: unknown value "{value}".', hint)
        return word

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[" + "|".join(self.words) + "]"


class Layers(click.ParamType):
    """`all`, `auto` or a number of layers."""

    name = "N|all|auto"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | None:
        word = str(value).lower()
        if word in ("all", "auto") or (word.isascii() and word.isdigit() and int(word) >= 1):
            return word
        raise UsageError(f'--layers: "{value}" is neither a number from 1 nor all or auto.')


class Evidence(click.ParamType):
    """`auto`, or a comma list of evidence levels. Converts to a tuple; empty means auto."""

    name = "LEVEL,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...] | None:
        if isinstance(value, tuple):
            return value
        words = [word.strip().lower() for word in str(value).split(",") if word.strip()]
        if words == ["auto"]:
            return ()
        for word in words:
            if word not in EVIDENCE:
                raise UsageError(
                    f'--evidence: unknown level "{word}".', did_you_mean(word, (*EVIDENCE, "auto"))
                )
        return tuple(level for level in EVIDENCE if level in words)


class Label(click.ParamType):
    """`KEY=VALUE`. Converts to a pair."""

    name = "KEY=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str] | None:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            raise UsageError(f'--label: "{value}" is not KEY=VALUE.', "E.g. --label commit=1a2b3c.")
        return key.strip(), text


def _option_name(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None and param.opts else "option"


def _stack(*decorators: Decorator[Any]) -> Decorator[Decorated]:
    """One decorator out of several; `--help` shows them in the order given."""

    def apply(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


model_option = click.option(
    "--model",
    default=DEFAULT_MODEL,
    show_default=True,
    help="A shipped model (see `profile list`), a Hugging Face directory or a config.json.",
)
gpu_option = click.option("--gpu", help="Whose roof to use, e.g. rtx4090 (see `profile list`).")
dtype_option = click.option(
    "--dtype", type=Word(DTYPES, DTYPE_ALIASES), help="Instead of the model's own."
)
shape_options: Decorator[Any] = _stack(
    click.option("--batch", type=Count(1), default=1, show_default=True, help="Sequences."),
    click.option("--context", type=Count(0), help="Tokens already in the KV cache, e.g. 8k."),
    click.option("--prompt", type=Count(1), help="New tokens of a prefill."),
    click.option("--query-tokens", type=Count(1), help="New tokens of a verify step."),
    click.option(
        "--logits", type=Word(LOGITS), default="last", show_default=True, help="Positions scored."
    ),
)
"""`batch`, `context`, `prompt`, `query_tokens`, `logits`; None where the workload decides."""
output_options: Decorator[Any] = _stack(
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Run directory to write instead of rooflens-runs/...",
    ),
    click.option("--force", is_flag=True, help="Replace the run directory if it exists."),
)
label_option = click.option(
    "--label", "labels", type=Label(), multiple=True, help="Kept in the run, e.g. commit=1a2b3c."
)
json_option = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


def format_options(*formats: str) -> Decorator[Any]:
    """`--format` with `text` first, and `--json`."""
    return _stack(
        click.option(
            "--format",
            "output_format",
            type=Word(formats),
            default=formats[0],
            show_default=True,
            help="What goes to standard output.",
        ),
        json_option,
    )


def chosen_format(output_format: str, as_json: bool) -> str:
    """The format that `--format` and `--json` ask for together."""
    return "json" if as_json else output_format


def known_gpu(name: str) -> Any:
    """Look up `--gpu`, with the option's name in the message. Raises UsageError."""
    from rooflens.reports.theory.gpus import gpu

    try:
        return gpu(name)
    except RooflensError as error:
        raise UsageError(f"--gpu: {error.message}", error.hint) from None
