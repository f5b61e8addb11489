"""SAC's density, against numerical integration, and its update, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from geoact.algorithms.sac import build
from geoact.config import SACConfig, TanhGaussianHead
from geoact.policies import TanhGaussianPolicy

OBS, ACTION = 3, 2


def test_the_density_is_that_of_the_actions():
    """One action dimension: exp(log_prob) integrates to 1 over the actions, and to the probability of a part."""
    policy = TanhGaussianPolicy(jax.random.key(0), OBS, 1, 16, TanhGaussianHead(-5.0, 2.0))
    obs = jnp.asarray([[0.3, -1.0, 2.0]])
    mean, log_std = (float(x[0, 0]) for x in policy.outputs(obs))
    noise = np.linspace(-8.0, 8.0, 20_001, dtype=np.float32)[:, None]
    action, log_prob = policy.sample(jnp.tile(obs, (len(noise), 1)), jnp.asarray(noise))
    a, density = np.asarray(action[:, 0], np.float64), np.exp(np.asarray(log_prob, np.float64))
    np.testing.assert_allclose(np.trapezoid(density, a), 1.0, atol=1e-3)
    part = a < 0.2
    expected = norm.cdf((np.arctanh(0.2) - mean) / np.exp(log_std))
    np.testing.assert_allclose(np.trapezoid(density[part], a[part]), expected, atol=2e-3)


def test_the_density_does_not_break_far_out():
    policy = TanhGaussianPolicy(jax.random.key(0), OBS, ACTION, 16, TanhGaussianHead(-5.0, 2.0))
    _, log_prob = policy.sample(jnp.zeros((2, OBS)), jnp.asarray([[40.0, -40.0], [-40.0, 40.0]]))
    assert np.isfinite(np.asarray(log_prob)).all()


def test_log_std_stays_within_its_bounds():
    policy = TanhGaussianPolicy(jax.random.key(0), OBS, ACTION, 16, TanhGaussianHead(-5.0, 2.0))
    obs = 1e4 * jax.random.normal(jax.random.key(1), (100, OBS))
    _, log_std = policy.outputs(obs)
    assert -5.0 <= float(log_std.min()) < -4.9 and 1.9 < float(log_std.max()) <= 2.0


def test_one_update_by_hand():
    config = SACConfig(hidden_size=16).resolve("Toy-v0", ACTION, 1000)
    assert config.target_entropy == -ACTION
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))._replace(log_alpha=jnp.asarray(-0.7))
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1, 8, 2 * OBS + ACTION + 2)).astype(np.float32)
    rows[..., OBS + ACTION + 1] = rng.integers(0, 2, (1, 8))
    obs, action = rows[0, :, :OBS], rows[0, :, OBS : OBS + ACTION]
    reward, terminated, next_obs = rows[0, :, OBS + ACTION], rows[0, :, OBS + ACTION + 1], rows[0, :, -OBS:]
    key = jax.random.key(1)
    target_key, actor_key = jax.random.split(jax.random.split(key, 1)[0])

    next_action, next_log_prob = state.actor.sample(next_obs, algorithm.noise(target_key, (8,)))
    next_value = np.minimum(*(np.asarray(q) for q in state.target(next_obs, next_action)))
    soft = next_value - np.exp(-0.7) * np.asarray(next_log_prob)
    y = reward + 0.99 * (1 - terminated) * soft
    first, second = (np.asarray(q) for q in state.critic(obs, action))

    updated, metrics = jax.jit(algorithm.update)(state, jnp.asarray(rows), key)
    np.testing.assert_allclose(
        metrics["losses/critic"], np.mean((first - y) ** 2) + np.mean((second - y) ** 2), rtol=2e-4
    )
    chosen, log_prob = state.actor.sample(obs, algorithm.noise(actor_key, (8,)))
    q = np.minimum(*(np.asarray(q) for q in updated.critic(obs, chosen)))
    np.testing.assert_allclose(
        metrics["losses/actor"], np.mean(np.exp(-0.7) * np.asarray(log_prob) - q), rtol=2e-4, atol=1e-5
    )
    # More entropy than asked for, so the temperature falls, at first by its learning rate.
    assert metrics["policy/entropy"] > -ACTION
    np.testing.assert_allclose(updated.log_alpha, -0.7 - config.alpha_lr, rtol=1e-3)
    moved = updated.target.first.layers[0].weight - state.target.first.layers[0].weight
    whole = updated.critic.first.layers[0].weight - state.target.first.layers[0].weight
    np.testing.assert_allclose(moved, 0.005 * whole, atol=1e-7)
