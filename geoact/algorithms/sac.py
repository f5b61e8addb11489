"""Soft Actor-Critic, with the temperature tuned automatically.

    actor loss        E[ alpha * log pi(a|s) - min(Q1, Q2)(s, a) ]
    critic target     y = reward + gamma * (1 - terminated) * ( min(Q1', Q2')(s', a') - alpha * log pi(a'|s') )
    temperature loss  E[ -alpha * (log pi(a|s) + target entropy) ]

Hyperparameters are CleanRL's. Deviations from it: the policy is updated once per critic update instead of twice at
every second one, and the density of the squashed Gaussian is in units of the box [-1, 1], so that the target
entropy -d means the same whatever the environment's limits.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array

from geoact import critics, policies
from geoact.algorithms import soft
from geoact.algorithms.record import Algorithm, delayed, off_policy
from geoact.algorithms.soft import SoftState
from geoact.config import SACConfig
from geoact.networks import JAX, Tensors, gaussian_log_prob, init_policy


def build(config: SACConfig, obs_dim: int, action_dim: int) -> Algorithm:
    """SAC for a resolved configuration."""
    assert config.target_entropy is not None
    target_entropy = config.target_entropy
    offset = target_entropy if config.center_entropy else 0.0
    head = config.head()
    adam = soft.optimizers(config)

    def init(key: Array) -> SoftState:
        actor_key, critic_key = jax.random.split(key)
        actor = init_policy(actor_key, config.kind, head, config.actor, obs_dim, action_dim)
        critic = critics.Critics(critic_key, obs_dim, action_dim, config.critic)
        zero = jnp.zeros(())
        last_metrics = policy_metrics(zero, zero, zero) if config.policy_delay > 1 else {}
        return soft.start(actor, critic, config, adam, last_metrics)

    def sample(actor: Tensors, obs: Array, key: Array) -> tuple[Array, Array]:
        """An action and the log of its density.  # [batch, action_dim], [batch]"""
        x = policies.hidden(JAX, config.actor, actor, obs)
        mean, log_std = policies.tanh_gaussian_outputs(JAX, head, actor, x)
        noise = jax.random.normal(key, mean.shape)
        before = policies.gaussian_point(JAX, mean, log_std, noise)
        # log(1 - tanh(x)^2), in a form that does not cancel for large |x|
        log_derivative = 2.0 * (math.log(2.0) - before - jax.nn.softplus(-2.0 * before))
        return jnp.tanh(before), gaussian_log_prob(noise, log_std) - jnp.sum(log_derivative, axis=-1)

    def policy_metrics(loss: Array, entropy: Array, log_alpha: Array) -> dict[str, Array]:
        return {"losses/actor_loss": loss, "policy/entropy": entropy, "losses/alpha": jnp.exp(log_alpha)}

    def update_once(
        state: SoftState, batch: critics.Batch, key: Array
    ) -> tuple[SoftState, Array, dict[str, Array]]:
        target_key, actor_key = jax.random.split(key)
        state = soft.with_first_alpha(state, batch, config)
        alpha = jnp.exp(state.log_alpha)

        # Critics
        next_action, next_log_prob = sample(state.actor, batch.next_obs, target_key)
        next_penalty = alpha * (next_log_prob + offset)
        state, value, metrics = soft.learn_critics(state, batch, next_action, next_penalty, config, adam, key)

        # Actor and temperature
        def actor_loss(actor: Tensors) -> tuple[Array, Array]:
            action, log_prob = sample(actor, batch.obs, actor_key)
            q = critics.actor_value(state.critic, batch.obs, action, config.critic)
            return jnp.mean(alpha * log_prob - q), -jnp.mean(log_prob)

        def learn_policy(state: SoftState) -> tuple[SoftState, dict[str, Array]]:
            (loss, entropy), gradient = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
            state = soft.learn_policy(state, gradient, entropy - target_entropy, adam)
            return state, policy_metrics(loss, entropy, state.log_alpha)

        state, learned = delayed(learn_policy, state, config.policy_delay, state.critic_optimizer)
        return state, value, metrics | learned

    return off_policy(config, obs_dim, action_dim, init, update_once)
