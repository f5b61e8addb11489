"""The Python API in the ecosystem's habit."""

import gymnasium as gym
import numpy as np
import pytest

import geoact
from geoact.runs import find_runs
from tests.probes import Counter, Reach

SMALL = geoact.GACConfig(hidden_size=8, batch_size=8, buffer_size=500)


@pytest.fixture(scope="module")
def agent() -> geoact.Agent:
    return geoact.GAC("tests.probes:Counter-v0", SMALL, seed=1, num_envs=2).learn(60)


def test_predict_takes_one_or_many_observations(agent):
    one, state = agent.predict(np.zeros(2))
    assert one.shape == (2,) and state is None
    many, state = agent.predict(np.zeros((5, 2)), state="kept", episode_start=np.ones(5))
    assert many.shape == (5, 2) and state == "kept"
    np.testing.assert_allclose(many, np.tile(one, (5, 1)), rtol=1e-5, atol=1e-6)
    low, high = [-2.0, 0.0], [2.0, 10.0]
    assert (many >= low).all() and (many <= high).all()
    noisy, _ = agent.predict(np.zeros((100, 2)), deterministic=False)
    assert len(np.unique(noisy, axis=0)) > 1


def test_save_and_load(agent, tmp_path):
    path = agent.save(tmp_path / "policy")
    loaded = geoact.load(path)
    assert isinstance(loaded, geoact.GAC)
    obs = np.random.default_rng(0).standard_normal((9, 2))
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    np.testing.assert_array_equal(loaded.evaluate(3).returns, agent.evaluate(3).returns)
    with pytest.raises(geoact.InputError, match="can act but not go on learning"):
        loaded.learn(10)


def test_a_callback_sees_each_log_point_and_can_stop():
    steps: list[float] = []

    def watch(row: dict[str, float]) -> bool:
        steps.append(row["step"])
        return len(steps) < 3

    geoact.GAC("tests.probes:Counter-v0", SMALL, num_envs=2).learn(2000, callback=watch)
    assert steps == [10, 20, 30]


def test_learn_again_goes_on(tmp_path):
    agent = geoact.GAC("tests.probes:Counter-v0", SMALL, num_envs=2, runs_dir=tmp_path)
    agent.learn(40).learn(20)
    (run,) = find_runs(tmp_path)
    assert run.status()["timesteps"] == 60
    assert run.metrics()[-1]["step"] == 60


def test_environments_of_the_users_own():
    from_function = geoact.GAC(Counter, SMALL, num_envs=3).learn(30)
    assert from_function.evaluate(2).returns.shape == (2,)
    from_instance = geoact.GAC(Reach(), SMALL).learn(30)
    assert from_instance.predict(np.zeros(2))[0].shape == (2,)
    with pytest.raises(geoact.InputError, match="needs fresh environments"):
        from_instance.evaluate()
    with pytest.raises(geoact.InputError, match="Discrete action space"):
        geoact.GAC(lambda: gym.make("CartPole-v1")).learn(10)


def test_misuse_is_explained(agent):
    with pytest.raises(geoact.InputError, match="has not learned yet"):
        geoact.GAC("Pendulum-v1").predict(np.zeros(3))
    with pytest.raises(geoact.InputError, match="takes observations of 2 numbers"):
        agent.predict(np.zeros(3))
    with pytest.raises(geoact.InputError, match="NaN or an infinity"):
        agent.predict(np.array([np.nan, 0.0]))
    with pytest.raises(geoact.InputError, match="takes a GACConfig"):
        geoact.GAC("Pendulum-v1", config=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        _ = geoact.NoSuch  # pyright: ignore[reportAttributeAccessIssue]


def test_stable_baselines3_accepts_our_model():
    """Runs where Stable-Baselines3 is installed: make test-peers."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    agent = geoact.GAC("Pendulum-v1", SMALL, num_envs=2).learn(60)
    env = gym.make("Pendulum-v1")
    returns, lengths = evaluation.evaluate_policy(
        agent, env, n_eval_episodes=3, return_episode_rewards=True, warn=False
    )
    assert lengths == [200, 200, 200]
    assert all(-2000 < value < 0 for value in returns)
