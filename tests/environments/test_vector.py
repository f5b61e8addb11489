"""Episodes are known: true final observations, own seeds, actions in the environment's units."""

import numpy as np
import pytest

from geoact import environments
from geoact.config import Vectorization
from geoact.environments import Environments, episode_seed
from geoact.errors import InputError, TrainingFailed


def counters(
    count: int = 3, seed: int = 0, vectorization: Vectorization = "sync", practice: tuple[int, int] = (0, 0)
) -> Environments:
    factory = environments.factory("tests.probes:Counter-v0")
    return Environments("Counter-v0", factory, count, seed, vectorization, practice=practice)


def test_every_transition_lies_inside_one_episode():
    envs = counters()
    for _ in range(500):
        step = envs.step(np.zeros((3, 2), np.float32))
        # Same tag before and after: next_obs is the true final observation, not the next episode's first.
        np.testing.assert_array_equal(step.obs[:, 0], step.next_obs[:, 0])
        np.testing.assert_array_equal(step.obs[:, 1] + 1, step.next_obs[:, 1])
        length = 1 + step.obs[:, 0].astype(int) % 5
        ended = step.next_obs[:, 1] == length
        even = step.obs[:, 0] % 2 == 0
        np.testing.assert_array_equal(step.terminated, ended & even)
        np.testing.assert_array_equal(step.truncated, ended & ~even)
        np.testing.assert_array_equal(envs.obs[ended, 1], 0)  # the next episode has begun
        returns = [n * (n + 1) / 2 for n in length[ended]]
        assert step.episodes == [(r, n) for r, n in zip(returns, length[ended])]
    envs.close()


def test_environments_that_practise_begin_anew_after_so_many_steps_and_make_no_returns():
    """Episodes of a counter have 1 to 5 steps: of the last two of four environments none has more than 2."""
    envs, same = counters(4, practice=(2, 2)), counters(4)
    lengths: list[list[int]] = [[], [], [], []]
    for _ in range(300):
        step, other = (each.step(np.zeros((4, 2), np.float32)) for each in (envs, same))
        np.testing.assert_array_equal(step.obs[:, 0], step.next_obs[:, 0])  # inside one episode
        own = 1 + step.obs[:, 0].astype(int) % 5
        ended = step.terminated | step.truncated
        cut = np.array([False, False, True, True]) & (step.next_obs[:, 1] == 2)
        np.testing.assert_array_equal(ended, (step.next_obs[:, 1] == own) | cut)
        np.testing.assert_array_equal(
            step.terminated, (step.next_obs[:, 1] == own) & (step.obs[:, 0] % 2 == 0)
        )
        np.testing.assert_array_equal(envs.obs[ended, 1], 0)
        for i in np.flatnonzero(ended):
            lengths[i].append(int(step.next_obs[i, 1]))
        assert [n for _, n in step.episodes] == own[:2][ended[:2]].tolist()
        np.testing.assert_array_equal(step.obs[:2], other.obs[:2])  # the others go on as ever
    assert [max(found) for found in lengths] == [5, 5, 2, 2]
    for index in range(4):  # a cut episode is counted: the next one has another seed
        obs, _ = environments.make("tests.probes:Counter-v0").reset(
            seed=episode_seed(0, index, int(envs.episode[index]))
        )
        assert envs.obs[index, 0] == obs[0]
    envs.close()
    same.close()


def test_open_episodes_of_practice_are_played_again():
    envs, later = counters(3, practice=(1, 2)), counters(3, practice=(1, 2))
    for _ in range(7):
        envs.step(np.zeros((3, 2), np.float32))
    assert later.restore(*envs.state()) == []
    for _ in range(20):
        one, other = (each.step(np.zeros((3, 2), np.float32)) for each in (envs, later))
        np.testing.assert_array_equal(one.next_obs, other.next_obs)
        np.testing.assert_array_equal(one.truncated, other.truncated)
    envs.close()
    later.close()


def test_episode_seeds_are_what_they_are_said_to_be():
    envs = counters(seed=7)
    alone = environments.make("tests.probes:Counter-v0")
    for index in range(3):
        obs, _ = alone.reset(seed=episode_seed(7, index, 0))
        np.testing.assert_array_equal(envs.obs[index], obs.astype(np.float32))
    while envs.episode[1] == 0:
        envs.step(np.zeros((3, 2), np.float32))
    obs, _ = alone.reset(seed=episode_seed(7, 1, 1))
    np.testing.assert_array_equal(envs.obs[1], obs.astype(np.float32))
    seeds = {episode_seed(s, i, e) for s in range(5) for i in range(5) for e in range(5)}
    assert len(seeds) == 125
    envs.close()


def test_actions_are_rescaled_to_the_environments_box():
    envs = counters(count=1)
    envs.step(np.array([[-1.0, -1.0]], np.float32))
    sub = envs._vector.envs[0].unwrapped  # pyright: ignore[reportAttributeAccessIssue]
    while not sub.received:
        envs.step(np.array([[-1.0, -1.0]], np.float32))
    np.testing.assert_array_equal(sub.received[-1], [-2.0, 0.0])
    assert sub.received[-1].dtype == np.float64
    before = len(sub.received)
    envs.step(np.array([[0.5, 0.5]], np.float32))
    if len(sub.received) > before:
        np.testing.assert_array_equal(sub.received[-1], [1.0, 7.5])
    envs.close()


def test_actions_since_the_episode_began_are_kept():
    envs = counters(count=2, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        envs.step(rng.uniform(-1, 1, (2, 2)).astype(np.float32))
    for index in range(2):
        alone = environments.make("tests.probes:Counter-v0")
        obs, _ = alone.reset(seed=episode_seed(1, index, int(envs.episode[index])))
        for action in envs.state()[0][f"actions.{index}"]:
            obs, *_ = alone.step(envs._rescale(action))
        np.testing.assert_array_equal(envs.obs[index], obs.astype(np.float32))
    envs.close()


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ("HalfCheeta-v5", "did you mean HalfCheetah-v5"),
        ("CartPole-v1", "Discrete action space"),
        ("tests.probes:Unbounded-v0", "unbounded action box"),
        ("tests.probes:Image-v0", "image observations"),
        ("tests.probes:Words-v0", "do not flatten"),
        ("no_such_module:Thing-v0", "cannot import 'no_such_module'"),
    ],
)
def test_what_cannot_be_controlled_is_explained(env, sentence):
    with pytest.raises(InputError, match=sentence):
        environments.make(env)


def test_dict_observations_of_vectors_are_flattened():
    env = environments.make("tests.probes:Nested-v0")
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("probe", "field"),
    [("BrokenObservation", "observation"), ("BrokenReward", "reward"), ("BrokenReset", "observation")],
)
def test_non_finite_numbers_stop_the_run_and_are_named(probe, field):
    with pytest.raises(TrainingFailed, match=f"non-finite {field} .environment 0"):  # noqa: PT012 (at reset or at a step)
        envs = Environments(probe, environments.factory(f"tests.probes:{probe}-v0"), 2, 0)
        for _ in range(10):
            envs.step(np.zeros((2, 2), np.float32))


def test_a_non_finite_action_never_reaches_the_environment():
    envs = counters(count=1)
    with pytest.raises(TrainingFailed, match="non-finite action"):
        envs.step(np.array([[np.nan, 0.0]], np.float32))
    envs.close()
