"""What GAC and SAC share: the state of an actor-critic with a bonus whose weight alpha is tuned, and its optimisers."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact import critics
from geoact.config import GACConfig, SACConfig
from geoact.networks import Tensors


class SoftState(NamedTuple):
    """Everything that learns."""

    actor: Tensors
    critic: critics.Critics
    target: critics.Critics
    log_alpha: Array  # weight of the entropy; constant where it is not tuned
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    alpha_optimizer: optax.OptState
    last_metrics: dict[
        str, Array
    ]  # of the last policy update, for the updates between; empty without a delay


class SoftOptimizers(NamedTuple):
    """Adam for each of the three."""

    actor: optax.GradientTransformation
    critic: optax.GradientTransformation
    alpha: optax.GradientTransformation


def optimizers(config: GACConfig | SACConfig) -> SoftOptimizers:
    return SoftOptimizers(
        optax.adam(config.actor_lr), critics.critic_optimizer(config), optax.adam(config.alpha_lr)
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
