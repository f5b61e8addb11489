"""Twin Delayed Deep Deterministic policy gradient.

    critic target  y = reward + gamma * (1 - terminated) * min(Q1', Q2')(s', a'),
                   a' = clip(mu'(s') + clip(policy_noise * xi, +-noise_clip), +-1)
    actor loss     -E[ Q1(s, mu(s)) ], at every `policy_delay`-th update, and the targets move then too

Hyperparameters are CleanRL's; noise is in units of the box [-1, 1].
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact import critics, policies
from geoact.algorithms.record import Algorithm, off_policy
from geoact.config import TD3Config
from geoact.networks import JAX, Tensors, init_policy

_ACT = policies.KINDS[TD3Config.kind].act


class TD3State(NamedTuple):
    """Everything that learns."""

    actor: Tensors
    critic: critics.Critics
    target_actor: Tensors
    target: critics.Critics
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    updates: Array  # critic updates made, int32
    actor_loss: Array  # of the last policy update, for the metrics of the updates between


def build(config: TD3Config, obs_dim: int, action_dim: int) -> Algorithm:
    """TD3 for a resolved configuration."""
    head = config.head()
    actor_adam = critics.actor_optimizer(config)
    critic_adam = critics.critic_optimizer(config)

    def init(key: Array) -> TD3State:
        actor_key, critic_key = jax.random.split(key)
        actor = init_policy(actor_key, config.kind, head, config.actor, obs_dim, action_dim)
        critic = critics.Critics(critic_key, obs_dim, action_dim, config.critic)
        return TD3State(
            actor,
            critic,
            jax.tree.map(jnp.copy, actor),
            jax.tree.map(jnp.copy, critic),
            actor_adam.init(actor),
            critic_adam.init(eqx.filter(critic, eqx.is_array)),
            jnp.zeros((), jnp.int32),
            jnp.zeros(()),
        )

    def act(actor: Tensors, obs: Array) -> Array:
        """mu(s).  # [batch, action_dim]"""
        return _ACT(JAX, head, actor, policies.hidden(JAX, config.actor, actor, obs), None, action_dim)

    def update_once(
        state: TD3State, batch: critics.Batch, key: Array
    ) -> tuple[TD3State, Array, dict[str, Array]]:

        # Critics
        noise = config.policy_noise * jax.random.normal(key, batch.action.shape)
        noise = jnp.clip(noise, -config.noise_clip, config.noise_clip)
        next_action = jnp.clip(act(state.target_actor, batch.next_obs) + noise, -1.0, 1.0)
        critic, critic_state, value, metrics = critics.td_step(
            state.critic,
            state.target,
            state.critic_optimizer,
            critic_adam,
            batch,
            next_action,
            0.0,
            config,
            key,
        )
        state = state._replace(critic=critic, critic_optimizer=critic_state, updates=state.updates + 1)

        # Actor and targets, delayed
        def actor_loss(actor: Tensors) -> Array:
            return -jnp.mean(critics.actor_value(critic, batch.obs, act(actor, batch.obs), config.critic))

        def learn_policy(state: TD3State) -> TD3State:
            loss, gradient = jax.value_and_grad(actor_loss)(state.actor)
            actor, actor_state = critics.descend(state.actor, gradient, state.actor_optimizer, actor_adam)
            return state._replace(
                actor=actor,
                actor_optimizer=actor_state,
                target_actor=critics.polyak(state.target_actor, actor, config.tau),
                target=critics.polyak(state.target, critic, config.tau),
                actor_loss=loss,
            )

        due = state.updates % config.policy_delay == 0
        state = jax.lax.cond(due, learn_policy, lambda same: same, state)
        return state, value, metrics | {"losses/actor_loss": state.actor_loss}

    return off_policy(config, obs_dim, action_dim, init, update_once)
