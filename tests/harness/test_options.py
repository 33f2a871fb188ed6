"""Every option answers a mistake in one line and takes counts as people type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from rooflens.errors import UsageError
from rooflens.harness import options as opt


def parse(option: Any, *arguments: str) -> dict[str, Any]:
    """Parse arguments with a command that has this one option."""
    found: dict[str, Any] = {}

    def collect(**values: Any) -> None:
        found.update(values)

    command = click.command()(option(collect))
    command.main(list(arguments), standalone_mode=False)
    return found


@pytest.mark.parametrize(
    ("text", "tokens"), [("2047", 2047), ("8k", 8192), ("1m", 1 << 20), ("0", 0), ("32_768", 32768)]
)
def test_token_counts(text: str, tokens: int) -> None:
    assert parse(opt.context_option, "--context", text) == {"context": tokens}


@pytest.mark.parametrize(
    ("option", "arguments", "message"),
    [
        (opt.context_option, ("--context", "-1"), "--context -1: it must be 0 or more."),
        (opt.batch_option, ("--batch", "0"), "--batch 0: it must be 1 or more."),
        (opt.batch_option, ("--batch", "many"), '--batch: "many" is not a token count.'),
        (opt.attention_option, ("--attention", "eagr"), 'Did you mean "eager"?'),
        (opt.dtype_option, ("--dtype", "bf8"), '--dtype: unknown value "bf8".'),
        (opt.label_option, ("--label", "commit"), '--label: "commit" is not KEY=VALUE.'),
    ],
)
def test_mistakes_are_answered_in_one_line(
    option: Any, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse(option, *arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_defaults_of_shared_options() -> None:
    assert parse(opt.batch_option) == {"batch": 1}
    assert parse(opt.context_option) == {"context": None}
    assert parse(opt.attention_option) == {"attention": "sdpa"}
    assert parse(opt.logits_option) == {"logits": "last"}
    assert parse(opt.dtype_option) == {"dtype": None}


@pytest.mark.parametrize("text", ["bf16", "BF16", "bfloat16"])
def test_dtype_aliases(text: str) -> None:
    assert parse(opt.dtype_option, "--dtype", text) == {"dtype": "bfloat16"}


def layers_option() -> Any:
    return click.option("--layers", default="auto", callback=opt.layers)


@pytest.mark.parametrize("text", ["auto", "ALL", "1", "28"])
def test_layers(text: str) -> None:
    assert parse(layers_option(), "--layers", text) == {"layers": text.lower()}


@pytest.mark.parametrize("text", ["0", "-1", "some", "1.5", "²"])
def test_impossible_layers(text: str) -> None:
    with pytest.raises(UsageError, match="--layers"):
        parse(layers_option(), "--layers", text)


def evidence_option() -> Any:
    return click.option("--evidence", default="auto", callback=opt.evidence)


def test_evidence_is_a_list_in_its_own_order() -> None:
    assert parse(evidence_option()) == {"evidence": ()}
    given = parse(evidence_option(), "--evidence", "counters, theory")
    assert given == {"evidence": ("theory", "counters")}
    with pytest.raises(UsageError, match='Did you mean "timeline"'):
        parse(evidence_option(), "--evidence", "timelin")


def test_labels_are_pairs_and_the_last_of_a_key_wins() -> None:
    given = parse(opt.label_option, "--label", "a=1", "--label", "b=x=y", "--label", "a=2")
    assert given == {"labels": {"a": "2", "b": "x=y"}}


def test_json_is_short_for_format_json() -> None:
    assert opt.chosen_format("text", True) == "json"
    assert opt.chosen_format("markdown", False) == "markdown"


def test_a_recorded_command_names_neither_home_nor_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "lustre" / "alice", tmp_path / "work"
    home.mkdir(parents=True)
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    words = ["--model", f"{home}/m", f"--weights={home}", f"{here}/out", f"{home}2/m", "1,2"]
    assert opt.recorded_command(words) == (
        "--model", "~/m", "--weights=~", "./out", f"{home}2/m", "1,2",
    )  # fmt: skip


@pytest.mark.parametrize("home", ["/", ""])
def test_a_home_that_is_no_folder_of_a_person_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    assert opt.recorded_command(["-o", "/data/x"]) == ("-o", "/data/x")
