"""Every planted defect is found by its rule at its price; its healthy counterpart is not."""

from __future__ import annotations

import pytest

from rooflens.model import Finding
from rooflens.reports.findings.catalogue import RULES
from rooflens.reports.findings.engine import find, find_differences
from rooflens.reports.findings.rule import Rule
from tests.defects import case_studies
from tests.defects.case import Case
from tests.defects.matrix import ALWAYS, CONSEQUENCES, DOCUMENT, document, outcomes
from tests.defects.suite import CASES

BY_NUMBER = {rule.number: rule for rule in RULES}


def answer(case: Case) -> Finding:
    """The finding of the case's rule alone, so that no other rule shares its saving."""
    rule: Rule = BY_NUMBER[case.rule]
    run = case.build()
    if case.baseline is not None:
        return find_differences(case.baseline(), run, [rule])[0]
    return find(run, [rule])[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.name}")
def test_case(case: Case) -> None:
    found = answer(case)
    if not case.planted:
        assert found.outcome == "clear", found
        return
    assert found.outcome == "found", found.confidence_reason
    assert found.evidence and found.remedy and found.why
    assert found.confidence is not None and found.confidence_reason
    if case.saving is None:
        assert found.saving_bytes.value is None
        assert found.saving_bytes.absent
    else:
        assert found.saving_bytes.value == pytest.approx(case.saving, rel=0.1)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_every_rule_has_two_cases_of_each_kind(rule: Rule) -> None:
    mine = [case for case in CASES if case.rule == rule.number]
    assert sum(case.planted for case in mine) >= 2
    assert sum(not case.planted for case in mine) >= 2


def test_no_rule_speaks_where_it_should_be_silent() -> None:
    own, beside = outcomes()
    for rule, counts in own.items():
        assert counts["planted found"] == counts["planted"], rule
        assert counts["healthy found"] == 0, rule
    for rule, found in beside.items():
        assert found.keys() <= ALWAYS | CONSEQUENCES.get(rule, set()), rule


def test_the_document_holds_the_matrix_of_todays_rules() -> None:
    assert DOCUMENT.read_text("utf-8") == document(), "python tests/defects/matrix.py --write"


def test_the_case_studies_say_what_the_report_says() -> None:
    text = case_studies.document()
    assert case_studies.DOCUMENT.read_text("utf-8") == text, "case_studies.py --write"
    assert text.count("**REGRESSED**") == 3
    for cleared in ("R08 clear, R09 clear", "R31 clear", "R03 clear, R01 clear"):
        assert f"After the fix: {cleared}." in text
