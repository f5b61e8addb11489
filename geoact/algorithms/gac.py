"""Geometric Action Control.

    actor loss     E[ b(s) - min(Q1, Q2)(s, a) ]
    critic target  y = reward + gamma * (1 - terminated) * ( min(Q1', Q2')(s', a') - b(s') )

with the penalty on concentration `b`:

    exploration = kappa     b = kappa(s)                      the paper's
    exploration = entropy   b = -alpha * H(kappa(s), d + k)   the exact entropy (sphere.py), alpha tuned so that
                                                              the mean entropy meets a target, as in SAC
    exploration = none      b = 0

Deviations from the paper: kappa is softplus by default, because with a free kappa `-kappa` is a bonus without
bound and the values run away; and the critic sees the action that was executed, i.e. clipped to the box, in
the replay, the target and the actor loss alike (`critic_action=raw` is the other choice).
"""

import jax
import jax.numpy as jnp
from jax import Array

from geoact import critics, policies, sphere
from geoact.algorithms import soft
from geoact.algorithms.record import Algorithm, delayed, off_policy
from geoact.algorithms.soft import SoftState
from geoact.config import GACConfig
from geoact.networks import JAX, Tensors, init_policy
from geoact.policies import GeometricOutput


def clip_to_box(raw: Array) -> Array:
    """The action that the environment gets.  # [batch, action_dim]"""
    return jnp.clip(raw, -1.0, 1.0)


@jax.custom_vjp
def clip_inward(raw: Array) -> Array:
    """The same, but a coordinate outside of the box learns from what would bring it back (not from what would not).

    The derivative of clipping is zero out there: what has left the box learns nothing more, and stays.
    """
    return clip_to_box(raw)


def _clip_backward(raw: Array, cotangent: Array) -> tuple[Array]:
    # Descent moves against the cotangent: inward where both have the same sign.
    return (jnp.where((jnp.abs(raw) <= 1.0) | (raw * cotangent > 0.0), cotangent, 0.0),)


clip_inward.defvjp(lambda raw: (clip_to_box(raw), raw), _clip_backward)


def build(config: GACConfig, obs_dim: int, action_dim: int) -> Algorithm:
    """GAC for a resolved configuration."""
    head = config.head()
    sphere_dim = action_dim + head.slack
    adam = soft.optimizers(config)
    offset = (config.target_entropy or 0.0) if config.center_entropy else 0.0
    clip = clip_inward if config.clip_gradient == "inward" else clip_to_box
    if config.exploration == "entropy":
        sphere.entropy(jnp.zeros(1), sphere_dim)  # tabulate now, outside of any trace

    def init(key: Array) -> SoftState:
        actor_key, critic_key = jax.random.split(key)
        actor = init_policy(actor_key, config.kind, head, config.actor, obs_dim, action_dim)
        critic = critics.Critics(critic_key, obs_dim, action_dim, config.critic)
        last_metrics: dict[str, Array] = {}
        if config.policy_delay > 1:
            _, raw, outputs = sample(actor, jnp.zeros((1, obs_dim)), key)
            zero = jnp.zeros(())
            last_metrics = policy_metrics(zero, raw, outputs, zero)
        return soft.start(actor, critic, config, adam, last_metrics)

    def entropy(outputs: GeometricOutput) -> Array:
        """H(s).  # [batch]"""
        return sphere.entropy(outputs.kappa[..., 0], sphere_dim)

    def penalty(outputs: GeometricOutput, log_alpha: Array) -> Array | float:
        """b(s), what concentration costs.  # [batch]"""
        if config.exploration == "kappa":
            return outputs.kappa[..., 0]
        if config.exploration == "entropy":
            return -jnp.exp(log_alpha) * (entropy(outputs) - offset)
        return 0.0

    def sample(actor: Tensors, obs: Array, key: Array) -> tuple[Array, Array, GeometricOutput]:
        """An action as the critic sees it, the one before clipping, and the outputs behind them."""
        outputs = policies.geometric_outputs(JAX, head, actor, policies.hidden(JAX, config.actor, actor, obs))
        noise = sphere.uniform(key, obs.shape[:-1], sphere_dim)
        raw = policies.geometric_action(JAX, head, outputs, noise, action_dim)
        seen = clip(raw) if config.critic_action == "executed" else raw
        return seen, raw, outputs

    def policy_metrics(
        loss: Array, raw: Array, outputs: GeometricOutput, log_alpha: Array
    ) -> dict[str, Array]:
        metrics = {
            "losses/actor_loss": loss,
            "policy/clipped": jnp.mean(jnp.abs(raw) > 1.0, dtype=jnp.float32),
        }
        for name, values in (("kappa", outputs.kappa), ("weight", outputs.weight)):
            values = jnp.asarray(values)
            metrics |= {f"policy/{name}": jnp.mean(values)}
            metrics |= {f"policy/{name}_min": jnp.min(values), f"policy/{name}_max": jnp.max(values)}
        if head.scale_max is not None:
            scale = jnp.mean(outputs.scale, axis=0)  # [action_dim]
            metrics |= {"policy/scale": jnp.mean(scale), "policy/scale_deviation": jnp.std(scale)}
            metrics |= {f"policy/scale/{i}": scale[i] for i in range(action_dim)}
        if config.exploration == "entropy":
            metrics |= {"policy/entropy": jnp.mean(entropy(outputs)), "losses/alpha": jnp.exp(log_alpha)}
        return metrics

    def update_once(
        state: SoftState, batch: critics.Batch, key: Array
    ) -> tuple[SoftState, Array, dict[str, Array]]:
        target_key, actor_key = jax.random.split(key)
        state = soft.with_first_alpha(state, batch, config)

        # Critics
        next_action, _, next_outputs = sample(state.actor, batch.next_obs, target_key)
        next_penalty = penalty(next_outputs, state.log_alpha)
        state, value, metrics = soft.learn_critics(state, batch, next_action, next_penalty, config, adam, key)

        # Actor, and the weight of its entropy
        def actor_loss(actor: Tensors) -> tuple[Array, tuple[Array, GeometricOutput]]:
            action, raw, outputs = sample(actor, batch.obs, actor_key)
            q = critics.actor_value(state.critic, batch.obs, action, config.critic)
            return jnp.mean(penalty(outputs, state.log_alpha) - q), (raw, outputs)

        def learn_policy(state: SoftState) -> tuple[SoftState, dict[str, Array]]:
            (loss, (raw, outputs)), gradient = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
            surplus = None
            if config.exploration == "entropy":
                assert config.target_entropy is not None
                surplus = jnp.mean(entropy(outputs)) - config.target_entropy
            state = soft.learn_policy(state, gradient, surplus, adam)
            return state, policy_metrics(loss, raw, outputs, state.log_alpha)

        state, learned = delayed(learn_policy, state, config.policy_delay, state.critic_optimizer)
        return state, value, metrics | learned

    def divergence_hint(metrics: dict[str, float]) -> str:
        hint = f" (mean kappa {metrics['policy/kappa']:.3g})"
        if config.concentration == "free" and config.exploration == "kappa":
            hint += "; a free kappa makes -kappa a bonus without bound: use --concentration softplus"
        return hint

    return off_policy(config, obs_dim, action_dim, init, update_once, divergence_hint, config.critic_action)
