"""TD3: the smoothed target and the delay, against plain NumPy; its warm-up."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import policies
from geoact.algorithms.td3 import build
from geoact.config import CriticConfig, TD3Config
from geoact.networks import JAX
from tests.training_cases import networks

OBS, ACTION = 3, 2
ONE: dict[str, Any] = {
    "actor": networks(16)["actor"],
    "critic": CriticConfig(hidden_sizes=(16, 16), actor_value="one"),
}


def act(actor, obs):
    """mu(s)"""
    hidden = policies.hidden(JAX, ONE["actor"], actor, jnp.asarray(obs))
    return np.tanh(np.asarray(JAX.linear(actor, "mean", hidden)))


def rows(updates: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((updates, 8, 2 * OBS + ACTION + 2)).astype(np.float32)
    data[..., OBS + ACTION + 1] = rng.integers(0, 2, (updates, 8))
    return data


def test_one_update_by_hand():
    config = TD3Config(**ONE, policy_noise=1.0)  # so that both clips are met
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    state = state._replace(target_actor=jax.tree.map(lambda x: 3.0 * x, state.target_actor))
    data, key = rows(1), jax.random.key(1)
    obs, action = data[0, :, :OBS], data[0, :, OBS : OBS + ACTION]
    reward, terminated, next_obs = data[0, :, OBS + ACTION], data[0, :, OBS + ACTION + 1], data[0, :, -OBS:]
    noise = np.asarray(jax.random.normal(jax.random.split(key, 1)[0], (8, ACTION)))
    policy_noise = np.clip(noise, -0.5, 0.5)
    assert (np.abs(policy_noise) == 0.5).any()
    next_action = np.clip(act(state.target_actor, next_obs) + policy_noise, -1.0, 1.0)
    assert (np.abs(next_action) == 1.0).any()
    y = reward + 0.99 * (1 - terminated) * np.minimum(
        *(np.asarray(q) for q in state.target(next_obs, next_action))
    )
    first, second = (np.asarray(q) for q in state.critic(obs, action))
    updated, _, metrics = jax.jit(algorithm.update)(state, jnp.asarray(data), key)
    np.testing.assert_allclose(
        metrics["losses/qf_loss"], np.mean((first - y) ** 2) + np.mean((second - y) ** 2), rtol=2e-4
    )
    # The first of two updates: the policy and the targets wait.
    for before, after in ((state.actor, updated.actor), (state.target, updated.target)):
        for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after)):
            np.testing.assert_array_equal(old, new)

    again, _, metrics = jax.jit(algorithm.update)(updated, jnp.asarray(data), key)
    q = np.asarray(again.critic(obs, act(updated.actor, obs))[0])
    np.testing.assert_allclose(metrics["losses/actor_loss"], -np.mean(q), rtol=2e-4, atol=1e-5)
    for name, target, online in (("actor", "target_actor", "actor"), ("critic", "target", "critic")):
        old, new, learned = (
            jax.tree.leaves(x)[0]
            for x in (getattr(updated, target), getattr(again, target), getattr(again, online))
        )
        np.testing.assert_allclose(new, old + 0.005 * (learned - old), atol=1e-6, err_msg=name)


def test_the_policy_learns_at_every_second_update():
    algorithm = build(TD3Config(**ONE), OBS, ACTION)
    state, _, _ = jax.jit(algorithm.update)(
        algorithm.init(jax.random.key(0)), jnp.asarray(rows(7)), jax.random.key(1)
    )
    assert int(state.updates) == int(state.critic_optimizer[0].count) == 7
    assert int(state.actor_optimizer[0].count) == 3


@pytest.mark.parametrize(
    ("timesteps", "num_envs", "asked", "used"),
    [
        (1_600_000, 8, 25_000, 25_000),  # 200,000 vector steps
        (1_599_992, 8, 25_000, 5_000),
        (8_000_000, 8, 25_000, 25_000),
        (160_000, 8, 25_000, 5_000),
        (160_000, 8, 700, 700),
        (200_000, 1, 25_000, 25_000),
    ],
)
def test_warm_up(timesteps, num_envs, asked, used):
    config = TD3Config(learning_starts=asked).resolve("Toy-v0", 2, timesteps, num_envs)
    assert config.learning_starts == used
    assert config.resolve("Toy-v0", 2, timesteps, num_envs) == config
