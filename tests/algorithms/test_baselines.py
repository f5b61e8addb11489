"""What every baseline must get right, on environments with known answers; and the NumPy runtime beside JAX."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geoact
from geoact import algorithms, cli, environments, policies, runtime
from geoact.config import AlgorithmConfig, CriticConfig, PPOConfig, SACConfig, TD3Config, defaults
from geoact.networks import JAX
from geoact.policies import NetworkConfig
from geoact.runtime import Policy, PolicySpec
from geoact.training.evaluation import evaluate
from geoact.training.session import Session
from tests.policy_cases import by_jax
from tests.probes import TARGET
from tests.training_cases import networks, run_config
from tests.training_cases import trained as trained_with

SMALL: dict[str, Any] = {
    "batch_size": 64,
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "learning_starts": 50,
    "buffer_size": 20_000,
}
# A target far below reach lets the temperature fall to nothing, so that values are those of the rewards alone.
SAC = SACConfig(**SMALL, **networks(32, 32), gamma=0.5, target_entropy=-50.0, alpha_lr=3e-2, tau=0.02)
TD3 = TD3Config(
    **SMALL,
    actor=NetworkConfig((32, 32)),
    critic=CriticConfig(hidden_sizes=(32, 32), actor_value="one"),
    gamma=0.5,
    tau=0.02,
)
PPO = PPOConfig(
    gamma=0.5,
    learning_rate=3e-3,
    rollout=512,
    minibatches=8,
    normalize_obs=False,
    normalize_reward=False,
    actor=NetworkConfig((32, 32), "tanh"),
    value_hidden_sizes=(32, 32),
)
NAMES: dict[type[AlgorithmConfig], str] = {SACConfig: "sac", TD3Config: "td3", PPOConfig: "ppo"}
SITUATIONS = jnp.eye(4)
VALUES = np.array([1.0, 0.5, 1.0, 2.0])


def trained(env: str, settings: AlgorithmConfig, timesteps: int) -> Session:
    name = NAMES[type(settings)]
    return trained_with(run_config(name, settings, timesteps, env, evaluations=1, eval_episodes=1))


@pytest.mark.parametrize(
    "settings", [pytest.param(SAC, id="sac", marks=pytest.mark.slow), pytest.param(TD3, id="td3")]
)
def test_values_of_reward_discount_termination_and_truncation(settings):
    state = trained("Situations", settings, 16_000).learner.core.update.state
    for action in (-0.9, 0.0, 0.9):  # no action matters here
        first, second = state.critic(SITUATIONS, jnp.full((4, 2), action))
        np.testing.assert_allclose(first, VALUES, atol=0.12)
        np.testing.assert_allclose(second, VALUES, atol=0.12)


@pytest.mark.slow
def test_values_of_reward_discount_termination_and_truncation_by_ppo():
    state = trained("Situations", PPO, 40 * 512).learner.core.update.state
    hidden = policies.hidden(JAX, NetworkConfig((32, 32), "tanh"), state.value, SITUATIONS)
    np.testing.assert_allclose(JAX.linear(state.value, "mean", hidden)[:, 0], VALUES, atol=0.12)


@pytest.mark.parametrize(
    ("settings", "timesteps"),
    [
        pytest.param(SAC, 12_000, id="sac"),
        pytest.param(TD3, 12_000, id="td3", marks=pytest.mark.slow),
        pytest.param(PPO, 40 * 512, id="ppo", marks=pytest.mark.slow),
    ],
)
def test_the_target_is_reached(settings, timesteps):
    """Best return 0, at an action inside the box."""
    session = trained("Reach", settings, timesteps)
    action = session.policy(np.zeros(2, np.float32))
    assert np.linalg.norm(action - TARGET) < 0.1, action
    assert evaluate(session.policy, environments.factory("tests.probes:Reach-v0"), 1).returns[0] > -0.01


@pytest.mark.parametrize("name", ["gac", "sac", "td3", "ppo"])
def test_runtime_equals_jax_and_survives_a_file(name, tmp_path):
    obs_dim, action_dim = 5, 3
    settings = defaults(name).resolve("Toy-v0", action_dim, 10**6)
    settings = dataclasses.replace(settings, actor=dataclasses.replace(settings.actor, hidden_sizes=(16, 12)))
    algorithm = algorithms.build(name, settings, obs_dim, action_dim)
    state = algorithm.init(jax.random.key(0))
    state = state._replace(actor=jax.tree.map(lambda x: 3.0 * x + 0.1, state.actor))  # away from the start
    rng = np.random.default_rng(0)
    obs = (rng.standard_normal((64, obs_dim)) * np.logspace(-2, 1, 64)[:, None]).astype(np.float32)
    tensors = {name: np.array(tensor) for name, tensor in algorithm.policy(state).items()}
    if settings.normalize_obs:
        mean, std = (
            x.astype(np.float32) for x in (rng.standard_normal(obs_dim), rng.uniform(0.1, 2, obs_dim))
        )
        tensors |= {"obs_mean": mean, "obs_std": std}
    spec = PolicySpec(
        kind=settings.kind,
        head=settings.head(),
        network=settings.actor,
        obs_dim=obs_dim,
        action_low=(-1.0, -0.4, 0.1),
        action_high=(1.0, 0.4, 0.7),
        algorithm=name,
        env="Toy-v0",
        obs_clip=10.0 if settings.normalize_obs else None,
    )
    Policy(spec, tensors).save(tmp_path / "policy")
    policy = runtime.load(tmp_path / "policy")
    assert policy.spec == spec
    noise = policy.noise(np.random.default_rng(7), len(obs))
    assert noise.shape == (64, action_dim) and noise.dtype == np.float32
    for given, generator in ((None, None), (noise, np.random.default_rng(7))):
        expected = by_jax(policy, obs, given)
        np.testing.assert_allclose(policy.raw(obs, given), expected, rtol=1e-5, atol=1e-5)
        if given is None:
            np.testing.assert_allclose(policy.raw(obs[3]), expected[3], rtol=1e-5, atol=1e-5)
        low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
        np.testing.assert_allclose(
            policy(obs, generator), low + (np.clip(expected, -1, 1) + 1) * (high - low) / 2, atol=1e-5
        )


@pytest.mark.parametrize("name", ["ppo", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sac", "td3"))])
def test_by_command_and_by_import(name, tmp_path, capsys):
    """A run made by the command line is evaluated by it, and loaded, played and saved in Python."""
    arguments = ["tests.probes:Reach-v0", "--algorithm", name, "--actor.hidden-sizes", "8"]
    if name == "ppo":
        arguments += ["--timesteps", "256", "--rollout", "128", "--minibatches", "2", "--epochs", "1"]
    else:
        arguments += ["--timesteps", "256", "--critic.hidden-sizes", "8", "--batch-size", "8"]
    arguments += ["--evaluations", "1", "--eval-episodes", "2", "--runs-dir", str(tmp_path / "runs")]
    assert cli.main(["train", *arguments]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    capsys.readouterr()
    assert cli.main(["evaluate", str(run), "--episodes", "2", "--json"]) == 0
    assert f'"algorithm": "{name}"' in capsys.readouterr().out
    agent = geoact.load(run)
    assert type(agent) is {"sac": geoact.SAC, "td3": geoact.TD3, "ppo": geoact.PPO}[name]
    obs = np.zeros(2, np.float32)
    action, _ = agent.predict(obs)
    again = geoact.load(agent.save(tmp_path / "kept"))
    np.testing.assert_array_equal(again.predict(obs)[0], action)
    assert (agent.predict(obs, deterministic=False)[0] != action).any()


def test_a_configuration_of_another_algorithm_is_refused():
    with pytest.raises(geoact.InputError, match="sac takes a SACConfig, got TD3Config"):
        geoact.SAC("Pendulum-v1", TD3Config())
