"""Writes docs/case-studies.md: `python tests/defects/case_studies.py --write`.

Three public regressions, reproduced on the two-layer Qwen2 of the suite. Every number and every
verdict on the page is what the rules and the comparison say today.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rooflens.model import Finding, Run

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "case-studies.md"


@dataclass(frozen=True)
class Study:
    """A slow step, the healthy one, and the story around them."""

    title: str
    story: str
    slow: Callable[[], Run]
    healthy: Callable[[], Run]
    rules: tuple[str, ...]
    lesson: str


def studies() -> tuple[Study, ...]:
    """The cases; built here so that the page can be imported without torch."""
    from tests.defects.attention_cases import tiny_decode, tiny_mask_rebuilt
    from tests.defects.operator_steps import tiny_then
    from tests.defects.steps import tiny_step

    return (
        Study(
            "Logits for every prompt position, in fp32",
            "transformers#31292 and #33902: a prefill computed the logits of all positions and "
            "cast them to fp32. Llama-3 8B needed 3.62 times less memory without, and another "
            "report fell from 18.5 to 10.6 GiB at the peak.\n\n"
            "*Here:* a prompt of 48 tokens, `model(ids).logits.float()`, against "
            "`model(ids, logits_to_keep=1).logits`.",
            lambda: tiny_then("float", 0, 48, 0),
            lambda: tiny_step(0, 48, use_cache=False, cache=None),
            ("R08", "R09"),
            "The two findings do not overlap: R08 is the product's rows, R09 the copy of its "
            "result. In the 7B with 2048 tokens the same defect asks for 637.2 MB and 2.231 TFLOP "
            "(R08) and 1.869 GB (R09).",
        ),
        Study(
            "A causal mask over all positions in every step",
            "transformers#29412: between 4.34 and 4.38 a decode went from 370 to 990 ms a token on "
            "a CPU, because each step built a mask over the longest possible text.\n\n"
            "*Here:* a decode on 48 cached tokens that builds "
            "`torch.full((512, 512), -inf).triu(1)` first.",
            tiny_mask_rebuilt,
            tiny_decode,
            ("R31",),
            "Neither the model's weights nor its attention changed, and the step asks for several "
            "times its bytes: a gate on requested bytes sees it without any timing.",
        ),
        Study(
            "Keys and values copied for each query head",
            "transformers#36218, sglang-omni#1145 and others: grouped-query attention that was no "
            "faster than full attention, because `repeat_kv` copies K and V to all query heads. "
            "sdpa in transformers 5.24 passes `enable_gqa` instead.\n\n"
            "*Here:* a decode on 48 cached tokens, eager against sdpa.",
            lambda: tiny_step(48, 1, attention="eager"),
            tiny_decode,
            ("R03", "R01"),
            "In the 7B at batch 32 and 2048 keys the copies are 37 % of the step's requested bytes "
            "(30.06 GB), and attention reads 22.55 GB more than it would from the originals.",
        ),
    )


def document() -> str:
    """The whole page."""
    head = (
        "# Case studies\n\nThree public regressions on a two-layer Qwen2 that runs on a CPU, with "
        "what Rooflens says about each. The page is written by "
        "`python tests/defects/case_studies.py --write` and a test keeps it true.\n"
    )
    return head + "".join(
        f"\n## {number}. {_section(study)}" for number, study in enumerate(studies(), 1)
    )


def _section(study: Study) -> str:
    from rooflens.reports.compare import compare
    from rooflens.reports.format import bytes_text

    slow, healthy = _with_findings(study.slow()), _with_findings(study.healthy())
    found = {item.rule[:3]: item for item in slow.findings if item.outcome == "found"}
    after = {item.rule[:3]: item for item in healthy.findings}
    comparison = compare([healthy], [slow])
    lines = [f"{study.title}\n\n{study.story}\n"]
    for rule in study.rules:
        lines.append(_card(found[rule]))
    requested = [run.totals.requested_bytes.value or 0 for run in (healthy, slow)]
    lines.append(
        f"**Before and after.** The healthy step asks for {bytes_text(requested[0])}, the slow one "
        f"for {bytes_text(requested[1])}. `profile diff` of healthy against slow: "
        f"**{comparison.verdict}**, \u201c{comparison.sentence}\u201d\n"
    )
    cleared = ", ".join(f"{rule} {after[rule].outcome}" for rule in study.rules)
    lines.append(f"After the fix: {cleared}.\n")
    lines.append(f"{study.lesson}\n")
    return "\n".join(lines)


def _with_findings(run: Run) -> Run:
    from rooflens.reports.findings.engine import find

    return msgspec.structs.replace(run, findings=find(run))


def _card(finding: Finding) -> str:
    from rooflens.reports.format import bytes_text

    evidence = "".join(f"> - {line}\n" for line in finding.evidence)
    remedy = re.sub(r":\d+ in ", " in ", finding.remedy)  # lines move with every edit
    return (
        f"> **{finding.rule}** ({finding.confidence} confidence): {finding.title}. "
        f"Saves {bytes_text(finding.saving_bytes.value or 0)} of requested bytes.\n"
        f">\n{evidence}>\n> *What to do:* {remedy}.\n"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    text = document()
    if "--write" in sys.argv:
        DOCUMENT.write_text(text, "utf-8")
    print(text, end="")
