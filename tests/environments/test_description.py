"""What an environment given in Python is, and whether another one fits a policy."""

import json

import gymnasium as gym
import numpy as np
import pytest

from geoact import environments
from geoact.environments import EnvDescription, compare_spaces, describe
from geoact.errors import FileFormatError
from tests import probes


def as_reported() -> gym.Env:
    """The environment of the report: another gravity, another action box, other rewards."""
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1", g=1.0), np.float32(-1.0), np.float32(1.0))
    return gym.wrappers.TransformReward(env, lambda reward: 0.1 * float(reward))


@pytest.mark.parametrize(
    ("make", "words", "rebuildable"),
    [
        (lambda: gym.make("Pendulum-v1"), "Pendulum-v1", True),
        (
            lambda: gym.make("Pendulum-v1", g=10.0),
            "an environment given in Python: Pendulum-v1 (g=10.0)",
            False,
        ),
        (
            lambda: gym.make("Pendulum-v1", max_episode_steps=50),
            "an environment given in Python: Pendulum-v1 (max_episode_steps=50)",
            False,
        ),
        (
            lambda: gym.wrappers.TimeLimit(gym.make("Pendulum-v1"), 50),
            "an environment given in Python: Pendulum-v1 (max_episode_steps=50)",
            False,
        ),
        (
            as_reported,
            "an environment given in Python: Pendulum-v1 (g=1.0) in RescaleAction, TransformReward",
            False,
        ),
        (lambda: probes.Reach(), "an environment given in Python: tests.probes.Reach", False),
        (lambda: gym.make("tests.probes:Reach-v0"), "Reach-v0", True),
        (lambda: gym.make("Pendulum-v1", render_mode="rgb_array"), "Pendulum-v1", True),
        (lambda: environments.make("walker-run"), "dm_control/walker-run-v0", True),
        (lambda: environments.make("tests.probes:Nested-v0"), "Nested-v0", True),
        (
            lambda: gym.wrappers.FlattenObservation(gym.make("Pendulum-v1")),
            "an environment given in Python: Pendulum-v1 in FlattenObservation",
            False,
        ),
    ],
)
def test_trust_01_an_environment_is_described_as_what_it_is(make, words, rebuildable):
    description = describe(make())
    assert str(description) == words and description.rebuildable == rebuildable
    data = json.loads(json.dumps(description.to_json()))
    assert EnvDescription.from_json(data) == description


def test_trust_01_arguments_that_are_no_plain_data_are_described_in_words():
    gym.register("Given-v0", entry_point=lambda **given: probes.Reach())
    description = describe(gym.make("Given-v0", given=np.ones(2)))
    assert description.kwargs == {"given": "array([1., 1.])"} and not description.rebuildable
    json.dumps(description.to_json(), allow_nan=False)


@pytest.mark.parametrize("data", [None, 3, {}, {"id": 3, "kind": "a", "kwargs": {}, "wrappers": []}, []])
def test_trust_01_a_damaged_description_is_refused(data):
    with pytest.raises(FileFormatError, match="description"):
        EnvDescription.from_json(data)


@pytest.mark.parametrize(
    ("obs_dim", "low", "high", "sentence"),
    [
        (3, [-2.0], [2.0], None),
        (4, [-2.0], [2.0], "trained on observations of 4 numbers, the environment gives 3"),
        (3, [-2.0, -2.0], [2.0, 2.0], "has 2 action dimensions, the environment 1"),
        (3, [-1.0], [2.0], "lower action limit -1 in dimension 0, the environment has -2"),
        (3, [-2.0], [1.0], "upper action limit 1 in dimension 0, the environment has 2"),
    ],
)
def test_trust_01_sizes_and_limits_are_compared(obs_dim, low, high, sentence):
    found = compare_spaces(obs_dim, low, high, gym.make("Pendulum-v1"))
    assert found is None if sentence is None else sentence in str(found)


def test_trust_01_limits_are_compared_as_they_are_stored():
    env = probes.Reach()
    env.action_space = gym.spaces.Box(-0.4, 0.4, (2,), np.float32)
    assert compare_spaces(2, [-0.4, -0.4], np.full(2, 0.4, np.float32).tolist(), env) is None
