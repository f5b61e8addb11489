"""Twin Delayed Deep Deterministic policy gradient.

    critic target  y = reward + gamma * (1 - terminated) * min(Q1', Q2')(s', a'),
                   a' = clip(mu'(s') + clip(policy_noise * xi, +-noise_clip), +-1)
    actor loss     -E[ Q1(s, mu(s)) ], at every `policy_delay`-th update, and the targets move then too

Hyperparameters are CleanRL's; noise is in units of the box [-1, 1].
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.algorithms.record import Algorithm
from geoact.config import TD3Config
from geoact.critics import critic_step, descend, polyak, scan_updates, split_rows, td_target
from geoact.networks import TwinCritic
from geoact.policies import DeterministicPolicy


class TD3State(NamedTuple):
    """Everything that learns."""

    actor: DeterministicPolicy
    critic: TwinCritic
    target_actor: DeterministicPolicy
    target: TwinCritic
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    updates: Array  # critic updates made, int32
    actor_loss: Array  # of the last policy update, for the metrics of the updates between


def build(config: TD3Config, obs_dim: int, action_dim: int) -> Algorithm:
    """TD3 for a resolved configuration."""
    actor_adam = optax.adam(config.actor_lr)
    critic_adam = optax.adam(config.critic_lr)

    def init(key: Array) -> TD3State:
        actor_key, critic_key = jax.random.split(key)
        actor = DeterministicPolicy(actor_key, obs_dim, action_dim, config.hidden_size, config.head())
        critic = TwinCritic(critic_key, obs_dim, action_dim, config.hidden_size)
        return TD3State(
            actor,
            critic,
            jax.tree.map(jnp.copy, actor),
            jax.tree.map(jnp.copy, critic),
            actor_adam.init(eqx.filter(actor, eqx.is_array)),
            critic_adam.init(eqx.filter(critic, eqx.is_array)),
            jnp.zeros((), jnp.int32),
            jnp.zeros(()),
        )

    def noise(key: Array, batch: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*batch, action_dim))

    def update_once(state: TD3State, inputs: tuple[Array, Array]) -> tuple[TD3State, dict[str, Array]]:
        rows, key = inputs
        batch = split_rows(rows, obs_dim, action_dim)

        # Critic
        blur = config.policy_noise * noise(key, batch.reward.shape)
        blur = jnp.clip(blur, -config.noise_clip, config.noise_clip)
        next_action = jnp.clip(state.target_actor.act(batch.next_obs, None) + blur, -1.0, 1.0)
        y = td_target(batch, jnp.minimum(*state.target(batch.next_obs, next_action)), config.gamma)
        critic, critic_optimizer, critic_loss, value = critic_step(
            state.critic, state.critic_optimizer, critic_adam, batch, y
        )
        state = state._replace(critic=critic, critic_optimizer=critic_optimizer, updates=state.updates + 1)

        # Actor and targets, delayed
        def actor_loss(actor: DeterministicPolicy) -> Array:
            return -jnp.mean(critic(batch.obs, actor.act(batch.obs, None))[0])

        def delayed(state: TD3State) -> TD3State:
            loss, gradient = eqx.filter_value_and_grad(actor_loss)(state.actor)
            actor, actor_optimizer = descend(state.actor, gradient, state.actor_optimizer, actor_adam)
            return state._replace(
                actor=actor,
                actor_optimizer=actor_optimizer,
                target_actor=polyak(state.target_actor, actor, config.tau),
                target=polyak(state.target, critic, config.tau),
                actor_loss=loss,
            )

        state = jax.lax.cond(state.updates % config.policy_delay == 0, delayed, lambda same: same, state)
        metrics = {"losses/critic": critic_loss, "losses/actor": state.actor_loss, "losses/value": value}
        return state, metrics

    return Algorithm(
        init=init,
        act=lambda state, obs, noise: state.actor.act(obs, noise),
        noise=noise,
        update=functools.partial(scan_updates, update_once),
        policy=lambda state: state.actor.tensors(),
    )
