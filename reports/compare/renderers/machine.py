"""A comparison for programs: JSON, JUnit XML (GitLab, Jenkins), and GitHub's annotations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import msgspec

from rooflens.reports.compare.deltas import METRIC_NAMES, change_text
from rooflens.reports.compare.gate import Answer
from rooflens.reports.compare.records import Comparison, Delta, OperatorChange, Verdict
from rooflens.reports.view.cells import clean

MAX_ANNOTATIONS = 10
"""GitHub shows ten of each kind for a step."""
MAX_MESSAGE = 1000
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_json(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """The whole comparison as JSON, with the gate's answers under `gate`."""
    data = msgspec.to_builtins(comparison)
    data["gate"] = msgspec.to_builtins(tuple(answers))
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode() + "\n"


def render_junit(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """JUnit XML: a test case for every condition, and for every operator class that changed.

    A class fails only where a condition does, so that a report-only run stays green.
    """
    suite = ElementTree.Element("testsuite", name=_xml(f"rooflens diff: {comparison.workload}"))
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="verdict", value=comparison.verdict)
    failed = any(answer.outcome == "failed" for answer in answers)
    counts = {"failure": 0, "skipped": 0, "error": 0}
    for answer in answers:
        case = _case(suite, "rooflens.gate", answer.condition)
        if answer.outcome == "failed":
            _child(case, "failure", answer.message, counts)
        elif answer.outcome == "cannot judge":
            _child(case, "error", answer.message, counts)
    for change in comparison.operators:
        case = _case(suite, "rooflens.operators", change.op_class)
        text = "\n".join([*(_named(item) for item in change.deltas), *_ops(change)])
        if change.verdict in (Verdict.REGRESSED, Verdict.NEW) and failed:
            _child(case, "failure", text, counts)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(text)
    time = _case(suite, "rooflens.times", "step time")
    if comparison.time.verdict is Verdict.REGRESSED and failed:
        _child(time, "failure", comparison.time.reason, counts)
    elif comparison.time.verdict in (Verdict.CANNOT_JUDGE, Verdict.NOT_COMPARABLE):
        _child(time, "skipped", comparison.time.reason, counts)
    suite.set("tests", str(len(suite) - 1))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=classname, name=_xml(name), time="0")


def _child(case: ElementTree.Element, tag: str, message: str, counts: dict[str, int]) -> None:
    child = ElementTree.SubElement(case, tag, message=_xml(message[:MAX_MESSAGE]))
    if tag != "skipped":
        child.text = _xml(message)
    counts[tag] += 1


def _xml(text: str) -> str:
    """Leave out what XML 1.0 cannot hold, even escaped."""
    return _NOT_XML.sub("\ufffd", text)


def _ops(change: OperatorChange) -> list[str]:
    return [change.ops] if change.ops else []


def _named(item: Delta) -> str:
    return f"{METRIC_NAMES[item.metric]}: {change_text(item)}"


def render_annotations(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """Workflow commands that GitHub shows on a pull request's checks."""
    level = {
        Verdict.REGRESSED: "error",
        Verdict.CANNOT_JUDGE: "warning",
        Verdict.NOT_COMPARABLE: "warning",
    }.get(comparison.verdict, "notice")
    lines = [_command(level, f"Rooflens: {comparison.verdict}", comparison.sentence)]
    errors = [answer for answer in answers if answer.outcome != "passed"]
    lines += [
        _command("error", f"Rooflens: {answer.condition} {answer.outcome}", answer.message)
        for answer in errors[: MAX_ANNOTATIONS - 1]
    ]
    told = [
        _command(
            "warning",
            f"Rooflens: {change.op_class} {change.verdict}",
            ". ".join([*(_named(item) for item in change.deltas), *_ops(change)]),
        )
        for change in comparison.operators
        if change.verdict in (Verdict.REGRESSED, Verdict.NEW)
    ]
    told += [
        _command("warning", f"Rooflens: {pattern.id}", pattern.sentence)
        for pattern in comparison.patterns
    ]
    return "\n".join(lines + told[: MAX_ANNOTATIONS - 1]) + "\n"


def render_answers(answers: Sequence[Answer]) -> str:
    """The answers of a budget as workflow commands; what passed is left out."""
    lines = [
        _command(
            "error" if answer.outcome == "failed" else "warning",
            f"Rooflens: {answer.condition} {answer.outcome}",
            answer.message,
        )
        for answer in answers
        if answer.outcome != "passed"
    ]
    return "".join(line + "\n" for line in lines[:MAX_ANNOTATIONS])


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(clean(title, 200))}::{_data(clean(message, MAX_MESSAGE))}"


def _data(text: str) -> str:
    """Escape a message: percent first, then line ends (GitHub's own order)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property value, in which `:` and `,` end the value."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
