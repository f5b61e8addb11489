"""Proximal Policy Optimization, with generalised advantage estimation.

    delta_t = reward + gamma * (1 - terminated) * V(next_obs) - V(obs)
    A_t     = delta_t + gamma * lambda * (1 - terminated) * (1 - truncated) * A_{t+1}
    actor   -E[ min( ratio * A, clip(ratio, 1 - c, 1 + c) * A ) ] - entropy_weight * H,  ratio = pi / pi_old
    value   E[ (V_old + clip(V - V_old, -c, c) - R)^2 ],  R = A + V_old

`next_obs` is the true next observation, so a truncated episode bootstraps the value of its last observation
and a terminated one nothing. One call learns from a whole rollout: values and old log-probabilities under
the parameters that acted, advantages, then `epochs` passes over shuffled minibatches, one gradient step each.

Hyperparameters and details are CleanRL's: orthogonal starting weights, Adam with epsilon 1e-5, advantages
normalised per minibatch, gradients clipped to a norm over both networks together. Deviations: actions are
in units of the box [-1, 1]; truncation bootstraps, where CleanRL treats it as termination; and the value loss is
Stable-Baselines3's, that of the clipped value alone, where CleanRL takes half the larger of it and the unclipped one
(results/baselines has runs of both). Observations and rewards arrive normalised (training/normalization.py).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact import policies
from geoact.algorithms.record import Algorithm, Learned, Rollout, value_bound
from geoact.config import PPOConfig
from geoact.critics import descend
from geoact.networks import JAX, Tensors, gaussian_log_prob, init_layers
from geoact.policies import NetworkConfig

_ACT = policies.KINDS[PPOConfig.kind].act


class PPOState(NamedTuple):
    """Everything that learns."""

    actor: Tensors
    value: Tensors
    optimizer: optax.OptState


class Samples(NamedTuple):
    """A rollout with what follows from it, flat: what minibatches are drawn from."""

    obs: Array  # [batch, obs_dim]
    action: Array  # [batch, action_dim]
    log_prob: Array  # [batch], under the policy that acted
    value: Array  # [batch], by the value network of then
    advantage: Array  # [batch]


def gae(rollout: Rollout, value: Array, next_value: Array, gamma: float, decay: float) -> Array:
    """Generalised advantage estimates.  # [steps, count]"""
    delta = rollout.reward + gamma * (1.0 - rollout.terminated) * next_value - value
    carry_on = gamma * decay * (1.0 - rollout.terminated) * (1.0 - rollout.truncated)

    def back(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = now[0] + now[1] * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(value[0]), (delta, carry_on), reverse=True)[1]


def build(config: PPOConfig, obs_dim: int, action_dim: int) -> Algorithm:
    """PPO for a resolved configuration."""

    def optimizer(learning_rate: Array | float) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(config.max_gradient_norm),
            optax.scale_by_adam(eps=1e-5),
            optax.scale(-learning_rate),
        )

    value_config = NetworkConfig(config.value_hidden_sizes, "tanh")

    def init(key: Array) -> PPOState:
        actor_key, value_key = jax.random.split(key)
        actor_layers = policies.layers(config.kind, config.head(), config.actor, obs_dim, action_dim)
        actor = init_layers(actor_key, actor_layers, _gains(actor_layers, {"mean": 0.01}))
        actor["log_std"] = jnp.zeros(action_dim)
        value_layers = policies.layers(config.kind, config.head(), value_config, obs_dim, 1)
        value = init_layers(value_key, value_layers, _gains(value_layers, {"mean": 1.0}))
        return PPOState(actor, value, optimizer(0.0).init((actor, value)))

    def log_prob(actor: Tensors, obs: Array, action: Array) -> Array:
        """Log of an action's density.  # [batch]"""
        x = policies.hidden(JAX, config.actor, actor, obs)
        mean = _ACT(JAX, config.head(), actor, x, None, action_dim)
        log_std = jnp.broadcast_to(actor["log_std"], mean.shape)
        return gaussian_log_prob((action - mean) * jnp.exp(-log_std), log_std)

    def value_of(value: Tensors, obs: Array) -> Array:
        """V(s): a network like the policy's, with one output.  # [batch]"""
        return JAX.linear(value, "mean", policies.hidden(JAX, value_config, value, obs))[..., 0]

    def loss(networks: tuple[Tensors, Tensors], samples: Samples) -> tuple[Array, dict[str, Array]]:
        actor, value_network = networks
        log_ratio = log_prob(actor, samples.obs, samples.action) - samples.log_prob
        ratio = jnp.exp(log_ratio)
        advantage = samples.advantage - jnp.mean(samples.advantage)
        advantage = advantage / (jnp.std(samples.advantage, ddof=1) + 1e-8)
        clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
        actor_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))

        value = value_of(value_network, samples.obs)
        target = samples.advantage + samples.value
        clipped_value = samples.value + jnp.clip(value - samples.value, -config.clip, config.clip)
        value_loss = jnp.mean((clipped_value - target) ** 2)

        entropy = jnp.sum(actor["log_std"] + 0.5 * math.log(2.0 * math.pi * math.e))
        metrics = {
            "losses/policy_loss": actor_loss,
            "losses/value_loss": value_loss,
            "losses/values": jnp.mean(value),
            "losses/entropy": entropy,
            "losses/approx_kl": jnp.mean(ratio - 1.0 - log_ratio),
            "losses/clipfrac": jnp.mean(jnp.abs(ratio - 1.0) > config.clip, dtype=jnp.float32),
            "policy/clipped": jnp.mean(jnp.abs(samples.action) > 1.0, dtype=jnp.float32),
        }
        return actor_loss - config.entropy_weight * entropy + config.value_weight * value_loss, metrics

    def update(state: PPOState, rollout: Rollout, key: Array) -> Learned:
        # The rate falls linearly, from its full value at the first rollout to 1/n of it at the last of n.
        learning_rate = config.learning_rate * rollout.remaining
        adam = optimizer(learning_rate)
        count = rollout.reward.size
        obs = rollout.obs.reshape(count, obs_dim)
        action = rollout.action.reshape(count, action_dim)
        value = value_of(state.value, obs)
        next_value = value_of(state.value, rollout.next_obs.reshape(count, obs_dim))
        shape = rollout.reward.shape
        advantage = gae(
            rollout, value.reshape(shape), next_value.reshape(shape), config.gamma, config.gae_lambda
        ).ravel()
        samples = Samples(obs, action, log_prob(state.actor, obs, action), value, advantage)

        def step(state: PPOState, indices: Array) -> tuple[PPOState, dict[str, Array]]:
            networks = (state.actor, state.value)
            minibatch = jax.tree.map(lambda x: x[indices], samples)
            gradient, metrics = jax.grad(loss, has_aux=True)(networks, minibatch)
            (actor, value_network), optimizer_state = descend(networks, gradient, state.optimizer, adam)
            return PPOState(actor, value_network, optimizer_state), metrics

        # What does not divide is left out of a pass, another part each time.
        size = count // config.minibatches
        keys = jax.random.split(key, config.epochs)
        order = jax.vmap(lambda k: jax.random.permutation(k, count))(keys)[:, : size * config.minibatches]
        state, metrics = jax.lax.scan(step, state, order.reshape(-1, size))
        last = {name: jnp.mean(values[-config.minibatches :]) for name, values in metrics.items()}
        variance = jnp.var(advantage + value)
        last["losses/explained_variance"] = jnp.where(
            variance > 0.0, 1.0 - jnp.var(advantage) / jnp.where(variance > 0.0, variance, 1.0), 0.0
        )
        last["charts/learning_rate"] = learning_rate
        return Learned(state, last["losses/values"], last)

    return Algorithm(
        mode="on-policy",
        init=init,
        update=update,
        policy=lambda state: state.actor,
        value_bound=value_bound(config),
    )


def _gains(layers: dict[str, tuple[int, int]], last: dict[str, float]) -> dict[str, float]:
    """Orthogonal starting weights have gain sqrt(2) in the hidden layers."""
    return {name: last.get(name, math.sqrt(2.0)) for name in layers}
