"""Theorem 2 on a small table: what the soft Bellman operator contracts by, and when its fixed point has a bound.

Five states, 24 directions of the plane as actions, random rewards in [-1, 1] and random transitions. A policy has a
direction and a kappa in every state; its action is drawn from the exact density of the mixed direction.
"""

import functools

import numpy as np
import pytest

from geoact import critics, sphere

GAMMA = 0.9
STATES, ACTIONS = 5, 24
RNG = np.random.default_rng(0)
REWARD = RNG.uniform(-1, 1, (STATES, ACTIONS))
NEXT = RNG.dirichlet(np.ones(STATES), (STATES, ACTIONS))  # [state, action, next state]
ANGLES = 2 * np.pi * np.arange(ACTIONS) / ACTIONS


@functools.cache
def actions_of(kappa: float) -> np.ndarray:
    """Probability of each action for each direction.  # [direction, action]"""
    cosine = np.cos(ANGLES[:, None] - ANGLES).astype(np.float32)
    density = np.exp(np.asarray(sphere.log_density(cosine, np.full_like(cosine, kappa), 2), np.float64))
    return density / density.sum(axis=1, keepdims=True)


def target(value: np.ndarray) -> np.ndarray:
    """The critic's target, averaged over next states.  # [state] -> [state, action]"""
    zero = np.zeros_like(REWARD)
    batch = critics.Batch(zero, zero, REWARD, zero, zero)  # type: ignore[arg-type]
    return np.asarray(critics.td_target(batch, NEXT @ value, GAMMA))  # type: ignore[arg-type]


def evaluated(q: np.ndarray, direction: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """The paper's operator of a policy: V(s) = E[Q(s, a)] - kappa(s)."""
    value = [actions_of(float(k))[mu] @ q[s] - k for s, (mu, k) in enumerate(zip(direction, kappa))]
    return target(np.asarray(value))


def improved(q: np.ndarray, kappas: np.ndarray, bonus: np.ndarray | None = None) -> np.ndarray:
    """The operator of the best policy: over all directions, and these kappas with their bonus (-kappa)."""
    bonus = -kappas if bonus is None else bonus
    value = [q @ actions_of(float(kappa)).T + b for kappa, b in zip(kappas, bonus)]  # each [state, direction]
    return target(np.max(value, axis=(0, 2)))


def fixed_point(kappas: np.ndarray, bonus: np.ndarray | None = None) -> np.ndarray:
    q = np.zeros_like(REWARD)
    for _ in range(250):  # 0.9^250 is 4e-12
        q = improved(q, kappas, bonus)
    return q


def factor(operator, pairs: int = 40) -> float:
    """The largest ratio of distances after and before, over random pairs, and pairs that differ by a constant."""
    ratios = []
    for i in range(pairs):
        a = RNG.normal(scale=10.0, size=REWARD.shape)
        b = a + 3.0 if i == 0 else RNG.normal(scale=10.0, size=REWARD.shape)
        ratios.append(np.abs(operator(a) - operator(b)).max() / np.abs(a - b).max())
    return max(ratios)


@pytest.mark.parametrize("lowest", [0.0, -5.0, -500.0])
def test_a_given_policys_operator_contracts_by_gamma_whatever_kappa_is(lowest):
    """kappa is the same number in both values and cancels: this half of the theorem needs no bound."""
    direction, kappa = RNG.integers(ACTIONS, size=STATES), RNG.uniform(lowest, lowest + 2.0, STATES)
    assert factor(lambda q: evaluated(q, direction, kappa)) == pytest.approx(GAMMA, rel=1e-9)


@pytest.mark.parametrize("bonus", ["kappa", "entropy"])
def test_the_best_policys_operator_contracts_by_gamma_where_the_bonus_is_bounded(bonus):
    kappas = np.linspace(0.0, 3.0, 13)
    given = sphere.entropy_exact(kappas, 2) if bonus == "entropy" else -kappas
    assert factor(lambda q: improved(q, kappas, given)) == pytest.approx(GAMMA, rel=1e-9)


def test_with_kappa_bounded_below_values_are_bounded_by_the_rewards():
    """-kappa <= 0: the bonus adds nothing to the bound |reward| / (1 - gamma) from above."""
    q = fixed_point(np.linspace(0.0, 3.0, 13))
    assert q.max() <= 1 / (1 - GAMMA)


def test_with_kappa_free_the_best_value_has_no_bound():
    """The lower kappa may go, the larger the value, by gamma / (1 - gamma) per unit: the optimum does not exist."""
    lows = (-10.0, -100.0, -1000.0)
    peaks = [fixed_point(np.append(np.linspace(-4.0, 3.0, 15), low)) for low in lows]
    for (low, q), (lower, higher) in zip(zip(lows, peaks), zip(lows[1:], peaks[1:])):
        gain = (higher - q) / (low - lower)
        np.testing.assert_allclose(gain, GAMMA / (1 - GAMMA), rtol=1e-4)
    assert peaks[-1].min() > 100 * (1 / (1 - GAMMA))


def test_with_the_exact_entropy_a_free_kappa_changes_nothing():
    """The entropy ends at log A: beyond kappa = -5 there is nothing left to gain."""

    def best(low: float) -> np.ndarray:
        kappas = np.append(np.linspace(-4.0, 3.0, 15), low)
        return fixed_point(kappas, sphere.entropy_exact(kappas, 2))

    np.testing.assert_allclose(best(-200.0), best(-5.0), atol=1e-3)
    assert best(-200.0).max() <= (1 + GAMMA * sphere.log_area(2)) / (1 - GAMMA)


def test_policy_improvement_is_monotone_with_kappa_bounded_below():
    """The best direction and kappa by the values of the policy before: no value falls, and the values settle."""
    kappas = np.linspace(0.0, 3.0, 13)
    direction, kappa = np.zeros(STATES, int), np.full(STATES, 3.0)
    before = np.full_like(REWARD, -np.inf)
    for _ in range(8):
        q = np.zeros_like(REWARD)
        for _ in range(250):
            q = evaluated(q, direction, kappa)
        assert (q >= before - 1e-8).all()
        before = q
        value = np.stack([q @ actions_of(float(k)).T - k for k in kappas])  # [kappa, state, direction]
        best = value.transpose(1, 0, 2).reshape(STATES, -1).argmax(axis=1)
        kappa, direction = kappas[best // ACTIONS], best % ACTIONS
    np.testing.assert_allclose(before, fixed_point(kappas), atol=1e-6)
