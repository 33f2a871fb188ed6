"""The confusion matrix of the planted-defect suite: `python tests/defects/matrix.py [--write]`.

Rows are rules. "Other cases" are the runs planted for other rules: a rule that is found there too
is a true fact of that run (eager attention of a model also has unfused norms), listed by name so
that each can be judged.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "defects.md"

INTRODUCTION = """# Planted defects

`make defects` plants every defect of the catalogue in a real step (a two-layer Qwen2 on the CPU,
the full Qwen2.5-7B on meta, a Mixture-of-Experts layer, `generate()`) or in a table of real kernel
names, and asks all rules. Each rule has at least two planted cases and two healthy ones that look
alike; each planted case has its saving counted by hand in `tests/defects/`, and the rule must be
within 10 % of it.

| rule | planted | found | healthy | found there |
|---|--:|--:|--:|--:|
"""


ALWAYS = {"R04", "R11", "R12", "R13", "R14", "R18"}
"""True of nearly every step of transformers' own models."""

CONSEQUENCES: dict[str, set[str]] = {
    "R01": {"R03"}, "R02": {"R03"}, "R03": {"R01", "R20", "R22"}, "R04": {"R03", "R22"},
    "R05": {"R22"}, "R09": {"R08"}, "R14": {"R01", "R03"}, "R20": {"R09", "R26", "R29"},
    "R22": {"R03", "R20"},
    "R25": {"R24", "R32", "R33"}, "R26": {"R03", "R20", "R22"}, "R27": {"R03", "R22"},
    "R28": {"R03", "R22"}, "R29": {"R09", "R20"}, "R32": {"R17", "R22"}, "R33": {"R14"},
    "R34": {"R20"}, "R35": {"R20"}, "R39": {"R19", "R33"}, "R40": {"R19", "R39"},
}  # fmt: skip
"""What a planted defect rightly brings with it: eager attention expands K and V (R03), a padded or
chunked prefill takes a mask (R22) and expands, transformers reads the mask's sum back (R20), top-p
casts the logits (R09), a lost graph leaves gaps (R19). Anything else is a false positive."""


@cache
def outcomes() -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Per rule its counts on its own cases, and the rules found beside a planted one."""
    from rooflens.reports.findings.catalogue import RULES
    from rooflens.reports.findings.engine import find, find_differences
    from tests.defects.suite import CASES

    own: dict[str, Counter[str]] = {rule.number: Counter() for rule in RULES}
    beside: dict[str, Counter[str]] = defaultdict(Counter)
    for case in CASES:
        run = case.build()
        findings = find(run)
        if case.baseline is not None:
            findings = (*findings, *find_differences(case.baseline(), run))
        found = {item.rule[:3] for item in findings if item.outcome == "found"}
        kind = "planted" if case.planted else "healthy"
        own[case.rule][kind] += 1
        own[case.rule][f"{kind} found"] += case.rule in found
        if case.planted:
            beside[case.rule].update(found - {case.rule})
    return own, beside


def document() -> str:
    """The page docs/defects.md."""
    own, beside = outcomes()
    rows = "".join(
        f"| {rule} | {count['planted']} | {count['planted found']} | {count['healthy']} | "
        f"{count['healthy found']} |\n"
        for rule, count in own.items()
    )
    total: Counter[str] = sum(own.values(), Counter())
    rows += (
        f"| **all** | {total['planted']} | {total['planted found']} | {total['healthy']} | "
        f"{total['healthy found']} |\n"
    )
    listed = "".join(
        f"| {rule} | {', '.join(f'{name} ({count})' for name, count in sorted(found.items()))} |\n"
        for rule, found in sorted(beside.items())
        if found
    )
    return (
        f"{INTRODUCTION}{rows}\n## What else is found in the planted runs\n\n"
        "A planted run is a whole step of transformers' own model, so its other true facts are "
        "found as well: unfused norms, rotary embedding and activation (R11, R12, R13), separate "
        "projections (R18), and the cache that `DynamicCache` copies (R04).\n\n"
        "What each planted defect may bring with it is listed in `tests/defects/matrix.py`; "
        "anything else fails the suite.\n\n"
        f"| planted | also found (cases) |\n|---|---|\n{listed}\n"
        "## Clean baselines\n\n"
        "A hand-written fused decode (custom operators for norm, rotary embedding and activation, "
        "merged projections, a cache written in place) has no finding of any confidence. "
        "transformers' sdpa decode has R04, R11, R12, R13 and R18, its sdpa prefill R11, R12, R13 "
        "and R18, each with its hand-counted bytes (`tests/defects/test_clean.py`).\n"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    text = document()
    if "--write" in sys.argv:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(text, "utf-8")
    print(text, end="")
