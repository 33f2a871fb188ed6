"""Every rule is complete: statements, remedy, evidence, docs, thresholds with an origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rooflens.harness.commands.explain import command
from rooflens.reports.findings import thresholds
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.explain import catalogue_page
from rooflens.reports.findings.rule import Rule
from rooflens.reports.findings.thresholds import Threshold

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "reports" / "findings"


def test_the_catalogue_is_R01_to_R40_in_order_without_a_gap() -> None:
    assert [rule.number for rule in RULES] == [f"R{number:02}" for number in range(1, 41)]
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_says_everything_that_a_reader_needs(rule: Rule) -> None:
    assert re.fullmatch(r"R\d\d(-[a-z0-9]+)+", rule.id)
    for text in (rule.looks_for, rule.clear, rule.why, rule.remedy, rule.example, rule.fixed_in):
        assert len(text) > 9, rule.id
    assert rule.looks_for != rule.clear
    assert rule.needs


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_is_one_file_named_after_it(rule: Rule) -> None:
    assert (FOLDER / f"{rule.number.lower()}_{rule.slug.replace('-', '_')}.py").is_file()


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("r[0-9][0-9]_*.py")), ids=lambda path: path.stem
)
def test_no_rule_reads_options_or_has_a_limit_of_its_own(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\.workload|\.command|\.labels|Run\b", text)
    # A comparison with a bare number would be a threshold that thresholds.py does not know; up to
    # 4 it is the rank of a shape.
    assert not re.search(r"[<>]=? *(?:[5-9]|\d{2,}|0\.\d+)", text), path.name


def test_every_threshold_has_an_origin_and_a_user() -> None:
    known = {
        name: value for name, value in vars(thresholds).items() if isinstance(value, Threshold)
    }
    used = " ".join(path.read_text("utf-8") for path in FOLDER.glob("r*.py"))
    for name, limit in known.items():
        assert limit.meaning and limit.origin, name
        assert name in used, f"{name} is used by no rule"


def test_the_page_of_rules_is_up_to_date() -> None:
    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert page == catalogue_page(RULES), "run python -m rooflens.reports.findings.explain"


@pytest.mark.parametrize("name", ["R03", "r03", "repeat-kv-expand", "R03-repeat-kv-expand"])
def test_explain_finds_a_rule_by_number_and_name(name: str) -> None:
    answer = CliRunner().invoke(command, [name])
    assert answer.exit_code == 0
    assert answer.output.startswith("R03-repeat-kv-expand\n")
    for word in ("Looks for", "Why it matters", "What to do", "Example"):
        assert f"\n{word}\n" in answer.output


def test_explain_without_a_rule_lists_all() -> None:
    lines = CliRunner().invoke(command).output.splitlines()
    assert [line.split()[0] for line in lines] == [rule.id for rule in RULES]


def test_explain_suggests_the_nearest_rule() -> None:
    answer = CliRunner().invoke(command, ["repeat-kv"])
    assert answer.exception is not None
    assert 'Did you mean "repeat-kv-expand"?' in str(answer.exception)
