"""Estimators against rliable's numbers (see rliable_golden.py), hand-computed values and laws."""

import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geoact import statistics
from geoact.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean_std,
    performance_profile,
    probability_of_improvement,
)

GOLDEN = json.loads((Path(__file__).parent / "rliable_golden.json").read_text())
THRESHOLDS = GOLDEN["thresholds"]


def by_task(matrix):
    return {f"task {i}": column for i, column in enumerate(np.asarray(matrix).T)}


def task_mean(scores):
    return np.mean([np.mean(values, axis=-1) for values in scores.values()], axis=0)


STATISTICS = {
    "mean": (task_mean, ("x",)),
    "iqm": (interquartile_mean, ("x",)),
    "probability_of_improvement": (probability_of_improvement, ("x", "y")),
    "profile": (partial(performance_profile, thresholds=THRESHOLDS), ("x",)),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_agrees_with_rliable(case, name):
    golden = GOLDEN["cases"][case]
    statistic, sides = STATISTICS[name]
    samples = [by_task(golden[side]) for side in sides]
    ours = bootstrap_interval(statistic, *samples, seed=0, replicas=20_000)
    theirs = {key: np.squeeze(value) for key, value in golden[name].items()}

    np.testing.assert_allclose(ours.estimate, theirs["estimate"], rtol=1e-9, atol=1e-9)
    # Interval ends differ by the Monte Carlo error of a 2.5 % quantile: its rank is off by about
    # sqrt(0.025 * 0.975 / 20,000) = 0.0011 on each side. Compare with our own quantiles 0.006 to either side:
    # four standard deviations of the difference.
    wide = bootstrap_interval(statistic, *samples, seed=1, replicas=20_000, confidence=0.95 + 0.012)
    narrow = bootstrap_interval(statistic, *samples, seed=2, replicas=20_000, confidence=0.95 - 0.012)
    slack = 1e-9 * (1 + np.abs(theirs["estimate"]))
    assert np.all(wide.low - slack <= theirs["low"]) and np.all(theirs["low"] <= narrow.low + slack)
    assert np.all(narrow.high - slack <= theirs["high"]) and np.all(theirs["high"] <= wide.high + slack)


def test_mean_and_sample_standard_deviation():
    summary = mean_std([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (summary.mean, summary.seeds) == (3.0, 5)
    assert summary.std == pytest.approx(np.sqrt(2.5))  # 10 / (5 - 1)


def test_one_seed_has_an_unknown_spread():
    summary = mean_std([7.0])
    assert summary.mean == 7.0 and np.isnan(summary.std) and summary.seeds == 1


def test_iqm_by_hand():
    assert interquartile_mean({"a": [1, 2, 3, 4]}) == 2.5
    # Five runs: one is dropped at either end
    assert interquartile_mean({"a": [5, 1, 9, 2, 100]}) == pytest.approx((2 + 5 + 9) / 3)
    assert interquartile_mean({"a": [1, 2], "b": [30, 4]}) == 3.0
    assert interquartile_mean({"a": [1.0, 3.0, 5.0]}) == pytest.approx(3.0)  # nothing to drop


def test_iqm_gives_every_task_the_same_weight():
    # Weights: a: 1/2; b: 1/6 each. Four runs, so a quarter of the weight goes at either end: half of a's run,
    # then all of 1 and half of 2. Left: 1/4 of 10 is kept, 1/12 of 2, 1/6 of 3.
    assert interquartile_mean({"a": [10.0], "b": [1.0, 2.0, 3.0]}) == pytest.approx(
        (10 / 4 + 2 / 12 + 3 / 6) / (1 / 2)
    )


def test_iqm_does_not_see_a_diverged_run():
    calm = {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [2.0, 3.0, 4.0, 5.0, 6.0], "c": [1.0, 1.5, 2.5, 3.5, 7.0]}
    wild = {**calm, "c": [1.0, 1.5, 2.5, 3.5, 1e300]}
    assert interquartile_mean(calm) == interquartile_mean(wild)


def test_probability_of_improvement_by_hand():
    # Pairs (x, y): 1-0 win, 1-2 loss, 2-0 win, 2-2 tie: 2.5 of 4. Second task: lost outright.
    x, y = {"a": [1, 2], "b": [0, 0, 0]}, {"a": [0, 2], "b": [1]}
    assert probability_of_improvement({"a": x["a"]}, {"a": y["a"]}) == 0.625
    assert probability_of_improvement(x, y) == 0.3125


def test_performance_profile_by_hand():
    profile = performance_profile({"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0]}, [0.0, 2.0, 3.5, 4.0])
    np.testing.assert_allclose(profile, [1.0, (2 / 4 + 0) / 2, (1 / 4 + 0) / 2, 0.0])  # strictly above


def test_bootstrap_matches_all_resamples_enumerated():
    x = {"a": [0.0, 1.0, 5.0], "b": [2.0, 3.0]}
    exact = np.sort(
        [
            interquartile_mean({"a": a, "b": b})
            for a in itertools.product(x["a"], repeat=3)
            for b in itertools.product(x["b"], repeat=2)
        ]
    )  # 27 * 4 equally likely resamples
    interval = bootstrap_interval(interquartile_mean, x, seed=0, replicas=40_000, confidence=0.8)
    for found, level in ((interval.low, 0.1), (interval.high, 0.9)):
        # Rank error of four standard deviations: 4 * sqrt(0.1 * 0.9 / 40,000) = 0.006
        below = np.quantile(exact, level - 0.006, method="inverted_cdf")
        above = np.quantile(exact, level + 0.006, method="inverted_cdf")
        assert below - 1e-12 <= found <= above + 1e-12


def test_bootstrap_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        sample = {"a": generator.normal(size=30), "b": generator.normal(size=30)}
        interval = bootstrap_interval(interquartile_mean, sample, seed=generator, replicas=500)
        hits += bool(interval.low <= 0 <= interval.high)
    assert 0.89 <= hits / 300 <= 0.99


def test_sides_are_resampled_on_their_own():
    # With the same indices on both sides, every replica of a comparison with itself would be exactly 0.5.
    x = {"a": np.arange(6.0)}
    interval = bootstrap_interval(probability_of_improvement, x, x, seed=0, replicas=1000)
    assert interval.estimate == 0.5 and interval.low < 0.4 and interval.high > 0.6


def test_the_seed_decides_and_nothing_else():
    def ends(scores, seed):
        interval = bootstrap_interval(task_mean, scores, seed=seed, replicas=200)
        return float(interval.low), float(interval.high)

    x = {"a": [1.0, 2.0, 4.0], "b": [0.0, 3.0, 5.0]}
    np.random.seed(0)  # noqa: NPY002 (the global generator must not matter)
    first = ends(x, seed=3)
    np.random.seed(1)  # noqa: NPY002
    assert ends(x, seed=3) == first
    assert ends(x, seed=np.random.default_rng(3)) == first
    assert ends(dict(reversed(x.items())), seed=3) == pytest.approx(first)  # sums in another order
    assert ends(x, seed=4) != first


finite = st.floats(-1e6, 1e6).map(lambda value: round(value, 1))
tables = st.dictionaries(
    st.sampled_from("abcd"), st.lists(finite, min_size=1, max_size=6), min_size=1, max_size=4
)


@settings(deadline=None)
@given(tables, st.randoms(use_true_random=False))
def test_order_of_seeds_and_tasks_does_not_matter(scores, random):
    shuffled = {task: random.sample(values, len(values)) for task, values in reversed(scores.items())}
    np.testing.assert_allclose(interquartile_mean(shuffled), interquartile_mean(scores), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(
        performance_profile(shuffled, [-1.0, 0.0, 1.0]), performance_profile(scores, [-1.0, 0.0, 1.0])
    )
    np.testing.assert_allclose(probability_of_improvement(shuffled, scores), 0.5)


@settings(deadline=None)
@given(tables, st.data())
def test_improvement_one_way_is_its_loss_the_other_way(x, data):
    y = {task: data.draw(st.lists(finite, min_size=1, max_size=6)) for task in x}
    forward, backward = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert 0 <= forward <= 1
    assert forward + backward == pytest.approx(1)


@settings(deadline=None)
@given(tables, st.floats(0.5, 4), finite)
def test_iqm_moves_with_its_scale_and_stays_inside_the_scores(scores, factor, shift):
    iqm = interquartile_mean(scores)
    moved = interquartile_mean({task: factor * np.asarray(values) + shift for task, values in scores.items()})
    np.testing.assert_allclose(moved, factor * iqm + shift, rtol=1e-9, atol=1e-3)
    everything = [value for values in scores.values() for value in values]
    assert min(everything) - 1e-6 <= iqm <= max(everything) + 1e-6


@settings(deadline=None)
@given(tables, st.integers(2, 4))
def test_repeating_every_seed_changes_no_profile_and_no_probability(scores, times):
    repeated = {task: values * times for task, values in scores.items()}
    levels = [-10.0, 0.0, 10.0]
    np.testing.assert_allclose(performance_profile(repeated, levels), performance_profile(scores, levels))
    np.testing.assert_allclose(probability_of_improvement(repeated, scores), 0.5)


@settings(deadline=None)
@given(tables)
def test_profiles_fall_from_one_to_zero(scores):
    profile = performance_profile(scores, [-1e9, -1e3, 0.0, 1e3, 1e9])
    assert profile[0] == pytest.approx(1) and profile[-1] == 0 and np.all(np.diff(profile) <= 1e-12)


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(0, 100))
def test_intervals_stay_inside_the_scores(scores, seed):
    interval = bootstrap_interval(interquartile_mean, scores, seed=seed, replicas=50)
    everything = [value for values in scores.values() for value in values]
    assert min(everything) - 1e-6 <= interval.low <= interval.high <= max(everything) + 1e-6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: interquartile_mean({}), "no scores"),
        (lambda: interquartile_mean({"a": []}), "'a'.*at least one"),
        (lambda: interquartile_mean({"a": [1.0, np.nan]}), "'a'.*finite"),
        (lambda: mean_std([[1.0, 2.0]]), r"shape \(1, 2\)"),
        (lambda: probability_of_improvement({"a": [1.0]}, {"b": [1.0]}), r"\['a', 'b'\]"),
        (lambda: performance_profile({"a": [1.0]}, 0.5), "thresholds"),
        (lambda: bootstrap_interval(task_mean, {"a": [1.0]}, seed=0, confidence=95), "confidence.*95"),
        (lambda: bootstrap_interval(interquartile_mean, {"a": [1.0]}, seed=0, replicas=0), "replicas.*0"),
        (lambda: bootstrap_interval(interquartile_mean, {"a": [[1.0]]}, seed=0), r"shape \(1, 1\)"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_needs_no_jax():
    source = Path(statistics.__file__).read_text()
    assert "jax" not in source and "scipy" not in source
