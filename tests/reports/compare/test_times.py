"""The verdict on times, on simulated samples whose true effect and noise are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from rooflens.model import Machine, Run, StepTime, Timeline
from rooflens.reports.compare.records import Verdict
from rooflens.reports.compare.times import Samples, TimeRules, judge_times, samples, step_samples
from tests import builders

RULES = TimeRules()
TRIALS = 2000
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, count: int) -> np.ndarray:
    return 1 + 0.03 * rng.standard_normal(count)


def skewed(rng: np.random.Generator, count: int) -> np.ndarray:
    return 1 + 0.05 * rng.exponential(size=count)


def outliers(rng: np.random.Generator, count: int) -> np.ndarray:
    times = normal(rng, count)
    times[rng.random(count) < 0.1] *= 3
    return times


def drifting(rng: np.random.Generator, count: int) -> np.ndarray:
    """Every step slower than the one before, by 20 % over base and head together."""
    return normal(rng, count) * (1 + 0.2 * np.arange(count) / count)


def warming(rng: np.random.Generator, count: int) -> np.ndarray:
    """A drift that levels off: a chip that heats up."""
    return normal(rng, count) * (1 + 0.15 * (1 - np.exp(-2 * np.arange(count) / count)))


def verdicts(noise: Noise, effect: float, size: int, trials: int = TRIALS) -> Counter[Verdict]:
    rng = np.random.default_rng(20260101)
    found: Counter[Verdict] = Counter()
    for _ in range(trials):
        times = 1e7 * noise(rng, 2 * size)
        times[size:] *= 1 + effect
        base, head = tuple(times[:size].tolist()), tuple(times[size:].tolist())
        found[judge_times(Samples(base, head), RULES).verdict] += 1
    return found


@pytest.mark.parametrize("noise", [normal, skewed, outliers, drifting, warming])
@pytest.mark.parametrize(("size", "trials"), [(10, TRIALS), (25, 300)])
def test_a_regression_is_rarely_claimed_where_there_is_none(
    noise: Noise, size: int, trials: int
) -> None:
    found = verdicts(noise, 0.0, size, trials)
    assert found[Verdict.REGRESSED] / trials <= 0.05
    assert found[Verdict.IMPROVED] / trials <= 0.05


def test_ten_percent_is_seen_through_three_percent_of_noise_with_ten_steps() -> None:
    assert verdicts(normal, 0.10, 10)[Verdict.REGRESSED] / TRIALS >= 0.90
    assert verdicts(normal, -0.10, 10)[Verdict.IMPROVED] / TRIALS >= 0.90


def test_outliers_do_not_hide_a_regression() -> None:
    assert verdicts(outliers, 0.10, 30, 300)[Verdict.REGRESSED] / 300 >= 0.90


def test_three_steps_can_never_show_a_difference() -> None:
    judged = judge_times(Samples((1.0, 2.0, 3.0), (10.0, 20.0, 30.0)), RULES)
    assert judged.verdict is Verdict.CANNOT_JUDGE
    assert "take at least 4" in judged.reason
    assert judged.p is None


def test_samples_too_noisy_for_the_threshold_are_not_called_unchanged() -> None:
    judged = judge_times(Samples((100.0, 103, 97, 106, 101), (102.0, 104, 96, 103, 100)), RULES)
    assert judged.verdict is Verdict.CANNOT_JUDGE
    assert judged.smallest_detectable is not None
    assert judged.smallest_detectable > RULES.threshold
    assert "take about" in judged.reason


def test_enough_quiet_samples_show_that_nothing_changed() -> None:
    base = tuple(100 + 0.1 * step for step in (3, 1, 4, 1, 5, 9, 2, 6))
    head = tuple(100 + 0.1 * step for step in (2, 7, 1, 8, 2, 8, 1, 8))
    judged = judge_times(Samples(base, head), RULES)
    assert judged.verdict is Verdict.NO_CHANGE_SHOWN
    assert judged.n_base == judged.n_head == 8


def test_a_shown_difference_below_the_threshold_is_within_noise() -> None:
    base = (100.0, 100.2, 100.1, 100.3, 100.0, 100.1)
    head = tuple(time * 1.02 for time in base)
    judged = judge_times(Samples(base, head), RULES)
    assert judged.verdict is Verdict.WITHIN_NOISE
    assert judged.relative == pytest.approx(0.02, abs=0.002)


def test_a_drift_from_base_to_head_is_named_and_interleaving_removes_it() -> None:
    rng = np.random.default_rng(4)
    times = 1e7 * (1 + 0.005 * rng.standard_normal(24)) * (1 + 0.2 * np.arange(24) / 24)
    in_sequence = judge_times(Samples(tuple(times[:12]), tuple(times[12:])), RULES)
    assert in_sequence.verdict is Verdict.CANNOT_JUDGE
    assert "--interleave" in in_sequence.reason
    # The order in which `profile run --interleave` runs: head base, base head, head base ...
    pairs = times.reshape(12, 2)
    heads = [pair[0] if number % 2 == 0 else pair[1] for number, pair in enumerate(pairs)]
    bases = [pair[1] if number % 2 == 0 else pair[0] for number, pair in enumerate(pairs)]
    paired = judge_times(Samples(tuple(bases), tuple(heads), paired=True), RULES)
    assert paired.verdict is Verdict.NO_CHANGE_SHOWN
    slower = tuple(1.1 * time for time in heads)
    found = judge_times(Samples(tuple(bases), slower, paired=True), RULES)
    assert found.verdict is Verdict.REGRESSED
    assert found.relative == pytest.approx(0.1, abs=0.01)


def test_interleaved_rounds_keep_their_promise_under_a_drift() -> None:
    """Ten rounds on a machine that gets 20 % slower meanwhile, 3 % noise a run."""

    def found(effect: float) -> Counter[Verdict]:
        rng = np.random.default_rng(7)
        verdicts: Counter[Verdict] = Counter()
        for _ in range(TRIALS):
            pairs = (1e7 * drifting(rng, 20)).reshape(10, 2)
            pairs[1::2] = pairs[1::2, ::-1]
            base, head = tuple(pairs[:, 0].tolist()), tuple((pairs[:, 1] * (1 + effect)).tolist())
            verdicts[judge_times(Samples(base, head, paired=True), RULES).verdict] += 1
        return verdicts

    assert found(0.0)[Verdict.REGRESSED] / TRIALS <= 0.05
    assert found(0.10)[Verdict.REGRESSED] / TRIALS >= 0.90


def test_too_few_rounds_cannot_be_judged() -> None:
    judged = judge_times(Samples((1.0,) * 5, (2.0,) * 5, paired=True), RULES)
    assert judged.verdict is Verdict.CANNOT_JUDGE
    assert "at least 6" in judged.reason


def test_mirrored_samples_give_the_mirrored_verdict() -> None:
    rng = np.random.default_rng(2)
    base = tuple((100 + rng.standard_normal(10)).tolist())
    head = tuple((120 + rng.standard_normal(10)).tolist())
    there = judge_times(Samples(base, head), RULES)
    back = judge_times(Samples(head, base, head_first=True), RULES)
    assert (there.verdict, back.verdict) == (Verdict.REGRESSED, Verdict.IMPROVED)
    assert there.p == pytest.approx(back.p)
    assert 1 + (there.relative or 0) == pytest.approx(1 / (1 + (back.relative or 0)))


def test_forbidden_times_are_not_comparable_and_keep_their_medians() -> None:
    judged = judge_times(Samples((1.0, 3.0), (5.0,)), RULES, "another driver")
    assert judged.verdict is Verdict.NOT_COMPARABLE
    assert judged.reason == "another driver"
    assert (judged.base_median_ns, judged.head_median_ns) == (2.0, 5.0)


def test_samples_are_steps_for_few_runs_and_runs_for_many() -> None:
    few = [builders.run(step_times_ns=(1.0, 2.0), created_at="2026-01-01T00:00:00Z")] * 2
    many = [builders.run(step_times_ns=(1.0, 2.0, 9.0))] * 4
    assert samples(few, few).base == (1.0, 2.0, 1.0, 2.0)
    assert samples(many, many).base == (2.0,) * 4
    assert samples(many, many).what == "runs"


def test_one_process_a_side_on_a_cpu_accuses_no_code() -> None:
    def runs(factor: float, count: int) -> list[Run]:
        times = tuple(factor * time for time in (100.0, 101, 100, 102, 99, 100))
        machine = Machine(device="cpu")
        return [builders.run(step_times_ns=times, machine=machine) for _ in range(count)]

    alone = judge_times(samples(runs(1, 1), runs(1.3, 1)), RULES)
    assert alone.verdict is Verdict.CANNOT_JUDGE
    assert "+30 %" in alone.reason
    assert "--interleave" in alone.reason
    several = judge_times(samples(runs(1, 4), runs(1.3, 4)), RULES)
    assert several.method == "Mann-Whitney, runs"
    assert several.p == pytest.approx(2 / 70)
    unmoved = judge_times(samples(runs(1, 1), runs(1, 1)), RULES)
    assert unmoved.verdict is Verdict.NO_CHANGE_SHOWN


def test_runs_of_one_interleaved_session_are_paired_by_round() -> None:
    def run(number: int, time: float) -> object:
        labels = {"interleave": "abc", "round": str(number)}
        return builders.run(step_times_ns=(time,), labels=labels)

    base = [run(2, 20.0), run(10, 100.0), run(1, 10.0)]
    head = [run(1, 11.0), run(2, 21.0), run(10, 101.0)]
    found = samples(base, head)  # type: ignore[arg-type]
    assert found.paired
    assert found.base == (10.0, 20.0, 100.0)
    assert found.head == (11.0, 21.0, 101.0)


def test_a_timeline_gives_samples_unless_it_mixes_phases() -> None:
    def timeline(*phases: str) -> Timeline:
        steps = tuple(
            StepTime(index=i, start_ns=0, wall_ns=5.0 + i, busy_ns=1, idle_ns=1, phase=phase)
            for i, phase in enumerate(phases)
        )
        return Timeline(source="nsys", steps=steps, representative_step=0)

    assert step_samples(builders.run(timeline=timeline("decode", "decode"))) == (5.0, 6.0)
    assert step_samples(builders.run(timeline=timeline("prefill", "decode"))) == ()
    assert "base" in samples([builders.run()], [builders.run(step_times_ns=(1.0,))]).absent
