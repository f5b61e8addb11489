"""SAC's density, against numerical integration, and its update, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from geoact import policies
from geoact.algorithms.sac import build
from geoact.config import SACConfig
from geoact.networks import JAX, init_policy
from geoact.policies import NetworkConfig, TanhGaussianHead
from tests.training_cases import networks

OBS, ACTION = 3, 2
HEAD, NETWORK = TanhGaussianHead(-5.0, 2.0), NetworkConfig((16, 16))


def outputs(actor, obs):
    return policies.tanh_gaussian_outputs(JAX, HEAD, actor, policies.hidden(JAX, NETWORK, actor, obs))


def sample(actor, obs, noise):
    """The action for given noise and the log of its density, in NumPy from mean and deviation."""
    mean, log_std = (np.asarray(x, np.float64) for x in outputs(actor, jnp.asarray(obs)))
    noise = np.asarray(noise, np.float64)
    before = mean + np.exp(log_std) * noise
    density = norm.logpdf(noise) - log_std - np.log1p(-(np.tanh(before) ** 2))
    return np.tanh(before).astype(np.float32), density.sum(axis=-1)


def untrained(action_dim):
    return init_policy(jax.random.key(0), "tanh-gaussian", HEAD, NETWORK, OBS, action_dim)


def test_the_density_is_that_of_the_actions():
    """One action dimension: exp(log_prob) integrates to 1 over the actions, and to the probability of a part.

    The log-probability is the one that the update reports as entropy, for one noise at a time.
    """
    config = SACConfig(**networks(16, 16)).resolve("Toy-v0", 1, 1000)
    algorithm = build(config, OBS, 1)
    state = algorithm.init(jax.random.key(0))
    obs = jnp.asarray([[0.3, -1.0, 2.0]])
    mean, log_std = (float(x[0, 0]) for x in outputs(state.actor, obs))
    # As many noises as there are, in one batch each: the density of the noise that the update drew.
    rows = np.zeros((1, 1, 2 * OBS + 1 + 2), np.float32)
    rows[..., :OBS] = np.asarray(obs)
    step = jax.jit(lambda key: algorithm.update(state, jnp.asarray(rows), key).metrics["policy/entropy"])
    for number in range(20):
        key = jax.random.key(number)
        actor_key = jax.random.split(jax.random.split(key, 1)[0])[1]
        noise = float(jax.random.normal(actor_key, (1, 1))[0, 0])
        before = mean + np.exp(log_std) * noise
        # Change of variables: p(a) = p(before) / (1 - tanh^2).
        expected = norm.logpdf(before, mean, np.exp(log_std)) - np.log1p(-(np.tanh(before) ** 2))
        np.testing.assert_allclose(-float(step(key)), expected, rtol=1e-3, atol=1e-3)
    noise = np.linspace(-8.0, 8.0, 20_001, dtype=np.float32)[:, None]
    action, log_prob = sample(state.actor, np.tile(obs, (len(noise), 1)), noise)
    a, density = np.asarray(action[:, 0], np.float64), np.exp(log_prob)
    np.testing.assert_allclose(np.trapezoid(density, a), 1.0, atol=1e-3)
    part = a < 0.2
    expected = norm.cdf((np.arctanh(0.2) - mean) / np.exp(log_std))
    np.testing.assert_allclose(np.trapezoid(density[part], a[part]), expected, atol=2e-3)


def test_the_density_does_not_break_far_out():
    """A policy whose mean lies far out: tanh is 1 in float32 there, and 1 - tanh^2 would be 0."""
    config = SACConfig(**networks(16, 16)).resolve("Toy-v0", ACTION, 1000)
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    far = state.actor | {"mean.bias": jnp.asarray([40.0, -40.0])}
    rows = np.zeros((1, 4, 2 * OBS + ACTION + 2), np.float32)
    updated, value, metrics = jax.jit(algorithm.update)(
        state._replace(actor=far), jnp.asarray(rows), jax.random.key(0)
    )
    assert all(np.isfinite(np.asarray(x)).all() for x in (value, *metrics.values()))
    assert all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(updated))
    # log(1 - tanh(x)^2) = 2 (log 2 - |x|) far out: of the order of 2 * 40 for each coordinate.
    assert float(metrics["policy/entropy"]) < -100.0


def test_log_std_stays_within_its_bounds():
    obs = 1e4 * jax.random.normal(jax.random.key(1), (100, OBS))
    _, log_std = outputs(untrained(ACTION), obs)
    assert -5.0 <= float(log_std.min()) < -4.9 and 1.9 < float(log_std.max()) <= 2.0


def test_one_update_by_hand():
    config = SACConfig(**networks(16, 16)).resolve("Toy-v0", ACTION, 1000)
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

    next_action, next_log_prob = sample(state.actor, next_obs, jax.random.normal(target_key, (8, ACTION)))
    next_value = np.minimum(*(np.asarray(q) for q in state.target(next_obs, next_action)))
    soft = next_value - np.exp(-0.7) * np.asarray(next_log_prob)
    y = reward + 0.99 * (1 - terminated) * soft
    first, second = (np.asarray(q) for q in state.critic(obs, action))

    updated, value, metrics = jax.jit(algorithm.update)(state, jnp.asarray(rows), key)
    np.testing.assert_allclose(value, (first.mean() + second.mean()) / 2, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(
        metrics["losses/qf_loss"], np.mean((first - y) ** 2) + np.mean((second - y) ** 2), rtol=2e-4
    )
    chosen, log_prob = sample(state.actor, obs, jax.random.normal(actor_key, (8, ACTION)))
    q = np.minimum(*(np.asarray(q) for q in updated.critic(obs, chosen)))
    np.testing.assert_allclose(
        metrics["losses/actor_loss"], np.mean(np.exp(-0.7) * np.asarray(log_prob) - q), rtol=2e-4, atol=1e-5
    )
    # More entropy than asked for, so the temperature falls, at first by its learning rate.
    assert metrics["policy/entropy"] > -ACTION
    np.testing.assert_allclose(updated.log_alpha, -0.7 - config.alpha_lr, rtol=1e-3)
    moved = updated.target.members[0].layers[0].weight - state.target.members[0].layers[0].weight
    whole = updated.critic.members[0].layers[0].weight - state.target.members[0].layers[0].weight
    np.testing.assert_allclose(moved, 0.005 * whole, atol=1e-7)
