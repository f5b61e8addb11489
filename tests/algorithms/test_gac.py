"""GAC: sizes, the learning rule against a plain computation, and a probe with a known answer."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import environments, sphere
from geoact.algorithms import build
from geoact.algorithms.gac import GACState
from geoact.config import GACConfig, RunConfig
from geoact.policies import GeometricPolicy
from geoact.replay import row_width
from geoact.training import Training, evaluate, train
from tests.probes import TARGET

OBS, ACTION = 5, 3


def resolved(**settings: object) -> GACConfig:
    small = GACConfig(hidden_size=16, batch_size=32)
    return dataclasses.replace(small, **settings).resolve("Test-v0", ACTION, 10**6)  # pyright: ignore[reportArgumentType]


def parameters(policy: GeometricPolicy) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(policy))


def outputs(policy: GeometricPolicy) -> int:
    """Numbers the heads put out."""
    heads = [policy.direction, policy.concentration and policy.concentration[-1], policy.scale]
    return sum(head.weight.shape[0] for head in heads if head is not None)


@pytest.mark.parametrize("d", [2, 6, 17])
def test_output_and_parameter_counts_are_the_papers(d):
    def policy(config: GACConfig) -> GeometricPolicy:
        return GeometricPolicy(jax.random.key(0), 17, d, 256, config.resolve("Test-v0", d, 10**6).head())

    fixed, scale = policy(GACConfig()), policy(GACConfig(scale="learned"))
    assert outputs(fixed) == d + 1
    assert outputs(scale) == 2 * d + 1
    assert scale.scale is not None
    assert scale.scale.weight.size == 64 * d  # the paper's "+384 parameters" at d = 6
    assert parameters(scale) - parameters(fixed) == 64 * d + d


def rows(key: int = 0, count: int = 32) -> np.ndarray:
    rng = np.random.default_rng(key)
    data = rng.standard_normal((1, count, row_width(OBS, ACTION))).astype(np.float32)
    data[..., OBS : OBS + ACTION] = rng.uniform(-1, 1, (1, count, ACTION))
    data[..., OBS + ACTION + 1] = rng.integers(0, 2, (1, count))
    return data


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"exploration": "entropy"},
        {"exploration": "none"},
        {"scale": "learned"},
        {"slack": 1, "exploration": "entropy"},
        {"critic_action": "raw"},
        {"concentration": "published", "normalize_mixture": False},
    ],
)
def test_losses_are_the_papers_equations(settings):
    """The reported losses against the equations written out in NumPy from the networks' outputs."""
    config = resolved(**settings)
    algorithm = build(config, OBS, ACTION)
    state: GACState = algorithm.init(jax.random.key(0))
    data, key = rows(), jax.random.key(1)
    target_key, actor_key = jax.random.split(jax.random.split(key, 1)[0])
    o, a = OBS, OBS + ACTION
    obs, action, reward, terminated, next_obs = np.split(data[0], (o, a, a + 1, a + 2), axis=-1)

    def play(observation: np.ndarray, noise_key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        out = state.actor.outputs(jnp.asarray(observation))
        noise = np.asarray(state.actor.noise(noise_key, (len(observation),)))
        mu, w = np.asarray(out.direction), np.asarray(out.weight)
        v = w * mu + (1 - w) * noise
        if config.normalize_mixture:
            v /= np.linalg.norm(v, axis=-1, keepdims=True)
        chosen = np.asarray(out.scale) * v[:, :ACTION]
        price = np.zeros(len(observation))
        if config.exploration == "kappa":
            price = np.asarray(out.kappa)
        if config.exploration == "entropy":  # alpha starts at 1
            price = -sphere.entropy_exact(np.asarray(out.kappa), ACTION + config.head().slack)
        return (np.clip(chosen, -1, 1) if config.critic_action == "executed" else chosen), price

    next_action, next_price = play(next_obs, target_key)
    q_next = np.minimum(
        *(np.asarray(q) for q in state.target(jnp.asarray(next_obs), jnp.asarray(next_action)))
    )
    y = reward[:, 0] + 0.99 * (1 - terminated[:, 0]) * (q_next - next_price)
    first, second = (np.asarray(q) for q in state.critic(jnp.asarray(obs), jnp.asarray(action)))
    critic_loss = np.mean((first - y) ** 2) + np.mean((second - y) ** 2)
    chosen, price = play(obs, actor_key)

    updated, metrics = jax.jit(algorithm.update)(state, jnp.asarray(data), key)
    np.testing.assert_allclose(metrics["losses/critic"], critic_loss, rtol=2e-4)
    # The actor is judged by the critic after its step.
    q = np.minimum(*(np.asarray(v) for v in updated.critic(jnp.asarray(obs), jnp.asarray(chosen))))
    np.testing.assert_allclose(metrics["losses/actor"], np.mean(price - q), rtol=2e-4, atol=1e-5)
    # Adam's first step has the size of the learning rate, wherever there is a gradient.
    moved = np.abs(np.asarray(updated.critic.first.layers[0].weight - state.critic.first.layers[0].weight))
    np.testing.assert_allclose(np.median(moved), config.critic_lr, rtol=1e-2)


def test_alpha_falls_while_there_is_more_entropy_than_asked_for():
    config = resolved(exploration="entropy")
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    updated, metrics = jax.jit(algorithm.update)(state, jnp.asarray(rows()), jax.random.key(1))
    assert metrics["policy/entropy"] > -ACTION
    np.testing.assert_allclose(updated.log_alpha, -config.alpha_lr, rtol=1e-3)


def test_a_scan_over_batches_makes_one_update_for_each():
    algorithm = build(resolved(), OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    both = jnp.concatenate([jnp.asarray(rows(0)), jnp.asarray(rows(1))])
    updated, _ = jax.jit(algorithm.update)(state, both, jax.random.key(1))
    assert int(updated.critic_optimizer[0].count) == 2
    assert int(updated.actor_optimizer[0].count) == 2


def probe_run(settings: GACConfig, timesteps: int) -> tuple[Training, float]:
    config = RunConfig(
        env="tests.probes:Reach-v0",
        algorithm="gac",
        settings=settings,
        timesteps=timesteps,
        num_envs=8,
        evaluations=1,
        eval_episodes=1,
    )
    factory = environments.factory(config.env)
    training = Training(config, factory)
    train(training)
    training.close()
    return training, float(evaluate(training.policy, factory, 1).returns[0])


def test_probe_direction_and_magnitude_are_reached_with_slack():
    """The target has length 0.5: slack lets the norm of the action fall to it. The best return is 0."""
    settings = GACConfig(
        hidden_size=32,
        batch_size=64,
        radius=1.5,
        slack=1,
        exploration="entropy",
        target_entropy=-6.0,
        actor_lr=3e-3,
        critic_lr=3e-3,
        alpha_lr=1e-2,
        learning_starts=50,
    )
    training, score = probe_run(settings, 12_000)
    action = training.policy(np.zeros(2, np.float32))
    assert np.linalg.norm(action - TARGET) < 0.12, action
    assert score > -0.015


def test_probe_without_slack_keeps_the_norm():
    """The paper's form reaches the direction, and cannot reach the magnitude: every action has norm r = 0.9."""
    settings = GACConfig(
        hidden_size=32, batch_size=64, radius=0.9, actor_lr=3e-3, critic_lr=3e-3, learning_starts=50
    )
    training, score = probe_run(settings, 6_000)
    action = training.policy(np.zeros(2, np.float32))
    np.testing.assert_allclose(np.linalg.norm(action), 0.9, rtol=1e-4)
    cosine = action @ TARGET / (np.linalg.norm(action) * np.linalg.norm(TARGET))
    assert cosine > 0.98
    assert score < -0.15  # (0.9 - 0.5)^2 is the least loss at this norm


@pytest.mark.slow
def test_pendulum_trains_with_slack():
    config = RunConfig(
        env="Pendulum-v1",
        algorithm="gac",
        settings=GACConfig(exploration="entropy", updates_per_step=4, learning_starts=250),
        timesteps=40_000,
        evaluations=1,
    )
    training = Training(config, environments.factory(config.env))
    train(training)
    training.close()
    assert isinstance(training.config.settings, GACConfig) and training.config.settings.slack == 1
    assert evaluate(training.policy, environments.factory(config.env), 20).returns.mean() > -250
