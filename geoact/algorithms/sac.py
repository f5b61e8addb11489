"""Soft Actor-Critic, with the temperature tuned automatically.

    actor loss        E[ alpha * log pi(a|s) - min(Q1, Q2)(s, a) ]
    critic target     y = reward + gamma * (1 - terminated) * ( min(Q1', Q2')(s', a') - alpha * log pi(a'|s') )
    temperature loss  E[ -alpha * (log pi(a|s) + target entropy) ]

Hyperparameters are CleanRL's. Deviations from it: the policy is updated once per critic update instead of twice at
every second one, and the density of the squashed Gaussian is in units of the box [-1, 1], so that the target
entropy -d means the same whatever the environment's limits.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.algorithms.record import Algorithm
from geoact.config import SACConfig
from geoact.critics import critic_step, descend, polyak, scan_updates, split_rows, td_target
from geoact.networks import TwinCritic
from geoact.policies import TanhGaussianPolicy


class SACState(NamedTuple):
    """Everything that learns."""

    actor: TanhGaussianPolicy
    critic: TwinCritic
    target: TwinCritic
    log_alpha: Array
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    alpha_optimizer: optax.OptState


def build(config: SACConfig, obs_dim: int, action_dim: int) -> Algorithm:
    """SAC for a resolved configuration."""
    assert config.target_entropy is not None
    target_entropy = config.target_entropy
    actor_adam = optax.adam(config.actor_lr)
    critic_adam = optax.adam(config.critic_lr)
    alpha_adam = optax.adam(config.alpha_lr)

    def init(key: Array) -> SACState:
        actor_key, critic_key = jax.random.split(key)
        actor = TanhGaussianPolicy(actor_key, obs_dim, action_dim, config.hidden_size, config.head())
        critic = TwinCritic(critic_key, obs_dim, action_dim, config.hidden_size)
        log_alpha = jnp.zeros(())
        return SACState(
            actor,
            critic,
            jax.tree.map(jnp.copy, critic),
            log_alpha,
            actor_adam.init(eqx.filter(actor, eqx.is_array)),
            critic_adam.init(eqx.filter(critic, eqx.is_array)),
            alpha_adam.init(log_alpha),
        )

    def noise(key: Array, batch: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*batch, action_dim))

    def update_once(state: SACState, inputs: tuple[Array, Array]) -> tuple[SACState, dict[str, Array]]:
        rows, key = inputs
        batch = split_rows(rows, obs_dim, action_dim)
        target_key, actor_key = jax.random.split(key)
        alpha = jnp.exp(state.log_alpha)

        # Critic
        next_action, next_log_prob = state.actor.sample(batch.next_obs, noise(target_key, batch.reward.shape))
        next_value = jnp.minimum(*state.target(batch.next_obs, next_action))
        y = td_target(batch, next_value - alpha * next_log_prob, config.gamma)
        critic, critic_optimizer, critic_loss, value = critic_step(
            state.critic, state.critic_optimizer, critic_adam, batch, y
        )

        # Actor
        def actor_loss(actor: TanhGaussianPolicy) -> tuple[Array, Array]:
            action, log_prob = actor.sample(batch.obs, noise(actor_key, batch.reward.shape))
            q = jnp.minimum(*critic(batch.obs, action))
            return jnp.mean(alpha * log_prob - q), -jnp.mean(log_prob)

        (loss, entropy), gradient = eqx.filter_value_and_grad(actor_loss, has_aux=True)(state.actor)
        actor, actor_optimizer = descend(state.actor, gradient, state.actor_optimizer, actor_adam)

        # Temperature: alpha * (entropy - target), by its slope in log alpha
        log_alpha, alpha_optimizer = descend(
            state.log_alpha, alpha * (entropy - target_entropy), state.alpha_optimizer, alpha_adam
        )

        metrics = {
            "losses/critic": critic_loss,
            "losses/actor": loss,
            "losses/value": value,
            "policy/entropy": entropy,
            "policy/alpha": jnp.exp(log_alpha),
        }
        target = polyak(state.target, critic, config.tau)
        return SACState(
            actor, critic, target, log_alpha, actor_optimizer, critic_optimizer, alpha_optimizer
        ), metrics

    return Algorithm(
        init=init,
        act=lambda state, obs, noise: state.actor.act(obs, noise),
        noise=noise,
        update=functools.partial(scan_updates, update_once),
        policy=lambda state: state.actor.tensors(),
    )
