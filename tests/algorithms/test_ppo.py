"""PPO: advantages, truncation, its loss and its schedule, against plain NumPy and numbers computed by hand."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import policies, runtime
from geoact.algorithms.ppo import build, gae
from geoact.algorithms.record import Rollout
from geoact.config import NORMALIZED_BOUND, PPOConfig
from geoact.errors import InputError
from geoact.networks import JAX
from geoact.policies import NetworkConfig
from geoact.training.on_policy import OnPolicyLearner
from geoact.training.progress import Row
from geoact.training.session import Session
from tests.policy_cases import by_jax
from tests.training_cases import run_config, start

OBS, ACTION = 3, 2
NETWORK = NetworkConfig((16, 16), "tanh")
CONFIG = PPOConfig(actor=NETWORK, value_hidden_sizes=(16, 16), rollout=64, minibatches=4, epochs=3)


def output(tensors: Any, obs: np.ndarray) -> np.ndarray:
    """The last layer of the policy's or the value's network."""
    return np.asarray(JAX.linear(tensors, "mean", policies.hidden(JAX, NETWORK, tensors, jnp.asarray(obs))))


def rollout(steps: int, count: int, seed: int = 0, remaining: float = 1.0) -> Rollout:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return rng.standard_normal((steps, count, *shape)).astype(np.float32)

    terminated = (rng.random((steps, count)) < 0.2).astype(np.float32)
    truncated = (1 - terminated) * (rng.random((steps, count)) < 0.2).astype(np.float32)
    return Rollout(
        normal(OBS),
        normal(ACTION),
        normal(),
        jnp.asarray(terminated),
        jnp.asarray(truncated),
        normal(OBS),
        jnp.float32(remaining),
    )


def test_advantages_equal_a_plain_loop():
    data = rollout(20, 3)
    rng = np.random.default_rng(1)
    value, next_value = (rng.standard_normal((20, 3)).astype(np.float32) for _ in range(2))
    expected = np.zeros((20, 3))
    for env in range(3):
        later = 0.0
        for t in reversed(range(20)):
            goes_on, bootstraps = 1.0, 1.0
            if data.terminated[t, env]:
                goes_on, bootstraps = 0.0, 0.0
            elif data.truncated[t, env]:
                goes_on = 0.0
            delta = data.reward[t, env] + 0.9 * bootstraps * next_value[t, env] - value[t, env]
            later = delta + 0.9 * 0.8 * goes_on * later
            expected[t, env] = later
    got = gae(data, jnp.asarray(value), jnp.asarray(next_value), 0.9, 0.8)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_truncation_by_hand():
    """Two steps, gamma 1/2, lambda 1: rewards 1 and 2, values 4 and 8, next values 8 and 6."""

    def advantages(terminated: float, truncated: float) -> list[float]:
        column = lambda *x: jnp.asarray(x, jnp.float32)[:, None]  # noqa: E731
        data = rollout(2, 1)._replace(
            reward=column(1, 2), terminated=column(0, terminated), truncated=column(0, truncated)
        )
        return gae(data, column(4, 8), column(8, 6), 0.5, 1.0)[:, 0].tolist()

    # Last step: 2 + 0.5 * 6 - 8 = -3 where it was cut off; 2 - 8 = -6 where it ended.
    # First step: 1 + 0.5 * 8 - 4 = 1, and half of the last one's.
    assert advantages(0, 1) == [1 - 1.5, -3.0]
    assert advantages(1, 0) == [1 - 3.0, -6.0]
    assert advantages(0, 0) == [1 - 1.5, -3.0]  # a rollout's end is no episode's end: it bootstraps


def test_one_minibatch_by_hand():
    config = dataclasses.replace(
        CONFIG, minibatches=1, epochs=2, entropy_weight=0.01, max_gradient_norm=1e9, learning_rate=0.1
    )
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    data = rollout(8, 4, remaining=0.5)
    updated, mean_value, metrics = jax.jit(algorithm.update)(state, data, jax.random.key(1))
    # Both passes see all samples, so the second's loss is that of the parameters after the first step.
    once = build(dataclasses.replace(config, epochs=1), OBS, ACTION)
    after, first_value, first_metrics = jax.jit(once.update)(state, data, jax.random.key(1))
    obs, action = (np.asarray(x).reshape(32, -1) for x in (data.obs, data.action))
    value = output(state.value, obs)[:, 0]
    next_value = output(state.value, np.asarray(data.next_obs).reshape(32, -1))[:, 0]
    then, after_it = (jnp.asarray(x.reshape(8, 4)) for x in (value, next_value))
    advantage = np.asarray(gae(data, then, after_it, 0.99, 0.95)).ravel()

    def log_prob(actor: Any) -> np.ndarray:
        mean, std = output(actor, obs), np.exp(np.asarray(actor["log_std"]))
        return np.sum(-0.5 * ((action - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi), axis=1)

    scaled = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    np.testing.assert_allclose(first_metrics["losses/policy_loss"], -scaled.mean(), atol=1e-5)
    assert float(first_metrics["losses/approx_kl"]) == 0.0  # old and new are the same policy
    ratio = np.exp(log_prob(after.actor) - log_prob(state.actor))
    assert (np.abs(ratio - 1) > 0.2).any()
    expected = -np.mean(np.minimum(ratio * scaled, np.clip(ratio, 0.8, 1.2) * scaled))
    np.testing.assert_allclose(metrics["losses/policy_loss"], expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["losses/approx_kl"], np.mean(ratio - 1 - np.log(ratio)), rtol=1e-3)
    np.testing.assert_allclose(metrics["losses/clipfrac"], np.mean(np.abs(ratio - 1) > 0.2), atol=1e-6)
    new, target = output(after.value, obs)[:, 0], advantage + value
    near = value + np.clip(new - value, -0.2, 0.2)
    assert (near != new).any()
    expected = np.mean((near - target) ** 2)
    np.testing.assert_allclose(metrics["losses/value_loss"], expected, rtol=1e-3)
    np.testing.assert_allclose(
        first_metrics["losses/entropy"], ACTION * 0.5 * np.log(2 * np.pi * np.e), rtol=1e-5
    )
    np.testing.assert_allclose(
        metrics["losses/explained_variance"], 1 - np.var(advantage) / np.var(target), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(first_value, value.mean(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mean_value, new.mean(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["charts/learning_rate"], 0.05, rtol=1e-6)
    assert int(updated.optimizer[1].count) == 2


def test_starting_weights_are_orthogonal():
    state = build(PPOConfig(), 17, 6).init(jax.random.key(0))
    hidden, mean = (np.asarray(state.actor[f"{name}.weight"]) for name in ("backbone.1", "mean"))
    value = np.asarray(state.value["mean.weight"])
    np.testing.assert_allclose(hidden @ hidden.T, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(mean @ mean.T, 1e-4 * np.eye(6), atol=1e-8)
    np.testing.assert_allclose(value @ value.T, [[1.0]], atol=1e-5)
    assert not np.any(state.actor["backbone.1.bias"]) and not np.any(state.actor["log_std"])


@pytest.mark.parametrize(("actor", "value"), [((5,), (4, 6, 3)), ((4, 6, 3), (5,))])
def test_networks_of_any_depth(actor, value):
    config = dataclasses.replace(CONFIG, actor=NetworkConfig(actor, "silu", True), value_hidden_sizes=value)
    algorithm = build(config, OBS, ACTION)
    state = algorithm.init(jax.random.key(0))
    assert sum(name.endswith(".weight") for name in state.actor) == len(actor) + 1
    assert sum(name.endswith(".weight") for name in state.value) == len(value) + 1
    updated, _, metrics = jax.jit(algorithm.update)(state, rollout(16, 4), jax.random.key(1))
    assert all(np.isfinite(np.asarray(x)).all() for x in metrics.values())
    for name, tensor in state.actor.items():
        assert (np.asarray(updated.actor[name]) != np.asarray(tensor)).any(), name


def test_the_bound_on_values_is_that_of_the_rewards_learned_from():
    """Normalised rewards are at most 10: whatever the environment pays, the value is at most 11 / (1 - gamma)."""
    for largest in (0.0, 5.0, 1e6):
        bound = build(CONFIG, OBS, ACTION).value_bound(largest)
        np.testing.assert_allclose(bound, (1 + NORMALIZED_BOUND) / 0.01, rtol=1e-9)
        plain = build(dataclasses.replace(CONFIG, normalize_reward=False), OBS, ACTION).value_bound(largest)
        np.testing.assert_allclose(plain, (1 + largest) / 0.01, rtol=1e-9)


def counting(timesteps: int, **changes: Any) -> Session:
    settings = dataclasses.replace(CONFIG, **changes)
    return start(
        run_config("ppo", settings, timesteps, num_envs=4, evaluations=2, eval_episodes=2, log_points=4)
    )


def learner(session: Session) -> OnPolicyLearner:
    assert isinstance(session.learner, OnPolicyLearner)
    return session.learner


def test_the_rollout_holds_what_happened():
    with counting(64, normalize_obs=False, normalize_reward=False) as session:
        session.train()
    data = learner(session)._rollout.arrays
    assert learner(session)._rollout.full
    obs, next_obs = data["obs"].reshape(-1, 2), data["next_obs"].reshape(-1, 2)
    np.testing.assert_array_equal(obs[:, 0], next_obs[:, 0])  # inside one episode
    np.testing.assert_array_equal(obs[:, 1] + 1, next_obs[:, 1])
    np.testing.assert_array_equal(data["reward"].ravel(), next_obs[:, 1])
    ends = next_obs[:, 1] == 1 + obs[:, 0].astype(int) % 5
    even = obs[:, 0] % 2 == 0
    np.testing.assert_array_equal(data["terminated"].ravel(), ends & even)
    np.testing.assert_array_equal(data["truncated"].ravel(), ends & ~even)


def test_schedule_normalisation_and_policy_file(tmp_path):
    rows: list[Row] = []
    with counting(4 * 64 + 20) as session:  # the last 20 transitions do not fill a rollout
        assert session.train(lambda row: rows.append(row))
    assert session.timesteps == 276
    assert session.updates == 4 * 3 * 4
    rates = sorted({row["charts/learning_rate"] for row in rows if "charts/learning_rate" in row})
    np.testing.assert_allclose(rates[0], 3e-4 / 4, rtol=1e-6)  # the last of four rollouts
    normalizer = learner(session)._normalizer
    assert normalizer.observations.count == pytest.approx(276 + 4, abs=0.01)
    stored = session.policy.save(tmp_path / "policy")
    policy = runtime.load(stored)
    np.testing.assert_allclose(policy.tensors["obs_mean"], normalizer.observations.mean, rtol=1e-6)
    obs = np.array([[1000.0, 2.0], [5.0, 0.0]], np.float32)
    np.testing.assert_array_equal(policy(obs), session.policy(obs))
    expected = output_of(session, normalizer.obs(obs))
    np.testing.assert_allclose(policy.raw(obs), expected, atol=1e-5)
    np.testing.assert_allclose(by_jax(policy, obs, None), expected, atol=1e-5)


def output_of(session: Session, normalized: np.ndarray) -> np.ndarray:
    """The mean action by the parameters that the update has."""
    return output(session.learner.core.update.state.actor, normalized)


def test_the_same_seed_gives_the_same_run():
    def run() -> list[Row]:
        rows: list[Row] = []
        with counting(128) as session:
            session.train(lambda row: rows.append(row))
        return [{k: v for k, v in row.items() if k not in ("charts/SPS", "time/elapsed")} for row in rows]

    assert run() == run()


def test_a_run_too_short_for_one_rollout_is_refused():
    with pytest.raises(InputError, match=r"rollouts of 64 transitions, and the run has 40"):
        counting(40)
