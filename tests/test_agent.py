"""The Python API in the ecosystem's habit."""

import copy
import dataclasses
import json
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import geoact
from geoact.agent import _agent_class
from geoact.cli import main
from geoact.config import CriticConfig, RunOptions, SACConfig
from geoact.policies import NetworkConfig
from geoact.runtime import Policy
from geoact.storage import checkpoints
from geoact.storage.runs import CLOCK_KEYS, Run, find_runs
from tests.policy_cases import DEFAULT, geometric
from tests.probes import Counter, Nested, Reach
from tests.training_cases import CRITIC, TINY

SMALL = geoact.GACConfig(actor=TINY, critic=CRITIC, batch_size=8, buffer_size=500)
SAC = SACConfig(actor=TINY, critic=CRITIC, batch_size=8, buffer_size=500, learning_starts=5)
OPTIONS = RunOptions(timesteps=120, num_envs=2, evaluations=2, eval_episodes=2, log_points=6)
NO_EVALUATIONS = RunOptions(evaluations=0)
COUNTER = "tests.probes:Counter-v0"


@pytest.fixture(scope="module")
def agent() -> geoact.Agent:
    return geoact.GAC(COUNTER, SMALL, seed=1, num_envs=2).learn(60)


def sac(folder: Path | None = None, **options: Any) -> geoact.Agent:
    return geoact.SAC(COUNTER, SAC, options=dataclasses.replace(OPTIONS, **options), runs_dir=folder)


def run_of(agent: geoact.Agent) -> Run:
    assert agent.run_path is not None
    return Run(agent.run_path)


def rows_of(agent: geoact.Agent) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in run_of(agent).metrics()]


def policy_bytes(agent: geoact.Agent) -> bytes:
    return (run_of(agent).policy_path / "policy.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> geoact.Agent:
    """One long learn."""
    return sac(tmp_path_factory.mktemp("whole")).learn()


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
    loaded = geoact.load(path, env=COUNTER)
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

    agent = geoact.GAC(COUNTER, SMALL, num_envs=2)
    agent.learn(2000, callback=watch)
    assert steps == [10, 20, 30] and not agent.completed


def test_trust_02_learn_again_goes_on(tmp_path):
    agent = geoact.GAC(COUNTER, SMALL, num_envs=2, runs_dir=tmp_path)
    agent.learn(40).learn(total_timesteps=20)
    (run,) = find_runs(tmp_path)
    assert agent.run_path == run.path and agent.completed
    assert run.status() == {"state": "finished", "timesteps": 60, "total": 60}
    assert run.config().timesteps == 60
    assert run.metrics()[-1]["step"] == 60


def test_a_run_that_has_cooled_down_learns_again_when_it_is_told_to(tmp_path):
    """Its rates are zero at its end, and its end moves: by learning again, and by going on with the run."""
    agent = geoact.SAC(
        COUNTER, dataclasses.replace(SAC, cool_down=0.5), options=OPTIONS, runs_dir=tmp_path
    ).learn(40)
    lengths, policies = [], [policy_bytes(agent)]
    for goes_on in (agent, geoact.resume(run_of(agent).path)):
        goes_on.learn(40)
        settings = run_of(agent).config().settings
        assert isinstance(settings, SACConfig)
        lengths.append(settings.planned_updates)
        policies.append(policy_bytes(agent))
    assert lengths == [40 - 5, 60 - 5]  # vector steps, less those that explore
    assert len(set(policies)) == 3


def test_two_learns_are_one_long_learn(whole, tmp_path):
    """The same total from the start: stopped by a callback, and gone on with."""
    agent = sac(tmp_path)
    agent.learn(callback=lambda row: row["step"] < 60)
    assert not agent.completed and run_of(agent).state() == "stopped"
    assert not run_of(agent).locked()
    agent.learn()
    assert agent.completed and run_of(agent).status() == {"state": "finished", "timesteps": 120, "total": 120}
    assert policy_bytes(agent) == policy_bytes(whole) and rows_of(agent) == rows_of(whole)


def test_trust_18_between_two_learns_nothing_is_open(tmp_path):
    opened: list[Counter] = []
    closed: list[Any] = []

    class Watched(Counter):
        def __init__(self) -> None:
            opened.append(self)

        def close(self) -> None:
            closed.append(self)

    agent = geoact.SAC(Watched, SAC, options=OPTIONS, runs_dir=tmp_path)
    for count in (1, 2):
        agent.learn(40)
        assert not run_of(agent).locked()
        assert len(opened) == len(set(map(id, closed))) == 3 * count  # two to train in, one to evaluate in
    assert agent.predict(np.zeros(2))[0].shape == (2,)


def test_resume_goes_on_in_another_process_or_this_one(whole, tmp_path):
    first = sac(tmp_path)
    first.learn(callback=lambda row: row["step"] < 80)
    assert first.run_path is not None
    second = geoact.resume(first.run_path)
    assert isinstance(second, geoact.SAC) and second.run_path == first.run_path
    np.testing.assert_array_equal(second.predict(np.ones(2))[0], first.predict(np.ones(2))[0])
    second.learn()
    assert second.completed
    assert policy_bytes(second) == policy_bytes(whole) and rows_of(second) == rows_of(whole)


def test_a_loaded_run_acts_and_learns_on(tmp_path):
    first = sac(tmp_path).learn()
    assert first.run_path is not None
    loaded = geoact.load(first.run_path)
    obs = np.ones((3, 2))
    np.testing.assert_array_equal(loaded.predict(obs)[0], first.predict(obs)[0])
    np.testing.assert_array_equal(loaded.evaluate(2).returns, first.evaluate(2).returns)
    loaded.learn(40)
    run = run_of(loaded)
    assert loaded.completed and run.status()["timesteps"] == 160 and run.config().timesteps == 160
    assert [row["step"] for row in run.metrics()][-1] == 160


def test_a_run_without_checkpoints_acts_only(tmp_path):
    first = sac(tmp_path, keep_checkpoints=False).learn()
    assert first.run_path is not None
    loaded = geoact.load(first.run_path)
    assert loaded.predict(np.zeros(2))[0].shape == (2,)
    with pytest.raises(geoact.InputError, match="can act but not go on learning"):
        loaded.learn(10)


def test_as_a_context(tmp_path):
    with sac(tmp_path) as agent:
        agent.learn(40)
    assert agent.predict(np.zeros(2))[0].shape == (2,)  # the policy stays
    assert not run_of(agent).locked()
    agent.learn(20)  # from the run's own checkpoint
    assert run_of(agent).status()["timesteps"] == 60


def test_a_closed_agent_without_a_run_says_what_is_lost():
    with geoact.SAC(COUNTER, SAC, options=OPTIONS) as agent:
        agent.learn(40)
    with pytest.raises(geoact.InputError, match="can act but not go on learning"):
        agent.learn(20)


def test_evaluations_are_played_where_they_are_asked_for(tmp_path):
    made: list[str] = []

    class Training(Counter):
        def __init__(self) -> None:
            made.append("training")

    class Evaluating(Counter):
        def __init__(self) -> None:
            made.append("evaluating")

        def step(self, action: np.ndarray) -> Any:
            obs, _, terminated, truncated, info = super().step(action)
            return obs, 1000.0, terminated, truncated, info

    agent = geoact.SAC(Training, SAC, options=OPTIONS, eval_env=Evaluating, runs_dir=tmp_path).learn()
    assert sorted(made) == ["evaluating", "training", "training"]
    rows = [row for row in rows_of(agent) if "eval/return_mean" in row]
    assert all(row["eval/return_mean"] >= 1000.0 for row in rows) and len(rows) == 2
    assert max(row.get("charts/episodic_return", 0.0) for row in rows_of(agent)) <= 15.0
    assert agent.evaluate(2).returns.min() >= 1000.0

    assert agent.run_path is not None
    for again in (geoact.load, geoact.resume):  # where the run goes on, evaluations stay where they were
        other = again(agent.run_path, env=Training, eval_env=Evaluating)
        assert other.evaluate(1).returns.min() >= 1000.0
        other.learn(40)
        assert [row["eval/return_mean"] for row in rows_of(other) if "eval/return_mean" in row][-1] >= 1000.0
        assert rows_of(other)[-1]["step"] > rows_of(agent)[-1]["step"] - 80


def test_an_environment_of_ones_own_is_stepped_alone():
    env = Reach()
    agent = geoact.SAC(env, SAC, options=dataclasses.replace(OPTIONS, num_envs=8), eval_env=Reach).learn(60)
    assert agent.completed and agent.evaluate(2).returns.shape == (2,)
    env.reset()  # it belongs to the caller, and was not closed


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_trust_10_an_interrupted_learn_raises_with_everything_saved(name, tmp_path, whole):
    agent = sac(tmp_path)

    def interrupt(row: dict[str, float]) -> None:
        if row["step"] == 60:
            os.kill(os.getpid(), getattr(signal, name))

    with pytest.raises(KeyboardInterrupt, match="stopped at 60 transitions, everything is saved"):
        agent.learn(callback=interrupt)
    assert not agent.completed
    run = run_of(agent)
    assert run.status() == {"state": "stopped", "timesteps": 60, "total": 120} and not run.locked()
    assert checkpoints.checkpoint_folders(run.path)[-1].name.endswith("60")
    assert agent.predict(np.zeros(2))[0].shape == (2,)
    agent.learn()
    assert agent.completed
    assert policy_bytes(agent) == policy_bytes(whole) and rows_of(agent) == rows_of(whole)


def test_trust_10_without_a_run_nothing_is_said_to_be_saved():
    agent = sac()
    with pytest.raises(KeyboardInterrupt, match="what was learned is in the agent"):
        agent.learn(callback=lambda row: os.kill(os.getpid(), signal.SIGINT))
    assert agent.predict(np.zeros(2))[0].shape == (2,) and not agent.completed


def test_trust_10_a_learn_that_fails_is_not_completed(tmp_path):
    agent = sac(tmp_path).learn(40)
    assert agent.completed

    def fail(row: dict[str, float]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        agent.learn(40, callback=fail)
    assert not agent.completed and run_of(agent).state() == "failed"
    assert not run_of(agent).locked()
    assert agent.predict(np.zeros(2))[0].shape == (2,)
    agent.learn(20)
    assert agent.completed and run_of(agent).state() == "finished"


def test_environments_of_the_users_own(tmp_path):
    settings = dataclasses.replace(SMALL, normalize_obs=True)  # this one's observations are large numbers
    from_function = geoact.GAC(Counter, settings, num_envs=3).learn(30)
    assert from_function.evaluate(2).returns.shape == (2,)
    from_instance = geoact.GAC(Reach(), SMALL).learn(30)
    assert from_instance.predict(np.zeros(2))[0].shape == (2,)
    with pytest.raises(geoact.InputError, match="needs a fresh environment"):
        from_instance.evaluate()
    with pytest.raises(geoact.InputError, match="Discrete action space"):
        geoact.GAC(lambda: gym.make("CartPole-v1")).learn(10)
    # A file of a policy whose environment has no id acts all the same.
    loaded = geoact.load(from_function.save(tmp_path / "policy"))
    np.testing.assert_array_equal(loaded.predict(np.ones(2))[0], from_function.predict(np.ones(2))[0])
    with pytest.raises(geoact.InputError, match="needs a fresh environment"):
        loaded.evaluate()
    assert geoact.load(tmp_path / "policy", env=Counter).evaluate(2).returns.shape == (2,)


def test_trust_01_a_run_on_an_environment_of_ones_own_goes_on_with_it(tmp_path):
    first = geoact.SAC(Counter, SAC, options=OPTIONS, runs_dir=tmp_path)
    first.learn(callback=lambda row: row["step"] < 60)
    assert first.run_path is not None
    with pytest.raises(geoact.InputError, match=r"cannot be made from its name.*geoact\.resume"):
        geoact.resume(first.run_path).learn()
    second = geoact.resume(first.run_path, env=Counter).learn()
    assert second.completed and run_of(second).status()["timesteps"] == 120


def wrapped(**kwargs: Any) -> gym.Env:
    """An environment that no id makes."""
    made = gym.make("Pendulum-v1", **kwargs)
    rescaled = gym.wrappers.RescaleAction(made, np.float32(-1.0), np.float32(1.0))
    return gym.wrappers.TransformReward(rescaled, lambda reward: 0.1 * float(reward))


def test_trust_01_a_wrapped_environment_is_recorded_and_another_one_refused(tmp_path, capsys):
    agent = geoact.GAC(wrapped(g=1.0), SMALL, runs_dir=tmp_path).learn(30)
    path, what = str(agent.run_path), "Pendulum-v1 (g=1.0) in RescaleAction, TransformReward"
    assert what in run_of(agent).config().env_given
    for command in (["resume", path, "--timesteps", "60"], ["evaluate", path], ["play", path]):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert what in told and ", env=...)" in told and told.count("\n") == 1
    assert main(["evaluate", path, "--env", "Pendulum-v1"]) == 2
    assert "lower action limit -1 in dimension 0, the environment has -2" in capsys.readouterr().err
    with pytest.raises(
        geoact.InputError, match=r"action limits \[\[-1.0\], \[1.0\]\].*has \[\[-2.0\], \[2.0\]\]"
    ):
        geoact.resume(path, env="Pendulum-v1").learn(30)
    assert geoact.resume(path, env=wrapped(g=1.0)).learn(30).completed


def test_trust_01_a_run_that_goes_on_with_another_environment_records_it(tmp_path, capsys):
    first = geoact.GAC("Pendulum-v1", SMALL, num_envs=1, runs_dir=tmp_path, options=NO_EVALUATIONS).learn(30)
    assert first.run_path is not None and not run_of(first).config().env_given
    second = geoact.resume(first.run_path, env=gym.make("Pendulum-v1", g=1.0)).learn(30)
    assert "begun on Pendulum-v1, and goes on with an environment given in Python: Pendulum-v1 (g=1.0)" in (
        capsys.readouterr().out
    )
    assert "(g=1.0)" in run_of(second).config().env_given and run_of(second).config().timesteps == 60
    assert "did not reproduce" in run_of(second).status()["not_exact"]
    assert main(["evaluate", str(first.run_path)]) == 2  # no longer what the id makes


def test_trust_19_a_run_that_is_loaded_imports_nothing(tmp_path, monkeypatch):
    run = sac(tmp_path, evaluations=0).learn(20).run_path
    assert run is not None
    data = json.loads((run / "run.json").read_text())
    data["config"]["env"] = "no_such_module:Counter-v0"
    (run / "run.json").write_text(json.dumps(data))
    loaded = geoact.load(run)
    assert loaded.predict(np.zeros(2))[0].shape == (2,)
    with pytest.raises(geoact.InputError, match=r"would run the module 'no_such_module'.*env="):
        loaded.evaluate(1)
    assert geoact.load(run, env=COUNTER).evaluate(1).returns.shape == (1,)


def test_trust_20_numbers_of_numpy_are_numbers(tmp_path):
    three: Any = np.int64(3)
    agent = geoact.SAC(COUNTER, SAC, options=OPTIONS, seed=three, num_envs=three, runs_dir=tmp_path)
    agent.learn(10 * three).learn(total_timesteps=10 * three)
    assert run_of(agent).status() == {"state": "finished", "timesteps": 60, "total": 60}


def test_trust_16_observations_of_several_parts_are_flattened():
    agent = geoact.SAC(Nested, SAC, options=dataclasses.replace(OPTIONS, eval_steps=5)).learn(20)
    assert agent.evaluate(2).lengths.tolist() == [5, 5]
    obs = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([4.0])}
    flat, _ = agent.predict(np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(agent.predict(obs)[0], flat)


def test_a_variant_is_an_agent_of_its_algorithm(tmp_path):
    """geoact.GAC is the class of gac and of gac-scale's runs."""
    policy = geometric(dataclasses.replace(DEFAULT, radius=None, scale_max=3.5))
    spec = dataclasses.replace(policy.spec, algorithm="gac-scale")
    loaded = geoact.load(Policy(spec, policy.tensors).save(tmp_path / "policy"), env=COUNTER)
    assert isinstance(loaded, geoact.GAC) and loaded.algorithm == "gac-scale"
    assert geoact.GAC(COUNTER).algorithm == "gac"
    assert not isinstance(loaded, geoact.SAC)
    fast = geoact.GACFast(COUNTER)
    assert isinstance(fast, geoact.GAC) and fast.algorithm == "gac-fast"
    assert issubclass(geoact.SACFast, geoact.SAC) and not issubclass(geoact.SACFast, geoact.GAC)


def test_everything_can_be_chosen_in_python(tmp_path):
    settings = SACConfig(
        actor=NetworkConfig((6, 5), "silu", layer_norm=True),
        critic=CriticConfig(count=3, hidden_sizes=(7,), layer_norm=True, dropout=0.1),
        batch_size=8,
        buffer_size=500,
        n_step=2,
        normalize_obs=True,
        policy_delay=2,
    )
    agent = geoact.SAC(COUNTER, settings, options=OPTIONS, runs_dir=tmp_path).learn(60)
    assert run_of(agent).config().settings == settings.resolve(COUNTER, 2, 60, 2)
    assert agent.policy.spec.network == settings.actor
    loaded = geoact.load(agent.save(tmp_path / "policy"))
    np.testing.assert_array_equal(loaded.predict(np.ones(2))[0], agent.predict(np.ones(2))[0])


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
    with pytest.raises(geoact.InputError, match="is not a run"):
        geoact.resume(Path(__file__).parent)


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


def test_total_timesteps_is_another_name(tmp_path):
    agent = geoact.GAC(COUNTER, SMALL, num_envs=2).learn(total_timesteps=20)
    assert agent.completed
    with pytest.raises(geoact.InputError, match="two names of one number, got 20 and 30"):
        agent.learn(20, total_timesteps=30)


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_a_copy_acts_like_the_original(agent, how):
    def copied(original: geoact.Agent) -> geoact.Agent:
        return pickle.loads(pickle.dumps(original)) if how == "pickle" else copy.deepcopy(original)

    twin, obs = copied(agent), np.random.default_rng(0).standard_normal((9, 2))
    assert type(twin) is geoact.GAC
    np.testing.assert_array_equal(twin.predict(obs)[0], agent.predict(obs)[0])
    np.testing.assert_array_equal(
        twin.predict(obs, deterministic=False)[0], copied(agent).predict(obs, deterministic=False)[0]
    )
    np.testing.assert_array_equal(twin.evaluate(2).returns, agent.evaluate(2).returns)
    with pytest.raises(geoact.InputError, match="loaded or copied policy can act but not go on learning"):
        twin.learn(10)


def test_a_copy_goes_on_with_a_run(tmp_path):
    first = sac(tmp_path, timesteps=40).learn()
    twin = pickle.loads(pickle.dumps(first))
    twin.learn(20)
    assert run_of(twin).status() == {"state": "finished", "timesteps": 60, "total": 60}
    untrained = copy.deepcopy(geoact.SAC(COUNTER, SAC, options=OPTIONS))
    assert untrained.learn(20).completed


class _Mine(geoact.SAC):
    """A user's own class."""


def test_classes_survive_and_environment_objects_are_refused(agent, tmp_path):
    mine = _Mine(COUNTER, SAC)
    assert type(pickle.loads(pickle.dumps(mine))) is _Mine
    scaled = _agent_class("gac-scale")(COUNTER)  # a class without a name of its own
    assert type(pickle.loads(pickle.dumps(scaled))) is type(scaled)
    lent = geoact.GAC(Counter(), SMALL)
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(geoact.InputError, match="make it with an id or a function"):
            attempt(lent)
    loaded = geoact.load(agent.save(tmp_path / "policy"))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(loaded)).predict(np.zeros(2))[0], agent.predict(np.zeros(2))[0]
    )


def test_notebooks_show_what_an_agent_is(agent):
    assert "learned from 60 transitions" in agent._repr_html_() and "Counter-v0" in agent._repr_html_()
    assert repr(geoact.GAC(COUNTER)) == f"<GAC on {COUNTER}: has not learned yet>"
