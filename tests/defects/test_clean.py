"""Healthy steps stay silent; transformers' own sdpa steps show their true facts and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from rooflens.model import Finding, Run, Workload
from rooflens.reports.findings.engine import find
from rooflens.reports.findings.gap import step_gap
from rooflens.reports.theory.gpus import gpu
from tests.defects.attention_cases import big_decode, big_prefill, tiny_hand_written
from tests.defects.fused import fused_decode
from tests.defects.operator_cases import norm_bytes, rope_bytes
from tests.defects.operator_steps import big_fused, tiny_fused
from tests.defects.steps import seven_b_run, shape_of, tiny_run


def fused_with_index_copy() -> Run:
    """A batch of three whose cache is written by index_copy_."""
    ops = fused_decode(
        layers=2, hidden=64, ffn=160, heads=4, kv_heads=2, size=16, words=512, position=48, room=96,
        batch=3, write="index_copy",
    )  # fmt: skip
    return tiny_run(ops, shape_of(48, 1, 3))


def big_fused_batch() -> Run:
    ops = fused_decode(
        layers=28, hidden=3584, ffn=18944, heads=28, kv_heads=4, size=128, words=152064,
        position=2047, room=4096, batch=32, device="meta", write="index_copy",
    )  # fmt: skip
    return seven_b_run(ops, shape_of(2047, 1, 32))


def found(run: Run) -> dict[str, Finding]:
    return {item.rule[:3]: item for item in find(run) if item.outcome == "found"}


@pytest.mark.parametrize("build", [tiny_fused, fused_with_index_copy, big_fused, big_fused_batch])
def test_a_fused_decode_has_no_finding_of_any_confidence(build: Callable[[], Run]) -> None:
    run = build()
    assert found(run) == {}
    # The hand-written step asks for no more than theory's minimum (it even fuses norm and add).
    requested, minimum = run.totals.requested_bytes.value, run.totals.minimum_bytes.value
    assert requested is not None and minimum is not None
    assert requested <= minimum


MUST_BE_SILENT = {"R01", "R02", "R03", "R05", "R08", "R09", "R10", "R34", "R35"}

DECODE_FACTS = {
    "R04": 28 * 2 * 2 * 2047 * 4 * 128 * 2,
    "R11": norm_bytes(57, 1, 3584),
    "R12": rope_bytes(28, 1, 32, 128),
    "R13": 28 * 18944 * 4,
    "R18": 28 * 3 * 3584 * 2,
}
"""Decode of one token on 2047 cached. R14 is absent: a single token's transpose copies nothing."""

PREFILL_FACTS = {
    "R11": norm_bytes(57, 2048, 3584),
    "R12": rope_bytes(28, 2048, 32, 128),
    "R13": 28 * 2048 * 18944 * 4,
    "R18": 28 * 3 * 2048 * 3584 * 2,
}
"""Prefill of 2048. R04 is absent: the first write copies no cached token. R14 is absent: the fused
call returns its result in the layout that o_proj reads."""


@pytest.mark.parametrize(
    ("build", "facts"),
    [
        pytest.param(big_decode, DECODE_FACTS, id="decode"),
        pytest.param(big_prefill, PREFILL_FACTS, id="prefill"),
    ],
)
def test_sdpa_steps_show_their_true_facts_and_no_others(
    build: Callable[[], Run], facts: dict[str, int]
) -> None:
    item = found(build())
    assert item.keys() == facts.keys()
    assert not item.keys() & MUST_BE_SILENT
    for rule, expected in facts.items():
        assert item[rule].saving_bytes.value == pytest.approx(expected, rel=0.01), rule


def test_a_transposed_result_is_found_where_it_is_copied() -> None:
    """Eager prefill: 28 copies of the attention result (2048 x 3584 in bf16), read and written."""
    assert found(big_prefill("eager"))["R14"].saving_bytes.value == 28 * 2048 * 3584 * 2 * 2


@pytest.mark.parametrize("build", [big_decode, partial(big_decode, "eager"), big_prefill])
def test_savings_never_exceed_the_gap(build: Callable[[], Run]) -> None:
    run = build()
    requested, compulsory = run.totals.requested_bytes.value, run.totals.compulsory_bytes.value
    assert requested is not None and compulsory is not None
    total = sum(item.saving_bytes.value or 0 for item in found(run).values())
    assert 0 < total <= requested - compulsory


def test_decode_of_one_sequence() -> None:
    """Eager: R03 with its consumers, R04; sdpa: R04 and not R03; 1.136 times the minimum."""
    run = big_decode("eager")
    eager = found(run)
    assert eager["R03"].saving_bytes.value == 939_524_096
    assert eager["R03"].consumer_bytes.value == 704_643_072
    assert "R04" in eager
    assert "1.136×" in step_gap(run).part("software amplification").sentence
    sdpa = found(big_decode())
    assert "R04" in sdpa
    assert "R03" not in sdpa


def test_decode_of_32_sequences_is_mostly_repeat_kv() -> None:
    run = big_decode("eager", 32)
    first = find(run)[0]
    assert first.rule == "R03-repeat-kv-expand"
    # 56 copies: 32 sequences x 2048 keys x 512 elements of 2 bytes, read once and written 7 times.
    assert first.saving_bytes.value == 56 * 32 * 2048 * 512 * 2 * 8
    requested = run.totals.requested_bytes.value
    assert requested is not None
    assert first.saving_bytes.value / requested == pytest.approx(0.374, abs=0.0005)
    assert "37 % of the step's requested bytes" in " ".join(first.evidence)
    assert "4.40×" in step_gap(run).part("software amplification").sentence


def test_prefill_is_mostly_scores() -> None:
    run = big_prefill("eager")
    first = find(run)[0]
    assert first.rule == "R01-unfused-scores"
    assert "_softmax" in first.evidence[0]
    assert "4.50×" in step_gap(run).part("software amplification").sentence
    # RTX 4090, 1.008 TB/s: all of the bytes at the high end; the mask (8 MB) fits into its L2.
    assert first.saving_ns is not None
    assert first.saving_bytes.value is not None
    assert first.saving_ns.high == pytest.approx(first.saving_bytes.value / 1.008e12 * 1e9)
    assert 0.99 * first.saving_ns.high < first.saving_ns.low < first.saving_ns.high


@pytest.mark.parametrize("name", ["h100-sxm", "h200"])
def test_savings_follow_the_roof(name: str) -> None:
    roof = gpu(name).roof("bfloat16")
    run = msgspec.structs.replace(big_decode("eager"), roofs=(roof,))
    saving = found(run)["R03"].saving_ns
    assert saving is not None
    assert saving.high == pytest.approx(939_524_096 / roof.bandwidth_bytes_per_s * 1e9)
    # Each copy reads 2.1 MB and writes 14.7 MB: nothing larger than an L2 of 50 MB.
    assert saving.low == 0


def test_options_are_never_read() -> None:
    """The same ops under any workload record give the same findings."""
    run = tiny_hand_written()
    blank = msgspec.structs.replace(
        run, workload=Workload(name="", attention="sdpa"), command=(), labels={"a": "b"}
    )
    assert find(run) == find(blank)
    assert "R01" in found(blank)
