"""What an environment must be and give, and the sentence where it is or does not."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from geoact import environments
from geoact.environments import Environments, checks
from geoact.errors import InputError, TrainingFailed
from tests import probes


def test_trust_04_one_object_several_times_is_refused():
    env = probes.Reach()
    for factory in (lambda: env, lambda: gym.wrappers.TimeLimit(env, 5)):
        with pytest.raises(
            InputError, match=r"Reach gave the same environment twice: .*make a new one each time"
        ):
            Environments("Reach", factory, 2, 0)
    Environments("Reach", lambda: env, 1, 0).close()


def test_trust_04_evaluation_environments_are_not_those_trained_on():
    env = probes.Reach()
    envs = Environments("Reach", lambda: env, 1, 0)
    with pytest.raises(InputError, match="same environment twice"):
        checks.several(lambda: env, 1, "Reach", apart_from=envs.made)
    assert len(checks.several(probes.Reach, 3, "Reach", apart_from=envs.made)) == 3


class Old(probes.Probe):
    """An environment in the words of the old gym."""

    def __init__(self, what: str):
        self.what = what

    def reset(self, **given: Any) -> Any:
        if self.what == "seedless" and given:
            raise TypeError("Old.reset() got an unexpected keyword argument 'seed'")
        obs = super().reset()[0]
        return obs if self.what == "reset" else (obs, {})

    def step(self, action: np.ndarray) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return (
            (obs, reward, terminated, info)
            if self.what == "step"
            else (obs, reward, terminated, truncated, info)
        )


OLD = [
    ("seedless", "has a reset that does not take seed and options"),
    ("reset", "has a reset that does not return .observation, info."),
    ("step", "has a step that returns 4 values, expected .observation, reward, terminated, truncated, info."),
]


@pytest.mark.parametrize(("what", "sentence"), OLD)
@pytest.mark.parametrize("wrapped", [False, True])
def test_trust_20_the_old_interface_is_named(what, sentence, wrapped):
    def make() -> gym.Env:
        return gym.wrappers.TimeLimit(Old(what), 5) if wrapped else Old(what)

    with pytest.raises(InputError, match=f"Mine {sentence}.*old gym"):
        Environments("Mine", make, 2, 0).step(np.zeros((2, 2), np.float32))
    with pytest.raises(InputError, match=f"Mine {sentence}.*old gym"):  # noqa: PT012
        env = make()
        checks.reset(env, 3, "Mine")
        checks.step(env, np.zeros(2), "Mine")


def test_trust_20_errors_of_another_kind_stay_what_they_are():
    class Broken(probes.Probe):
        def step(self, action: np.ndarray) -> Any:
            raise ValueError("my own mistake")

    envs = Environments("Mine", Broken, 2, 0)
    with pytest.raises(ValueError, match="my own mistake"):
        envs.step(np.zeros((2, 2), np.float32))


def test_trust_20_what_is_no_environment_is_named():
    with pytest.raises(InputError, match=r"Mine is a builtins\.int: expected a Gymnasium environment"):
        environments.checked(3, "Mine")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("probe", "field", "where"),
    [
        (probes.BrokenObservation, "observation", "step"),
        (probes.BrokenReward, "reward", "step"),
        (probes.BrokenReset, "observation", "reset"),
    ],
)
def test_trust_17_an_evaluation_stops_at_a_bad_number_by_name(probe, field, where):
    env = probe()
    with pytest.raises(TrainingFailed, match=rf"Mine gave a non-finite {field} \(evaluation, {where}\)"):  # noqa: PT012
        checks.reset(env, 0, "Mine")
        for _ in range(10):
            checks.step(env, np.zeros(2, np.float32), "Mine")


@pytest.mark.parametrize("probe", [probes.BrokenObservation, probes.BrokenReward])
def test_trust_17_after_a_bad_number_the_state_is_the_one_before_the_step(probe):
    envs = Environments("Mine", probe, 2, 0)
    for _ in range(6):
        envs.step(np.zeros((2, 2), np.float32))
    before = envs.state()
    with pytest.raises(TrainingFailed, match="non-finite"):
        envs.step(np.zeros((2, 2), np.float32))
    after = envs.state()
    assert after[1] == before[1] and before[1]["steps"] == 6
    for name, array in before[0].items():
        np.testing.assert_array_equal(after[0][name], array)


SPACES: list[spaces.Space] = [
    spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Box(-1, 1, (2, 3)), "c": spaces.Box(-1, 1, ())}),
    spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Dict({"x": spaces.Box(-1, 1, (3,))})]),
    spaces.Box(-1, 1, (4,)),
    spaces.Box(-1, 1, (2, 2)),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_trust_16_an_observation_becomes_the_vector_that_was_trained_on(space):
    space.seed(0)
    single = [space.sample() for _ in range(3)]
    vectors = [checks.flatten_observation(space, obs) for obs in single]
    for obs, vector in zip(single, vectors):
        np.testing.assert_array_equal(vector, spaces.flatten(space, obs))
    batch = stack(single)
    np.testing.assert_array_equal(checks.flatten_observation(space, batch), np.stack(vectors))


def stack(many: list[Any]) -> Any:
    """A batch: the leading axis is in every part."""
    if isinstance(many[0], dict):
        return {key: stack([one[key] for one in many]) for key in reversed(many[0])}
    if isinstance(many[0], tuple):
        return tuple(stack(list(parts)) for parts in zip(*many))
    return np.stack(many)


@pytest.mark.parametrize(
    ("obs", "sentence"),
    [
        ({"a": np.zeros(3)}, "expected an observation with the parts a, b, got a dict with a"),
        (np.zeros(4), "expected an observation with the parts a, b, got a ndarray with none"),
        ({"a": np.zeros(3), "b": np.zeros(2)}, r"expected an observation of shape \(1,\), got \(2,\)"),
        ({"a": np.zeros((5, 3)), "b": np.zeros(1)}, "batches of different sizes"),
    ],
)
def test_trust_16_what_is_no_such_observation_is_named(obs, sentence):
    with pytest.raises(InputError, match=sentence):
        checks.flatten_observation(probes.Nested.observation_space, obs)
