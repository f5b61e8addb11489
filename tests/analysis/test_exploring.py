"""Exploring episodes: where they start, what they hold, and the rewards that followed each state."""

import dataclasses

import numpy as np

from geoact import environments
from geoact.analysis.exploring import Episode, explore
from geoact.policies import DeterministicHead
from geoact.runtime import Policy
from tests.policy_cases import make
from tests.training_cases import TINY


def test_returns_to_go_by_hand():
    episode = Episode(np.zeros((3, 1), np.float32), np.array([1.0, 2.0, 4.0]), terminated=True)
    np.testing.assert_allclose(episode.returns_to_go(0.5), [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4])


def test_an_episode_starts_from_its_seed_and_ends_where_the_environment_does():
    env = environments.make("Pendulum-v1")
    made = make("deterministic", DeterministicHead(0.1), TINY, obs_dim=3, action_dim=1)
    policy = Policy(dataclasses.replace(made.spec, env="Pendulum-v1"), made.tensors)
    first, second = explore(policy, 2, seed=5)
    for i, episode in enumerate((first, second)):
        np.testing.assert_array_equal(episode.obs[0], env.reset(seed=5 + i)[0])
        assert len(episode.obs) == len(episode.rewards) == 200 and not episode.terminated
    env.close()
