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
(results/baselines has runs of both). Observations and rewards arrive normalised (normalization.py).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from geoact.algorithms.record import Algorithm
from geoact.config import PPOConfig
from geoact.critics import descend
from geoact.networks import ValueNetwork
from geoact.policies import GaussianPolicy


class PPOState(NamedTuple):
    """Everything that learns."""

    actor: GaussianPolicy
    value: ValueNetwork
    optimizer: optax.OptState


class Rollout(NamedTuple):
    """What the environments answered, `steps` vector steps of `count` environments."""

    obs: Array  # [steps, count, obs_dim], normalised
    action: Array  # [steps, count, action_dim], before clipping
    reward: Array  # [steps, count], normalised
    terminated: Array  # [steps, count], 1.0 where the episode ended for good
    truncated: Array  # [steps, count], 1.0 where it was cut off
    next_obs: Array  # [steps, count, obs_dim], normalised, the true one also where an episode ended
    learning_rate: Array  # [], for this rollout


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

    def init(key: Array) -> PPOState:
        actor_key, value_key = jax.random.split(key)
        actor = GaussianPolicy(actor_key, obs_dim, action_dim, config.hidden_size)
        value = ValueNetwork(value_key, obs_dim, config.hidden_size)
        return PPOState(actor, value, optimizer(0.0).init(eqx.filter((actor, value), eqx.is_array)))

    def loss(
        networks: tuple[GaussianPolicy, ValueNetwork], samples: Samples
    ) -> tuple[Array, dict[str, Array]]:
        actor, value_network = networks
        log_ratio = actor.log_prob(samples.obs, samples.action) - samples.log_prob
        ratio = jnp.exp(log_ratio)
        advantage = samples.advantage - jnp.mean(samples.advantage)
        advantage = advantage / (jnp.std(samples.advantage, ddof=1) + 1e-8)
        clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
        actor_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))

        value = value_network(samples.obs)
        goal = samples.advantage + samples.value
        near = samples.value + jnp.clip(value - samples.value, -config.clip, config.clip)
        value_loss = jnp.mean((near - goal) ** 2)

        entropy = actor.entropy()
        metrics = {
            "losses/actor": actor_loss,
            "losses/critic": value_loss,
            "losses/value": jnp.mean(value),
            "policy/entropy": entropy,
            "policy/approx_kl": jnp.mean(ratio - 1.0 - log_ratio),
            "policy/clip_fraction": jnp.mean(jnp.abs(ratio - 1.0) > config.clip, dtype=jnp.float32),
            "policy/clipped": jnp.mean(jnp.abs(samples.action) > 1.0, dtype=jnp.float32),
        }
        return actor_loss - config.entropy_weight * entropy + config.value_weight * value_loss, metrics

    def update(state: PPOState, rollout: Rollout, key: Array) -> tuple[PPOState, dict[str, Array]]:
        adam = optimizer(rollout.learning_rate)
        count = rollout.reward.size
        obs = rollout.obs.reshape(count, obs_dim)
        action = rollout.action.reshape(count, action_dim)
        value = state.value(obs)
        next_value = state.value(rollout.next_obs.reshape(count, obs_dim))
        shape = rollout.reward.shape
        advantage = gae(
            rollout, value.reshape(shape), next_value.reshape(shape), config.gamma, config.gae_lambda
        ).ravel()
        samples = Samples(obs, action, state.actor.log_prob(obs, action), value, advantage)

        def step(state: PPOState, indices: Array) -> tuple[PPOState, dict[str, Array]]:
            networks = (state.actor, state.value)
            minibatch = jax.tree.map(lambda x: x[indices], samples)
            gradient, metrics = eqx.filter_grad(loss, has_aux=True)(networks, minibatch)
            (actor, value_network), optimizer_state = descend(networks, gradient, state.optimizer, adam)
            return PPOState(actor, value_network, optimizer_state), metrics

        size = (
            count // config.minibatches
        )  # what does not divide is left out of a pass, another part each time
        keys = jax.random.split(key, config.epochs)
        order = jax.vmap(lambda k: jax.random.permutation(k, count))(keys)[:, : size * config.minibatches]
        state, metrics = jax.lax.scan(step, state, order.reshape(-1, size))
        last = {name: jnp.mean(values[-config.minibatches :]) for name, values in metrics.items()}
        spread = jnp.var(advantage + value)
        last["losses/explained_variance"] = jnp.where(
            spread > 0.0, 1.0 - jnp.var(advantage) / jnp.where(spread > 0.0, spread, 1.0), 0.0
        )
        last["losses/learning_rate"] = rollout.learning_rate
        return state, last

    return Algorithm(
        init=init,
        act=lambda state, obs, noise: state.actor.act(obs, noise),
        noise=lambda key, batch: jax.random.normal(key, (*batch, action_dim)),
        update=update,
        policy=lambda state: state.actor.tensors(),
    )
