"""What GAC and SAC share: the state of an actor-critic with a bonus whose weight alpha is tuned, and how it learns."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact import critics
from geoact.config import GACConfig, SACConfig
from geoact.networks import Tensors

SMALLEST_REWARD = 1e-3
"""Unit of alpha where rewards are smaller, or none has come yet."""


class SoftState(NamedTuple):
    """Everything that learns."""

    actor: Tensors
    critic: critics.Critics
    target: critics.Critics
    log_alpha: Array  # weight of the entropy; constant where it is not tuned
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    alpha_optimizer: optax.OptState
    # Of the last policy update, for the updates between; empty without a delay.
    last_metrics: dict[str, Array]


class SoftOptimizers(NamedTuple):
    """Adam for each of the three."""

    actor: optax.GradientTransformation
    critic: optax.GradientTransformation
    alpha: optax.GradientTransformation


def optimizers(config: GACConfig | SACConfig) -> SoftOptimizers:
    return SoftOptimizers(
        critics.actor_optimizer(config), critics.critic_optimizer(config), optax.adam(config.alpha_lr)
    )


def start(
    actor: Tensors,
    critic: critics.Critics,
    config: GACConfig | SACConfig,
    adam: SoftOptimizers,
    last_metrics: dict[str, Array],
) -> SoftState:
    """The state before the first update; the target is a copy of the critics."""
    log_alpha: Any = jnp.log(jnp.asarray(config.alpha_init))
    return SoftState(
        actor,
        critic,
        jax.tree.map(jnp.copy, critic),
        log_alpha,
        adam.actor.init(actor),
        adam.critic.init(eqx.filter(critic, eqx.is_array)),
        adam.alpha.init(log_alpha),
        last_metrics,
    )


def with_first_alpha(state: SoftState, batch: critics.Batch, config: GACConfig | SACConfig) -> SoftState:
    """The state; before the first update, with alpha in units of the rewards in its batch where that is asked for.

    What an entropy is worth depends on the rewards it stands beside: those of one step, here the mean of n.
    """
    if config.alpha_unit == "absolute":
        return state
    size = jnp.sqrt(jnp.mean(batch.reward**2)) / config.n_step
    first = jnp.log(config.alpha_init * jnp.maximum(size, SMALLEST_REWARD))
    is_first = critics.steps_made(state.critic_optimizer) == 0
    return state._replace(log_alpha=jnp.where(is_first, first, state.log_alpha))


def learn_critics(
    state: SoftState,
    batch: critics.Batch,
    next_action: Array,
    next_penalty: Array | float,
    config: GACConfig | SACConfig,
    adam: SoftOptimizers,
    key: Array,
) -> tuple[SoftState, Array, dict[str, Array]]:
    """The state after one step of the critics and of their target, with the mean value and the metrics."""
    critic, optimizer, value, metrics = critics.td_step(
        state.critic,
        state.target,
        state.critic_optimizer,
        adam.critic,
        batch,
        next_action,
        next_penalty,
        config,
        key,
    )
    target = critics.polyak(state.target, critic, config.tau)
    return state._replace(critic=critic, critic_optimizer=optimizer, target=target), value, metrics


def learn_policy(
    state: SoftState, gradient: Tensors, surplus: Array | None, adam: SoftOptimizers
) -> SoftState:
    """The state after one step of the actor and, where there is a surplus (mean entropy - target), of alpha.

    alpha descends `alpha * surplus`, by its derivative with respect to log alpha.
    """
    actor, actor_state = critics.descend(state.actor, gradient, state.actor_optimizer, adam.actor)
    log_alpha, alpha_state = state.log_alpha, state.alpha_optimizer
    if surplus is not None:
        alpha_gradient = jnp.exp(log_alpha) * surplus
        log_alpha, alpha_state = critics.descend(log_alpha, alpha_gradient, alpha_state, adam.alpha)
    return state._replace(
        actor=actor, actor_optimizer=actor_state, log_alpha=log_alpha, alpha_optimizer=alpha_state
    )
