"""Statistics against brute force and published tables."""

from __future__ import annotations

import itertools
import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflens.reports import stats

SAMPLES = st.lists(st.integers(1, 12).map(float), min_size=1, max_size=5)


def brute_rank_sum_p(base: list[float], head: list[float]) -> float:
    """Two-sided p by writing down every way to split the pooled sample."""
    pooled = base + head
    ranks = stats.midranks(pooled)
    observed = sum(ranks[: len(base)])
    sums = [
        sum(ranks[index] for index in chosen)
        for chosen in itertools.combinations(range(len(pooled)), len(base))
    ]
    low = sum(total <= observed + 1e-9 for total in sums)
    high = sum(total >= observed - 1e-9 for total in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


def brute_signed_rank_p(differences: list[float]) -> float:
    kept = [value for value in differences if value]
    ranks = stats.midranks([abs(value) for value in kept])
    observed = sum(rank for rank, value in zip(ranks, kept, strict=True) if value > 0)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((False, True), repeat=len(kept))
    ]
    low = sum(total <= observed + 1e-9 for total in sums)
    high = sum(total >= observed - 1e-9 for total in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


@given(SAMPLES, SAMPLES)
def test_rank_sum_is_the_permutation_test_also_with_ties(
    base: list[float], head: list[float]
) -> None:
    assert stats.rank_sum_p(base, head) == pytest.approx(brute_rank_sum_p(base, head))


@given(st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=8))
def test_signed_rank_is_the_sign_flip_test(differences: list[float]) -> None:
    if not any(differences):
        assert stats.signed_rank_p(differences) == 1.0
        return
    assert stats.signed_rank_p(differences) == pytest.approx(brute_signed_rank_p(differences))


@given(SAMPLES, SAMPLES)
def test_swapping_the_samples_keeps_p(base: list[float], head: list[float]) -> None:
    assert stats.rank_sum_p(base, head) == pytest.approx(stats.rank_sum_p(head, base))


def test_the_smallest_p_needs_four_a_side() -> None:
    assert stats.smallest_rank_sum_p(3, 3) == pytest.approx(0.1)
    assert stats.smallest_rank_sum_p(4, 4) == pytest.approx(2 / 70)
    assert stats.rank_sum_p([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert stats.smallest_rank_sum_p(0, 4) == 1.0
    assert stats.smallest_signed_rank_p(5) > 0.05 > stats.smallest_signed_rank_p(6)


def test_nothing_to_compare_has_p_one() -> None:
    assert stats.rank_sum_p([], [1.0]) == 1.0
    assert stats.rank_sum_p([3.0] * 40, [3.0] * 40) == 1.0


@pytest.mark.parametrize(("size", "critical"), [(5, 2), (8, 13), (10, 23), (15, 64), (20, 127)])
def test_rank_sum_quantiles_agree_with_the_published_table(size: int, critical: int) -> None:
    """Critical values of U, alpha 0.05 two-sided (Milton 1964)."""
    assert stats._rank_sum_quantile(size, size, 0.05) == critical


@pytest.mark.parametrize(("pairs", "critical"), [(6, 0), (8, 3), (10, 8), (15, 25), (20, 52)])
def test_signed_rank_quantiles_agree_with_the_published_table(pairs: int, critical: int) -> None:
    """Critical values of W, alpha 0.05 two-sided (Wilcoxon and Wilcox 1964)."""
    assert stats._signed_rank_quantile(pairs, 0.05) == critical


def test_large_samples_agree_with_the_exact_distribution() -> None:
    numbers = random.Random(1)
    base = [numbers.gauss(0, 1) for _ in range(30)]
    head = [numbers.gauss(0.5, 1) for _ in range(30)]
    ranks = stats.midranks(base + head)
    assert stats.rank_sum_p(base, head) == pytest.approx(
        stats._normal_rank_sum_p(ranks, 30), abs=0.003
    )
    assert stats.rank_sum_p([1.0, 2.0] * 40, [2.0, 3.0] * 40) < 1e-9


@pytest.mark.parametrize(
    ("t", "freedom"), [(12.706, 1), (4.303, 2), (3.182, 3), (2.228, 10), (2.110, 17), (1.984, 100)]
)
def test_student_t_agrees_with_the_published_table(t: float, freedom: int) -> None:
    assert stats.student_t_p(t, freedom) == pytest.approx(0.05, abs=1e-4)


def test_an_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    numbers = random.Random(7)
    held = 0
    for _ in range(400):
        base = [math.exp(numbers.gauss(0, 0.05)) for _ in range(8)]
        head = [1.1 * math.exp(numbers.gauss(0, 0.05)) for _ in range(8)]
        found = stats.shift_interval(base, head, 0.05)
        held += found.low <= 0.1 <= found.high
    # Exact coverage is 95 % or a little more; four binomial standard errors below and above.
    assert 0.91 <= held / 400 <= 1.0


def test_the_interval_is_made_of_ratios() -> None:
    found = stats.shift_interval([1, 2, 4, 8], [2, 4, 8, 16], 0.05)
    assert found.estimate == pytest.approx(1.0)
    assert found.low == pytest.approx(2 / 8 - 1)
    assert found.high == pytest.approx(15)
    paired = stats.paired_interval([math.log(1.1)] * 8, 0.05)
    assert paired.low == pytest.approx(0.1) == pytest.approx(paired.high)


def test_thinning_a_large_sample_keeps_the_interval() -> None:
    numbers = random.Random(3)
    base = [numbers.lognormvariate(0, 0.1) for _ in range(6000)]
    head = [1.03 * numbers.lognormvariate(0, 0.1) for _ in range(6000)]
    found = stats.shift_interval(base, head, 0.05)
    assert found.estimate == pytest.approx(0.03, abs=0.006)
    assert 0.002 < found.half_width < 0.006


def test_a_drift_is_told_from_a_step() -> None:
    drifting = [1000 * (1 + 0.01 * step) for step in range(20)]
    step, p = stats.drift_adjusted_p(drifting[:10], drifting[10:])
    assert p > 0.05 or step <= 0.01
    jumped = [value * (1.2 if index >= 10 else 1) for index, value in enumerate(drifting)]
    step, p = stats.drift_adjusted_p(jumped[:10], jumped[10:])
    assert step == pytest.approx(math.log(1.2), rel=0.2)
    assert p < 0.001
    assert stats.drift_adjusted_p([1.0], [2.0]) == (0.0, 1.0)


def test_the_spread_ignores_an_outlier() -> None:
    assert stats.robust_spread([1, 2, 3, 4, 1000]) == pytest.approx(1.4826)
    assert stats.robust_spread([5.0]) == 0.0


def test_what_can_be_detected_shrinks_with_more_samples() -> None:
    numbers = random.Random(5)

    def detectable(count: int) -> float:
        widths = []
        for _ in range(30):
            base = [math.exp(numbers.gauss(0, 0.03)) for _ in range(count)]
            head = [math.exp(numbers.gauss(0, 0.03)) for _ in range(count)]
            found = stats.shift_interval(base, head, 0.05)
            widths.append(stats.smallest_detectable(found, 0.05))
        return median(widths)

    few, many = detectable(10), detectable(40)
    assert 0.03 < few < 0.06
    assert many == pytest.approx(few / 2, rel=0.25)
