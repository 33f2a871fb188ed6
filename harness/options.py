"""The options that several commands share: one spelling, one meaning, one help line each.

Values are checked in callbacks that raise UsageError, so that a mistake is answered in one line.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from rooflens.architectures import DEFAULT_MODEL
from rooflens.errors import UsageError, did_you_mean
from rooflens.units import DTYPE_ALIASES, parse_token_count
from rooflens.vocabulary import EVIDENCE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]
Callback = Callable[[click.Context, click.Parameter, Any], Any]

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
DEVICES = ("auto", "cuda", "cpu", "meta")
DTYPES = ("bfloat16", "float16", "float32")
LOGITS = ("last", "all")


def recorded_command(words: Iterable[str]) -> tuple[str, ...]:
    """The command line as a run keeps it: `~` for this home and `.` for this directory.

    A home need not be below /home, so patterns alone cannot find it in a page that is shared.
    """
    private: dict[str, str] = {}
    with contextlib.suppress(RuntimeError):  # nobody's home
        home = Path.home()
        private |= {str(home): "~", str(home.resolve()): "~"}
    with contextlib.suppress(FileNotFoundError):  # the directory we are in was removed
        private |= {str(Path.cwd()): "."}
    kept = []
    for word in words:
        for path in sorted((p for p in private if len(p) > 1), key=len, reverse=True):
            word = re.sub(rf"{re.escape(path)}(?=$|[/:,])", private[path], word)
        kept.append(word)
    return tuple(kept)


def count(minimum: int) -> Callback:
    """A whole number as people type it (`2048`, `8k`), not below `minimum`; None stays None."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        option = param.opts[0]
        negative = value.startswith("-") and value[1:].isdigit()
        number = int(value) if negative else parse_token_count(value, option)
        if number < minimum:
            raise UsageError(f"{option} {number}: it must be {minimum} or more.")
        return number

    return check


def word(words: tuple[str, ...], aliases: dict[str, str] | None = None) -> Callback:
    """One of a few words, in any case; a near miss is answered with a suggestion."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is None:
            return None
        lowered = value.lower()
        found = (aliases or {}).get(lowered, lowered)
        if found not in words:
            hint = did_you_mean(found, words)
            raise UsageError(f'{param.opts[0]}: unknown value "{value}".', hint)
        return found

    return check


def layers(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """`all`, `auto` or a number of layers, as text."""
    lowered = value.lower()
    if lowered in ("all", "auto"):
        return lowered
    if lowered.isascii() and lowered.isdigit() and int(lowered) >= 1:
        return lowered
    raise UsageError(f'--layers: "{value}" is neither a number from 1 nor all or auto.')


def evidence(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """A comma list of evidence levels in their own order; `auto` is empty."""
    words = [piece.strip().lower() for piece in value.split(",") if piece.strip()]
    if words == ["auto"]:
        return ()
    for level in words:
        if level not in EVIDENCE:
            hint = did_you_mean(level, (*EVIDENCE, "auto"))
            raise UsageError(f'--evidence: unknown level "{level}".', hint)
    return tuple(level for level in EVIDENCE if level in words)


def labels(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` pairs."""
    pairs = {}
    for text in value:
        key, equals, content = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f'--label: "{text}" is not KEY=VALUE.', "E.g. --label commit=1a2b3c.")
        pairs[key.strip()] = content
    return pairs


def _stack(*decorators: Decorator[Any]) -> Decorator[Any]:
    """One decorator out of several; `--help` shows them in the order given."""

    def apply(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def word_option(name: str, words: tuple[str, ...], help: str, **more: Any) -> Decorator[Any]:
    """An option that takes one of a few words."""
    metavar = more.pop("metavar", "|".join(words))
    callback = word(words, more.pop("aliases", None))
    return click.option(name, metavar=metavar, callback=callback, help=help, **more)


def count_option(name: str, minimum: int, help: str, **more: Any) -> Decorator[Any]:
    """An option that takes a count such as `2048` or `8k`."""
    return click.option(name, metavar="N", callback=count(minimum), help=help, **more)


model_option = click.option(
    "--model",
    default=DEFAULT_MODEL,
    show_default=True,
    help="A shipped model (see `profile list`), a Hugging Face directory or a config.json.",
)
gpu_option = click.option("--gpu", help="Whose roof to use, e.g. rtx4090 (see `profile list`).")
dtype_option = word_option(
    "--dtype", DTYPES, "Instead of the model's own, e.g. bf16.", aliases=DTYPE_ALIASES
)
attention_option = word_option(
    "--attention", ATTENTIONS, "Attention implementation.", default="sdpa", show_default=True
)
logits_option = word_option(
    "--logits", LOGITS, "Positions that are scored.", default="last", show_default=True
)
batch_option = count_option("--batch", 1, "Sequences.", default="1", show_default=True)
context_option = count_option("--context", 0, "Tokens already in the KV cache, e.g. 8k.")
prompt_option = count_option("--prompt", 1, "New tokens of a prefill.")
query_tokens_option = count_option("--query-tokens", 1, "New tokens of a verify step.")
output_option = click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Run directory to write, instead of rooflens-runs/...",
)
force_option = click.option("--force", is_flag=True, help="Replace the run directory.")
label_option = click.option(
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    callback=labels,
    help="Kept in the run, e.g. commit=1a2b3c.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


def format_options(*formats: str) -> Decorator[Any]:
    """`--format` (its first word is the default) and `--json`."""
    return _stack(
        word_option(
            "--format",
            formats,
            "What goes to standard output.",
            default=formats[0],
            show_default=True,
        ),
        json_option,
    )


def chosen_format(format: str, as_json: bool) -> str:
    """The format that `--format` and `--json` ask for together."""
    return "json" if as_json else format
