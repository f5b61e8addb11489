"""Geometric Action Control.

    actor loss     E[ b(s) - min(Q1, Q2)(s, a) ]
    critic target  y = reward + gamma * (1 - terminated) * ( min(Q1', Q2')(s', a') - b(s') )

with the price of concentration `b`:

    exploration = kappa     b = kappa(s)                      the paper's
    exploration = entropy   b = -alpha * H(kappa(s), d + k)   the exact entropy (sphere.py), alpha tuned so that
                                                              the mean entropy meets a target, as in SAC
    exploration = none      b = 0

Deviations from the paper: kappa is softplus by default, because with a free kappa `-kappa` is a bonus without
bound and the values run away; and the critic sees the action that was executed, i.e. clipped to the box, in
the replay, the target and the actor loss alike (`critic_action=raw` is the other choice).
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact import sphere
from geoact.algorithms.record import Algorithm
from geoact.config import GACConfig
from geoact.critics import critic_step, descend, polyak, scan_updates, split_rows, td_target
from geoact.networks import TwinCritic
from geoact.policies import GeometricOutput, GeometricPolicy


class GACState(NamedTuple):
    """Everything that learns."""

    actor: GeometricPolicy
    critic: TwinCritic
    target: TwinCritic
    log_alpha: Array  # weight of the entropy; constant 0 unless exploration = entropy
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    alpha_optimizer: optax.OptState


def build(config: GACConfig, obs_dim: int, action_dim: int) -> Algorithm:
    """GAC for a resolved configuration."""
    head = config.head()
    sphere_dim = action_dim + head.slack
    actor_adam = optax.adam(config.actor_lr)
    critic_adam = optax.adam(config.critic_lr)
    alpha_adam = optax.adam(config.alpha_lr)
    if config.exploration == "entropy":
        sphere.entropy(jnp.zeros(1), sphere_dim)  # tabulate now, outside of any trace

    def init(key: Array) -> GACState:
        actor_key, critic_key = jax.random.split(key)
        actor = GeometricPolicy(actor_key, obs_dim, action_dim, config.hidden_size, head)
        critic = TwinCritic(critic_key, obs_dim, action_dim, config.hidden_size)
        target = jax.tree.map(jnp.copy, critic)
        log_alpha = jnp.zeros(())
        return GACState(
            actor,
            critic,
            target,
            log_alpha,
            actor_adam.init(eqx.filter(actor, eqx.is_array)),
            critic_adam.init(eqx.filter(critic, eqx.is_array)),
            alpha_adam.init(log_alpha),
        )

    def price(outputs: GeometricOutput, log_alpha: Array) -> Array:
        """What concentration costs, b(s).  # [batch]"""
        if config.exploration == "kappa":
            return outputs.kappa
        if config.exploration == "entropy":
            return -jnp.exp(log_alpha) * sphere.entropy(outputs.kappa, sphere_dim)
        return jnp.zeros_like(outputs.kappa)

    def sample(actor: GeometricPolicy, obs: Array, key: Array) -> tuple[Array, Array, GeometricOutput]:
        """An action as the critic sees it, the one before clipping, and the outputs behind them."""
        outputs = actor.outputs(obs)
        raw = actor.act(outputs, actor.noise(key, obs.shape[:-1]))
        seen = jnp.clip(raw, -1.0, 1.0) if config.critic_action == "executed" else raw
        return seen, raw, outputs

    def update_once(state: GACState, inputs: tuple[Array, Array]) -> tuple[GACState, dict[str, Array]]:
        rows, key = inputs
        batch = split_rows(rows, obs_dim, action_dim)
        target_key, actor_key = jax.random.split(key)

        # Critic
        next_action, _, next_outputs = sample(state.actor, batch.next_obs, target_key)
        next_value = jnp.minimum(*state.target(batch.next_obs, next_action))
        y = td_target(batch, next_value - price(next_outputs, state.log_alpha), config.gamma)
        critic, critic_optimizer, critic_loss, value = critic_step(
            state.critic, state.critic_optimizer, critic_adam, batch, y
        )

        # Actor
        def actor_loss(actor: GeometricPolicy) -> tuple[Array, tuple[Array, GeometricOutput]]:
            action, raw, outputs = sample(actor, batch.obs, actor_key)
            q = jnp.minimum(*critic(batch.obs, action))
            return jnp.mean(price(outputs, state.log_alpha) - q), (raw, outputs)

        (loss, (raw, outputs)), gradient = eqx.filter_value_and_grad(actor_loss, has_aux=True)(state.actor)
        actor, actor_optimizer = descend(state.actor, gradient, state.actor_optimizer, actor_adam)

        metrics = {
            "losses/critic": critic_loss,
            "losses/actor": loss,
            "losses/value": value,
            "policy/kappa": jnp.mean(outputs.kappa),
            "policy/kappa_min": jnp.min(outputs.kappa),
            "policy/kappa_max": jnp.max(outputs.kappa),
            "policy/weight": jnp.mean(outputs.weight),
            "policy/weight_min": jnp.min(outputs.weight),
            "policy/weight_max": jnp.max(outputs.weight),
            "policy/clipped": jnp.mean(jnp.abs(raw) > 1.0, dtype=jnp.float32),
        }
        if head.scale_max is not None:
            metrics |= {"policy/scale": jnp.mean(outputs.scale), "policy/scale_std": jnp.std(outputs.scale)}

        # Weight of the entropy
        log_alpha, alpha_optimizer = state.log_alpha, state.alpha_optimizer
        if config.exploration == "entropy":
            assert config.target_entropy is not None
            entropy = jnp.mean(sphere.entropy(outputs.kappa, sphere_dim))
            # alpha * (H - target), by its slope in log alpha
            alpha_gradient = jnp.exp(log_alpha) * (entropy - config.target_entropy)
            log_alpha, alpha_optimizer = descend(log_alpha, alpha_gradient, alpha_optimizer, alpha_adam)
            metrics |= {"policy/entropy": entropy, "policy/alpha": jnp.exp(log_alpha)}

        target = polyak(state.target, critic, config.tau)
        return GACState(
            actor, critic, target, log_alpha, actor_optimizer, critic_optimizer, alpha_optimizer
        ), metrics

    def act(state: GACState, obs: Array, noise: Array | None) -> Array:
        return state.actor.act(state.actor.outputs(obs), noise)

    return Algorithm(
        init=init,
        act=act,
        noise=lambda key, batch: sphere.uniform(key, batch, sphere_dim),
        update=functools.partial(scan_updates, update_once),
        policy=lambda state: state.actor.tensors(),
    )
