"""`profile diff BASE HEAD`: what changed between two sides, and an exit code for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rooflens.errors import UsageError
from rooflens.harness.options import chosen_format, json_option, word_option

if TYPE_CHECKING:
    from rooflens.model import Run
    from rooflens.reports.compare.gate import Answer
    from rooflens.reports.compare.records import Comparison

FORMATS = ("text", "html", "markdown", "json", "junit", "github")
_SHARE_HELP = "e.g. 5%."


@click.command("diff")
@click.argument("base", metavar="BASE", type=click.Path(path_type=Path))
@click.argument("head", metavar="HEAD", type=click.Path(path_type=Path))
@click.option(
    "--base",
    "more_base",
    metavar="RUN",
    multiple=True,
    type=click.Path(path_type=Path),
    help="One more run of the base (repeatable).",
)
@click.option(
    "--head",
    "more_head",
    metavar="RUN",
    multiple=True,
    type=click.Path(path_type=Path),
    help="One more run of the head (repeatable).",
)
@click.option(
    "--fail-on",
    metavar="CONDITION",
    multiple=True,
    help="regression, any-change, launches, kernels, bytes>1%, op-bytes>1%, flops>0%, "
    "op-flops>0%, time>5%, finding:R03, finding:any, never. Repeatable, or a comma list.  "
    "[default: regression]",
)
@word_option("--format", FORMATS, "What to write.", default="text", show_default=True)
@json_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to write; standard output by default (changes.html for html).",
)
@click.option("--threshold", default="5%", show_default=True, metavar="SHARE",
              help=f"Difference of times that counts as a change, {_SHARE_HELP}")  # fmt: skip
@click.option("--alpha", default=0.05, show_default=True, type=click.FloatRange(0, 0.5, True, True),
              help="How often a change of time may be claimed where there is none.")  # fmt: skip
@click.option("--moved-tolerance", default="1%", show_default=True, metavar="SHARE",
              help=f"Difference of moved bytes that is counter noise, {_SHARE_HELP}")  # fmt: skip
@click.option(
    "--drop-reason",
    "drop_reasons",
    metavar="CLASS=TEXT",
    multiple=True,
    help="Why an operator class is gone, e.g. residual='fused into the norm kernel'.",
)
def command(
    base: Path,
    head: Path,
    more_base: tuple[Path, ...],
    more_head: tuple[Path, ...],
    fail_on: tuple[str, ...],
    format: str,
    as_json: bool,
    output: Path | None,
    threshold: str,
    alpha: float,
    moved_tolerance: str,
    drop_reasons: tuple[str, ...],
) -> int:
    """What changed between two runs, per operator; an exit code for CI.

    BASE and HEAD are run directories, or folders of several runs that are pooled. Exit code: 0
    passed, 1 a condition of --fail-on failed, 3 the runs must not be compared or cannot be judged.

    \b
    Examples:
      profile diff rooflens-runs/decode-b1-1 rooflens-runs/decode-b1-2
      profile diff base head --fail-on 'op-bytes>1%,launches' --format markdown -o comment.md
      profile diff base head --fail-on never --format html -o changes.html
    """
    from rooflens.harness.run_sets import read_runs, without_collector
    from rooflens.reports.compare import Options, compare
    from rooflens.reports.compare.gate import evaluate, exit_code, parse_conditions
    from rooflens.reports.compare.times import TimeRules

    conditions = parse_conditions(fail_on)
    options = Options(
        times=TimeRules(alpha=alpha, threshold=_share(threshold, "--threshold")),
        moved_tolerance=_share(moved_tolerance, "--moved-tolerance"),
        drop_reasons=_reasons(drop_reasons),
        base_name=base.name or "base",
        head_name=head.name or "head",
    )
    with without_collector():
        runs = read_runs([head, *more_head])
        base_runs = read_runs([base, *more_base])
        comparison = compare(base_runs, runs, options)
    answers = evaluate(comparison, conditions)
    chosen = chosen_format(format, as_json)
    text = _rendered(comparison, answers, chosen, (base_runs[0], runs[0]))
    if output is None and chosen == "html":
        output = Path("changes.html")
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
        click.echo(f"{comparison.verdict}: {comparison.sentence}")
        click.echo(f"Wrote {output}")
    return exit_code(answers)


def _rendered(
    comparison: Comparison, answers: tuple[Answer, ...], format: str, sides: tuple[Run, Run]
) -> str:
    if format == "html":
        from rooflens.reports.html import render_html
        from rooflens.reports.view import build_page

        return render_html(build_page(sides[1], sides[0], comparison))
    from rooflens.reports.compare.renderers import render

    return render(comparison, answers, format)


def write_whole(output: Path, text: str) -> None:
    """Write a file that is either complete or absent. Raises UsageError when it cannot be."""
    scratch = output.with_name(f".{output.name}.part")
    try:
        scratch.write_text(text, "utf-8")
        scratch.replace(output)
    except OSError as error:
        raise UsageError(
            f"Cannot write {output}: {error.strerror or error}.", "Use another -o."
        ) from None


def _share(text: str, option: str) -> float:
    cleaned = text.strip()
    try:
        value = float(cleaned.removesuffix("%")) / (100 if cleaned.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10:
        raise UsageError(f'{option}: "{text}" is not a share.', "E.g. 5% or 0.05.")
    return value


def _reasons(texts: tuple[str, ...]) -> dict[str, str]:
    from rooflens.errors import did_you_mean
    from rooflens.vocabulary import FUSED_CLASSES, OPERATOR_CLASSES

    known = (*OPERATOR_CLASSES, *FUSED_CLASSES)
    reasons = {}
    for text in texts:
        name, equals, why = (part.strip() for part in text.partition("="))
        if not equals or not why:
            raise UsageError(f'--drop-reason: "{text}" gives no reason.', "Write CLASS=TEXT.")
        if name not in known:
            raise UsageError(
                f'--drop-reason: no operator class "{name}".', did_you_mean(name, known)
            )
        reasons[name] = why
    return reasons
