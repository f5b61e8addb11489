"""The form every algorithm has: a frozen record of pure functions over a state pytree."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.config import NORMALIZED_BOUND, OffPolicyConfig, OnPolicyConfig
from geoact.critics import Batch, polyak, split_rows, steps_made

State = Any
"""A pytree of arrays: parameters, targets, optimisers."""


class Learned(NamedTuple):
    """What an update gives back."""

    state: State
    value: Array
    """Mean value of the states learned from: what the guard against divergence looks at (training/guards.py)."""
    metrics: dict[str, Array]


class Rollout(NamedTuple):
    """What an on-policy algorithm learns from: `steps` vector steps of `count` environments."""

    obs: Array  # [steps, count, obs_dim], normalised
    action: Array  # [steps, count, action_dim], before clipping
    reward: Array  # [steps, count], normalised
    terminated: Array  # [steps, count], 1.0 where the episode ended for good
    truncated: Array  # [steps, count], 1.0 where it was cut off
    next_obs: Array  # [steps, count, obs_dim], normalised, the true one also where an episode ended
    remaining: Array  # [], share of the run's rollouts that is left, this one included: 1 at the first


@dataclass(frozen=True)
class Algorithm:
    """Pure functions; the training loop jits them and owns everything that changes."""

    mode: Literal["off-policy", "on-policy"]
    """Which learner drives it: off-policy from replay, on-policy from whole rollouts."""
    init: Callable[[Array], State]
    """key -> state"""
    update: Callable[[State, Any, Array], Learned]
    """(state, data, key) -> what was learned. Off-policy: packed rows [updates, batch, columns], one gradient update
    for each, value and metrics those of the last one. On-policy: a Rollout, learned from whole."""
    policy: Callable[[State], dict[str, Array]]
    """state -> the tensors of a policy file: all that acting needs"""
    value_bound: Callable[[float], float]
    """Largest absolute reward seen -> the largest value that can be right"""
    divergence_hint: Callable[[dict[str, float]], str] = lambda metrics: ""
    """Metrics -> what may be wrong where values are beyond all bounds, to end a sentence with"""
    replay_action: Literal["executed", "raw"] = "executed"
    """Off-policy: what replay holds, the clipped action that the environment got or the one before clipping"""


class Averaged(NamedTuple):
    """A state beside the running average of its policy."""

    learning: State
    policy: dict[str, Array]


def value_bound(config: OffPolicyConfig | OnPolicyConfig) -> Callable[[float], float]:
    """No policy can earn more than the largest reward at every step for ever. Normalised rewards are bounded."""

    def bound(largest_reward: float) -> float:
        largest = NORMALIZED_BOUND if config.normalize_reward else largest_reward
        return (1.0 + largest) / (1.0 - min(config.gamma, 0.9999))

    return bound


def off_policy(
    config: OffPolicyConfig,
    obs_dim: int,
    action_dim: int,
    init: Callable[[Array], State],
    update_once: Callable[[Any, Batch, Array], tuple[Any, Array, dict[str, Array]]],
    divergence_hint: Callable[[dict[str, float]], str] = lambda metrics: "",
    replay_action: Literal["executed", "raw"] = "executed",
) -> Algorithm:
    """An algorithm that learns from replay, and whose state has the policy's tensors as `actor`.

    `update_once` is one gradient update: (state, batch, key) -> state, mean value, metrics.
    """

    def once(state: State, inputs: tuple[Array, Array]) -> tuple[State, tuple[Array, dict[str, Array]]]:
        rows, key = inputs
        state, value, metrics = update_once(state, split_rows(rows, obs_dim, action_dim), key)
        return state, (value, metrics)

    def update(state: State, rows: Array, key: Array) -> Learned:
        """One gradient update for each batch of rows, with a key of its own; the metrics are those of the last."""
        keys = jax.random.split(key, rows.shape[0])
        state, (value, metrics) = jax.lax.scan(once, state, (rows, keys))
        return Learned(state, value[-1], {name: values[-1] for name, values in metrics.items()})

    algorithm = Algorithm(
        "off-policy",
        init,
        update,
        lambda state: state.actor,
        value_bound(config),
        divergence_hint,
        replay_action,
    )
    return algorithm if config.policy_tau == 1.0 else averaged(algorithm, config.policy_tau)


def averaged(algorithm: Algorithm, tau: float) -> Algorithm:
    """The algorithm with another policy to act with: a running average of the one that learns.

    Single updates move a policy back and forth by more than they improve it; the average keeps what they agree on.
    """

    def init(key: Array) -> Averaged:
        state = algorithm.init(key)
        return Averaged(state, jax.tree.map(jnp.copy, algorithm.policy(state)))

    def update(state: Averaged, data: Any, key: Array) -> Learned:
        learned = algorithm.update(state.learning, data, key)
        policy = polyak(state.policy, algorithm.policy(learned.state), tau)
        return learned._replace(state=Averaged(learned.state, policy))

    return dataclasses.replace(algorithm, init=init, update=update, policy=lambda state: state.policy)


PolicyState = TypeVar("PolicyState", bound=Any)


def delayed(
    learn_policy: Callable[[PolicyState], tuple[PolicyState, dict[str, Array]]],
    state: PolicyState,
    delay: int,
    critic_optimizer: optax.OptState,
) -> tuple[PolicyState, dict[str, Array]]:
    """Learn the policy at every `delay`-th update of the critics, which their optimiser counts.

    Between, the metrics are those of the last time: the state keeps them as `last_metrics`, where there is a delay.
    """
    if delay == 1:
        return learn_policy(state)

    def learn(state: PolicyState) -> PolicyState:
        state, metrics = learn_policy(state)
        return state._replace(last_metrics=metrics)

    state = jax.lax.cond(steps_made(critic_optimizer) % delay == 0, learn, lambda same: same, state)
    return state, state.last_metrics
