"""Statistics over seeds and tasks: what a comparison of a few runs can and cannot say.

The scores of one algorithm are a mapping `task -> scores, one per seed`. Tasks may have different numbers of
seeds (an unfinished sweep is still worth a table); every task weighs the same:

- mean and standard deviation over the seeds of one task, as the paper reports. The paper does not say which
  standard deviation; this is the sample form (`n - 1`), which is the larger one: with five seeds it is 1.118
  times the population form. With one seed it is `nan`, not 0: nothing is known about the spread.
- interquartile mean (IQM): the mean of the middle half of all runs of all tasks.
- probability of improvement: `P(X > Y) + P(X = Y) / 2` for a random seed of each algorithm (the Mann-Whitney
  statistic over its largest value), averaged over tasks.
- performance profile: the fraction of runs with a score above a threshold, for each threshold.
- stratified bootstrap intervals for any of these: the seeds of each task, and of each algorithm, are
  resampled on their own, and the interval lies between percentiles of the replicas.

IQM and profiles pool the scores of different tasks, which must therefore share a scale: normalise first.

These are the estimators of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (2021), and on equal numbers of seeds they agree with the authors' library, `rliable`. Deviations:
randomness comes from an explicit seed, never from a global generator; and tasks may have unequal numbers of
seeds (IQM: a run of a task with n seeds weighs 1/n, and one at the edge of the middle half counts in part).

Every statistic takes scores of shape `[..., seeds]` and reduces the last axis, so that the bootstrap computes
all its replicas in one call.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoact.errors import InputError

Scores = Mapping[str, ArrayLike]
"""Task name -> scores `[..., seeds]`."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MeanStd:
    """One cell of the paper's tables; the number of seeds belongs to it."""

    mean: float
    std: float
    """Sample standard deviation over seeds; `nan` for a single seed."""
    seeds: int


@dataclass(frozen=True, eq=False)
class Interval:
    """An estimate and its bootstrap interval; arrays of one shape (zero-dimensional for a single number)."""

    estimate: Floats
    low: Floats
    high: Floats


def mean_std(scores: ArrayLike) -> MeanStd:
    """Mean and sample standard deviation of one task's scores, one per seed."""
    values = _checked("scores", scores)
    if values.ndim != 1:
        raise InputError(f"scores of one task must be one number per seed, got shape {values.shape}")
    std = float(values.std(ddof=1)) if values.size > 1 else math.nan
    return MeanStd(float(values.mean()), std, values.size)


def interquartile_mean(scores: Scores) -> Floats:
    """Mean of the middle half of all runs, over all tasks at once; `[...]`.

    Of N runs, floor(N/4) are dropped at either end, as is usual (N = 5: one and one). With unequal numbers of
    seeds, runs with the same total weight are dropped instead.
    """
    tasks = list(_checked_tasks(scores).values())
    values = np.concatenate(tasks, axis=-1)  # [..., runs]
    weights = np.concatenate([np.full(task.shape[-1], 1 / (len(tasks) * task.shape[-1])) for task in tasks])
    runs = weights.size
    cut = (runs // 4) / runs

    order = np.argsort(values, axis=-1)
    values = np.take_along_axis(values, order, axis=-1)
    weights = weights[order]
    upper = np.cumsum(weights, axis=-1)  # each run holds the stretch (lower, upper) of the total weight 1
    lower = upper - weights
    kept = np.minimum(upper, 1 - cut) - np.maximum(lower, cut)
    # Rounding must not let a dropped run in: a diverged run of 1e13 would be seen even at weight 1e-16.
    kept = np.where(kept > 1e-12, kept, 0.0)
    return np.sum(kept * values, axis=-1) / np.sum(kept, axis=-1)


def probability_of_improvement(scores: Scores, other: Scores) -> Floats:
    """Probability that a run of `scores` beats one of `other` on the same task, ties half; `[...]`."""
    ours, theirs = _checked_tasks(scores), _checked_tasks(other)
    if ours.keys() != theirs.keys():
        raise InputError(
            "both sides of a comparison need the same tasks; only one side has "
            f"{sorted(ours.keys() ^ theirs.keys())}: leave these out"
        )
    per_task = []
    for task, mine in ours.items():
        left, right = mine[..., :, None], theirs[task][..., None, :]
        wins = (left > right) + 0.5 * (left == right)  # [..., seeds, other seeds]
        per_task.append(np.mean(wins, axis=(-2, -1)))
    return np.mean(per_task, axis=0)


def performance_profile(scores: Scores, thresholds: ArrayLike) -> Floats:
    """Fraction of runs above each threshold, averaged over tasks; `[..., thresholds]`."""
    levels = np.asarray(thresholds, dtype=np.float64)
    if levels.ndim != 1:
        raise InputError(f"thresholds must be a list of numbers, got an array of shape {levels.shape}")
    tasks = _checked_tasks(scores).values()
    fractions = [np.mean(task[..., None, :] > levels[:, None], axis=-1) for task in tasks]
    return np.mean(fractions, axis=0)


def bootstrap_interval(
    statistic: Callable[..., Floats],
    *samples: Scores,
    seed: int | np.random.Generator,
    replicas: int = 10_000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of `statistic(*samples)` under resampling of seeds within each task.

    `statistic` is one of the functions above, or any of the same form; bind further arguments first, e.g.
    `functools.partial(performance_profile, thresholds=levels)`.
    """
    if replicas < 1:
        raise InputError(f"replicas must be at least 1, got {replicas}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got {confidence}")
    generator = np.random.default_rng(seed)
    resampled = []
    for sample in samples:
        # Tasks are drawn in the order of their names, so that the order of a mapping cannot change a result.
        tasks = sorted(_checked_tasks(sample).items())
        resampled.append({task: _resample(values, replicas, generator) for task, values in tasks})
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(*resampled), [tail, 1 - tail], axis=0)
    return Interval(np.asarray(statistic(*samples)), np.asarray(low), np.asarray(high))


def _resample(values: Floats, replicas: int, generator: np.random.Generator) -> Floats:
    """As many seeds as there are, drawn with replacement, `replicas` times; `[replicas, seeds]`."""
    if values.ndim != 1:
        raise InputError(f"the bootstrap needs one score per seed, got an array of shape {values.shape}")
    return values[generator.integers(values.size, size=(replicas, values.size))]


def _checked_tasks(scores: Scores) -> dict[str, Floats]:
    if not scores:
        raise InputError("no scores given: expected a mapping from task to one score per seed")
    return {task: _checked(f"scores of task {task!r}", values) for task, values in scores.items()}


def _checked(what: str, scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise InputError(f"{what}: expected one score per seed, at least one, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError(f"{what}: every score must be finite; leave failed runs out and say so in the table")
    return values
