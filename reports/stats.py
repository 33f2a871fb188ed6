"""Statistics of step times: rank tests, intervals, and what a sample could have shown at all.

Times are positive and skewed, so everything works on logarithms and ranks: a shift is a ratio.
Nothing here is random; the same samples give the same answer.

    rank_sum_p          Mann-Whitney, two-sided: exact (also with ties) up to 60 samples in all,
                        then normal with tie and continuity correction
    signed_rank_p       Wilcoxon, two-sided, for pairs of interleaved runs: exact up to 60 pairs
    shift_interval      Hodges-Lehmann ratio of two samples with its order-statistics interval
    drift_adjusted_p    analysis of covariance: is there a step besides a steady drift?

Sources: Mann and Whitney 1947; Lehmann, Nonparametrics (1975), 1.2, 2.5 and 3.2; Abramowitz and
Stegun 26.7.3-4 for Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, median

import numpy as np

MAX_EXACT = 60
"""Samples in all up to which p values are exact."""
MAX_POINTS = 1500
"""Points a side that an interval is computed from; larger samples are thinned to quantiles."""
MIN_WINSORISED = 8
"""Samples below which an outlier cannot be told from the spread."""
POWER = 0.9
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """A relative difference, head against base: 0.1 is 10 % more."""

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def midranks(values: Sequence[float]) -> list[float]:
    """Rank from 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def smallest_rank_sum_p(n_base: int, n_head: int) -> float:
    """The smallest two-sided p that samples of these sizes can ever give."""
    if n_base == 0 or n_head == 0:
        return 1.0
    return min(1.0, 2 / math.comb(n_base + n_head, n_base))


def smallest_signed_rank_p(pairs: int) -> float:
    """The smallest two-sided p that this many pairs can ever give."""
    return min(1.0, 2.0 ** (1 - pairs))


def rank_sum_p(base: Sequence[float], head: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney test; 1 when a sample is empty."""
    if not base or not head:
        return 1.0
    ranks = midranks([*base, *head])
    doubled = tuple(sorted(round(2 * rank) for rank in ranks))
    observed = round(2 * sum(ranks[: len(base)]))
    if len(ranks) <= MAX_EXACT:
        return _two_sided(_rank_sum_counts(doubled, len(base)), observed)
    return _normal_rank_sum_p(ranks, len(base))


@lru_cache(maxsize=256)
def _rank_sum_counts(doubled_ranks: tuple[int, ...], chosen: int) -> dict[int, int]:
    """How many choices of `chosen` ranks have each (doubled) sum."""
    table: list[dict[int, int]] = [{} for _ in range(chosen + 1)]
    table[0][0] = 1
    for seen, rank in enumerate(doubled_ranks):
        for size in range(min(seen + 1, chosen), 0, -1):
            row = table[size]
            for total, ways in table[size - 1].items():
                row[total + rank] = row.get(total + rank, 0) + ways
    return table[chosen]


def _two_sided(counts: dict[int, int], observed: int) -> float:
    everything = sum(counts.values())
    low = sum(ways for total, ways in counts.items() if total <= observed)
    high = sum(ways for total, ways in counts.items() if total >= observed)
    return min(1.0, 2 * min(low, high) / everything)


def _normal_rank_sum_p(ranks: list[float], n_base: int) -> float:
    count = len(ranks)
    n_head = count - n_base
    u = sum(ranks[:n_base]) - n_base * (n_base + 1) / 2
    ties = sum(size**3 - size for size in _tie_sizes(ranks))
    variance = n_base * n_head / 12 * (count + 1 - ties / (count * (count - 1)))
    return _normal_p(abs(u - n_base * n_head / 2), variance)


def _normal_p(distance: float, variance: float) -> float:
    if variance <= 0:
        return 1.0
    z = max(0.0, distance - 0.5) / math.sqrt(variance)
    return min(1.0, 2 * (1 - _NORMAL.cdf(z)))


def _tie_sizes(ranks: list[float]) -> list[int]:
    sizes: dict[float, int] = {}
    for rank in ranks:
        sizes[rank] = sizes.get(rank, 0) + 1
    return list(sizes.values())


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of the Wilcoxon test that differences centre on 0; zeros are left out."""
    kept = [difference for difference in differences if difference != 0]
    if not kept:
        return 1.0
    ranks = midranks([abs(difference) for difference in kept])
    positive = sum(rank for rank, difference in zip(ranks, kept, strict=True) if difference > 0)
    if len(kept) > MAX_EXACT:
        variance = sum(rank * rank for rank in ranks) / 4
        return _normal_p(abs(positive - sum(ranks) / 2), variance)
    counts = {0: 1}
    for rank in ranks:
        grown = dict(counts)
        for total, ways in counts.items():
            key = total + round(2 * rank)
            grown[key] = grown.get(key, 0) + ways
        counts = grown
    return _two_sided(counts, round(2 * positive))


def shift_interval(base: Sequence[float], head: Sequence[float], alpha: float) -> Interval:
    """Hodges-Lehmann estimate of head / base - 1, with the interval that inverts Mann-Whitney."""
    logs = [np.log(np.asarray(_thinned(side), dtype=float)) for side in (base, head)]
    differences = np.sort((logs[1][:, None] - logs[0][None, :]).ravel())
    n_base, n_head = len(base), len(head)
    below = _rank_sum_quantile(n_base, n_head, alpha)
    # Thinned samples keep the shape of the differences, so the quantile is used as a share.
    index = math.floor(below * len(differences) / (n_base * n_head))
    return _interval(differences, index)


def paired_interval(differences: Sequence[float], alpha: float) -> Interval:
    """Hodges-Lehmann estimate and interval of the log ratios of pairs (inverts Wilcoxon)."""
    values = np.asarray(differences, dtype=float)
    first, second = np.triu_indices(len(values))
    walsh = np.sort((values[first] + values[second]) / 2)
    return _interval(walsh, _signed_rank_quantile(len(values), alpha))


def _interval(ordered: np.ndarray[tuple[int], np.dtype[np.float64]], index: int) -> Interval:
    index = min(max(index, 0), (len(ordered) - 1) // 2)
    low, high = float(ordered[index]), float(ordered[len(ordered) - 1 - index])
    return Interval(math.expm1(float(np.median(ordered))), math.expm1(low), math.expm1(high))


def _thinned(values: Sequence[float]) -> Sequence[float]:
    if len(values) <= MAX_POINTS:
        return values
    points: Sequence[float] = np.quantile(
        values, (np.arange(MAX_POINTS) + 0.5) / MAX_POINTS
    ).tolist()
    return points


@lru_cache(maxsize=256)
def _rank_sum_quantile(n_base: int, n_head: int, alpha: float) -> int:
    """The largest k with P(U <= k) <= alpha / 2; difference k, from 0, starts the interval."""
    if n_base + n_head > MAX_EXACT:
        spread = math.sqrt(n_base * n_head * (n_base + n_head + 1) / 12)
        return max(0, math.floor(n_base * n_head / 2 + _NORMAL.inv_cdf(alpha / 2) * spread))
    counts = _rank_sum_counts(tuple(range(2, 2 * (n_base + n_head) + 1, 2)), n_base)
    lowest = n_base * (n_base + 1)
    return _largest_below(counts, lowest, alpha)


def _signed_rank_quantile(pairs: int, alpha: float) -> int:
    if pairs > MAX_EXACT:
        spread = math.sqrt(pairs * (pairs + 1) * (2 * pairs + 1) / 24)
        return max(0, math.floor(pairs * (pairs + 1) / 4 + _NORMAL.inv_cdf(alpha / 2) * spread))
    counts = {0: 1}
    for rank in range(1, pairs + 1):
        grown = dict(counts)
        for total, ways in counts.items():
            grown[total + 2 * rank] = grown.get(total + 2 * rank, 0) + ways
        counts = grown
    return _largest_below(counts, 0, alpha)


def _largest_below(counts: dict[int, int], lowest: int, alpha: float) -> int:
    everything, tail, index = sum(counts.values()), 0, 0
    for total in sorted(counts):
        tail += counts[total]
        if tail / everything > alpha / 2:
            break
        index = (total - lowest) // 2
    return index


def smallest_detectable(interval: Interval, alpha: float) -> float:
    """The relative difference that samples with this spread show nine times out of ten."""
    z = _NORMAL.inv_cdf(1 - alpha / 2)
    return interval.half_width * (z + _NORMAL.inv_cdf(POWER)) / z


def drift_adjusted_p(base: Sequence[float], head: Sequence[float]) -> tuple[float, float]:
    """Is there a step from base to head besides a steady drift through base and then head?

    Both in the order in which they were taken. Returns (step as a log ratio, two-sided p).
    """
    count = len(base) + len(head)
    if count <= 3:
        return 0.0, 1.0
    logs = np.array(_winsorised(base) + _winsorised(head))
    side = np.array([0.0] * len(base) + [1.0] * len(head))
    design = np.column_stack([np.ones(count), side, np.arange(count, dtype=float)])
    solution, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    step = float(solution[1])
    if rank < 3:
        return step, 1.0
    residual = logs - design @ solution
    inverse = np.linalg.inv(design.T @ design)
    variance = float(residual @ residual) / (count - 3) * float(inverse[1, 1])
    if variance < 1e-18:
        return step, 0.0 if abs(step) > 1e-9 else 1.0
    return step, student_t_p(step / math.sqrt(variance), count - 3)


def _winsorised(values: Sequence[float]) -> list[float]:
    """Logarithms, outliers drawn in to three robust standard deviations from the median."""
    logs = [math.log(value) for value in values]
    if len(logs) < MIN_WINSORISED:
        return logs
    centre, limit = median(logs), 3 * robust_spread(logs)
    return [min(max(value, centre - limit), centre + limit) if limit else value for value in logs]


def student_t_p(t: float, freedom: int) -> float:
    """Two-sided p of Student's t with a whole number of degrees of freedom."""
    if freedom > 400:
        return 2 * (1 - _NORMAL.cdf(abs(t)))
    theta = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    total, term = 0.0, cosine if freedom % 2 else 1.0
    for step in range(1 if freedom % 2 else 0, freedom - 1, 2):
        total += term
        term *= cosine**2 * (step + 1) / (step + 2)
    inside = 2 / math.pi * (theta + sine * total) if freedom % 2 else sine * total
    return min(1.0, max(0.0, 1 - inside))


def robust_spread(values: Sequence[float]) -> float:
    """Standard deviation by the median absolute deviation (as if normal); 0 for fewer than 2."""
    if len(values) < 2:
        return 0.0
    centre = median(values)
    return 1.4826 * median([abs(value - centre) for value in values])
