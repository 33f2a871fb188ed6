"""The rules, in order. A new rule is one file and one line here.

The order decides who gets a saving that two rules claim: the first.
"""

from __future__ import annotations

from rooflens.reports.findings import (
    r01_unfused_scores,
    r03_repeat_kv_expand,
    r04_kv_append_copies_cache,
    r08_all_position_logits,
    r09_logits_upcast,
    r34_no_kv_cache,
)
from rooflens.reports.findings.rule import Rule

RULES: tuple[Rule, ...] = (
    r01_unfused_scores.RULE,
    r03_repeat_kv_expand.RULE,
    r04_kv_append_copies_cache.RULE,
    r08_all_position_logits.RULE,
    r09_logits_upcast.RULE,
    r34_no_kv_cache.RULE,
)
