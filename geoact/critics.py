"""What GAC, SAC and TD3 share: the temporal-difference target, the critic's step and the slow target copy.

    y = reward + gamma * (1 - terminated) * (min(Q1', Q2')(s', a') + bonus(s'))
    critic loss = mean (Q1 - y)^2 + mean (Q2 - y)^2
    target <- target + tau * (critic - target)

Termination ends the sum, truncation does not: only `terminated` is here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.networks import TwinCritic


class Batch(NamedTuple):
    """A batch of transitions."""

    obs: Array  # [batch, obs_dim]
    action: Array  # [batch, action_dim]
    reward: Array  # [batch]
    terminated: Array  # [batch], 1.0 where the episode ended for good
    next_obs: Array  # [batch, obs_dim]


def split_rows(rows: Array, obs_dim: int, action_dim: int) -> Batch:
    """The columns of replay's packed rows (see replay.py).  # [batch, 2 * obs_dim + action_dim + 2]"""
    ends = (obs_dim, obs_dim + action_dim, obs_dim + action_dim + 1, obs_dim + action_dim + 2)
    obs, action, reward, terminated, next_obs = jnp.split(rows, ends, axis=-1)
    return Batch(obs, action, reward[..., 0], terminated[..., 0], next_obs)


def td_target(batch: Batch, next_value: Array, gamma: float) -> Array:
    """Reward plus the discounted value of the next state, unless the episode ended for good.  # [batch]"""
    return batch.reward + gamma * (1.0 - batch.terminated) * next_value


def critic_loss(critic: TwinCritic, batch: Batch, target: Array) -> tuple[Array, Array]:
    """Sum of both mean squared errors, and the mean value."""
    first, second = critic(batch.obs, batch.action)
    loss = jnp.mean((first - target) ** 2) + jnp.mean((second - target) ** 2)
    return loss, 0.5 * (jnp.mean(first) + jnp.mean(second))


def critic_step(
    critic: TwinCritic,
    optimizer_state: optax.OptState,
    optimizer: optax.GradientTransformation,
    batch: Batch,
    target: Array,
) -> tuple[TwinCritic, optax.OptState, Array, Array]:
    """One gradient step; returns the critic, its optimiser, the loss and the mean value."""
    (loss, value), gradient = eqx.filter_value_and_grad(critic_loss, has_aux=True)(critic, batch, target)
    critic, optimizer_state = descend(critic, gradient, optimizer_state, optimizer)
    return critic, optimizer_state, loss, value


def descend(
    parameters: Any, gradient: Any, optimizer_state: optax.OptState, optimizer: optax.GradientTransformation
) -> tuple[Any, optax.OptState]:
    """Apply one optimiser step."""
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its integer step count with floats
        updates, optimizer_state = optimizer.update(gradient, optimizer_state, parameters)
    return optax.apply_updates(parameters, updates), optimizer_state


Network = TypeVar("Network")


def polyak(target: Network, online: Network, tau: float) -> Network:
    """Move the target a share tau towards the network that learns."""
    return jax.tree.map(lambda slow, fast: slow + tau * (fast - slow), target, online)


def scan_updates(
    update_once: Callable[[Any, tuple[Array, Array]], tuple[Any, dict[str, Array]]],
    state: Any,
    rows: Array,
    key: Array,
) -> tuple[Any, dict[str, Array]]:
    """One gradient update for each batch of rows, with a key of its own; the metrics are those of the last."""
    state, metrics = jax.lax.scan(update_once, state, (rows, jax.random.split(key, rows.shape[0])))
    return state, {name: values[-1] for name, values in metrics.items()}
