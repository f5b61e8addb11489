"""What stops a run whose learning has broken, at the next log point, with a reason.

The algorithm says which number is its value and what that can amount to (`algorithms/record.py`); no metric's name
matters here. Non-finite observations, rewards and actions are stopped where they arise (environments).
"""

import math

import numpy as np

from geoact.algorithms.record import Algorithm
from geoact.errors import TrainingFailed
from geoact.training.update import VALUE, Metrics

MARGIN = 100.0
"""A hundredfold leaves room for bonuses and early overestimation."""


def require_sane(algorithm: Algorithm, metrics: Metrics, largest_reward: float, updates: int) -> None:
    """Every metric is finite, and the mean value is one that the rewards seen allow."""
    for name, number in metrics.items():
        if not math.isfinite(number):
            raise TrainingFailed(f"{name} became {number} at update {updates}: the last good policy is kept")
    if VALUE not in metrics:
        return  # nothing was learned yet
    value, bound = metrics[VALUE], algorithm.value_bound(largest_reward)
    if abs(value) > MARGIN * bound:
        raise TrainingFailed(
            f"diverged: the mean value is {value:.3g} at update {updates}, and the rewards seen allow at "
            f"most {bound:.3g}{algorithm.divergence_hint(metrics)}"
        )


def require_finite(policy: dict[str, np.ndarray], updates: int) -> None:
    """Every tensor of the policy is finite."""
    for name, tensor in policy.items():
        if not np.isfinite(tensor).all():
            raise TrainingFailed(
                f"the policy's {name} has a non-finite number in it at update {updates}: the last good "
                "policy is kept"
            )
