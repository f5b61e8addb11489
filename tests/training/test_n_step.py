"""Transitions over several steps, against a brute-force loop over whole episodes."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoact.training.n_step import NStep, Transitions

TERMINATED, TRUNCATED, OPEN = "terminated", "truncated", "open"


class Episode(NamedTuple):
    """Rewards of the steps of one environment's episode, and how it ends."""

    rewards: list[float]
    end: str


class Expected(NamedTuple):
    """A transition as it must come out."""

    start: int
    reward: float
    terminated: float
    next_obs: int


def episodes(draw: Any) -> list[Episode]:
    rewards = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=9)
    ended = st.builds(Episode, rewards, st.sampled_from([TERMINATED, TRUNCATED]))
    last = st.builds(Episode, rewards, st.just(OPEN))
    return [*draw(st.lists(ended, max_size=5)), draw(last)]


def steps_of(environment: list[Episode]) -> list[tuple[int, float, bool, bool]]:
    """The steps of an environment one after another: observation's number, reward, terminated, truncated.

    Observation k of an episode that begins at number b has number b + k; episodes lie apart, so that nothing that
    reaches from one into another can go unseen.
    """
    found, begin = [], 0
    for episode in environment:
        for k, reward in enumerate(episode.rewards):
            last = k == len(episode.rewards) - 1
            ends = (last and episode.end == TERMINATED, last and episode.end == TRUNCATED)
            found.append((begin + k, reward, *ends))
        begin += len(episode.rewards) + 100
    return found


def by_hand(environment: list[Episode], n: int, gamma: float, steps: int) -> list[Expected]:
    """Every transition that the first `steps` steps of an environment close."""
    found, begin, made = [], 0, 0
    for episode in environment:
        length = len(episode.rewards)
        seen = min(length, steps - made)  # steps of this episode that were made
        over = seen == length and episode.end != OPEN
        for t in range(seen):
            span = min(n, length - t) if over else n
            if t + span > seen:
                continue  # still open
            reward = 0.0
            for k in range(span):
                reward += gamma**k * episode.rewards[t + k]
            dead = over and episode.end == TERMINATED and t + span == length
            counts = 0.0 if dead else gamma ** (span - 1)
            found.append(Expected(begin + t, reward, 1.0 - counts, begin + t + span))
        made += seen
        begin += length + 100
    return found


def play(environments: list[list[Episode]], n: int, gamma: float, steps: int) -> list[Transitions]:
    """Step all environments together, each with observations and actions that say which ones they are."""
    stepper = NStep(n, gamma, len(environments), 2, 1)
    logs = [steps_of(environment) for environment in environments]
    return [stepper.add(*vector_step(logs, t)) for t in range(steps)]


def vector_step(logs: list[list[tuple[int, float, bool, bool]]], t: int) -> tuple[np.ndarray, ...]:
    at = [log[t] for log in logs]
    numbers = np.array([[float(i), now[0]] for i, now in enumerate(at)], np.float32)
    return (
        numbers,
        numbers[:, 1:] + 0.25,
        np.array([now[1] for now in at], np.float32),
        np.array([now[2] for now in at]),
        np.array([now[3] for now in at]),
        numbers + np.array([0.0, 1.0], np.float32),
    )


@given(st.data(), st.integers(1, 6), st.sampled_from([1.0, 0.99, 0.5]), st.integers(1, 4))
def test_every_step_of_an_episode_appears_once_and_rightly(data: Any, n: int, gamma: float, count: int):
    environments = [episodes(data.draw) for _ in range(count)]
    steps = min(sum(len(episode.rewards) for episode in environment) for environment in environments)
    closed = play(environments, n, gamma, steps)
    for i, environment in enumerate(environments):
        expected = {e.start: e for e in by_hand(environment, n, gamma, steps)}
        found: dict[int, tuple[float, float, float]] = {}
        for batch in closed:
            for obs, action, reward, terminated, next_obs in zip(*batch, strict=True):
                if obs[0] != i:
                    continue
                assert next_obs[0] == i and action[0] == obs[1] + 0.25
                assert int(obs[1]) not in found, "a step appeared twice"
                found[int(obs[1])] = float(reward), float(terminated), float(next_obs[1])
        assert found.keys() == expected.keys()
        for start, (reward, terminated, next_obs) in found.items():
            want = expected[start]
            np.testing.assert_allclose(reward, want.reward, rtol=1e-4, atol=1e-3)
            np.testing.assert_allclose(terminated, want.terminated, rtol=1e-5, atol=1e-6)
            assert next_obs == want.next_obs


def test_by_hand():
    """gamma 1/2, three steps; an episode of four rewards 1, 2, 4, 8 that terminates, then one that is cut off."""
    environment = [Episode([1.0, 2.0, 4.0, 8.0], TERMINATED), Episode([16.0, 32.0], TRUNCATED)]
    closed = play([environment], 3, 0.5, 6)
    assert [len(batch.reward) for batch in closed] == [0, 0, 1, 3, 0, 2]
    rows = {
        int(obs[1]): (float(reward), float(terminated), float(after[1]))
        for batch in closed
        for obs, _, reward, terminated, after in zip(*batch)
    }
    assert rows == {
        0: (1 + 1 + 1, 1 - 0.25, 3.0),
        1: (2 + 2 + 2, 1.0, 4.0),
        2: (4 + 4, 1.0, 4.0),
        3: (8.0, 1.0, 4.0),
        104: (16 + 16, 1 - 0.5, 106.0),
        105: (32.0, 1 - 1.0, 106.0),
    }


def test_one_step_passes_through_as_it_is():
    stepper = NStep(1, 0.99, 3, 2, 1)
    rng = np.random.default_rng(0)
    given_ = (
        rng.standard_normal((3, 2)),
        rng.standard_normal((3, 1)),
        rng.standard_normal(3),
        np.array([True, False, False]),
        np.array([False, True, False]),
        rng.standard_normal((3, 2)),
    )
    found = stepper.add(*given_)
    for mine, value in zip(found, (*given_[:4], given_[5]), strict=True):
        assert mine is value


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_restored_one_goes_on_as_the_first_would(n: int):
    rng = np.random.default_rng(0)
    environments = [
        [Episode(rng.normal(size=rng.integers(1, 7)).tolist(), TERMINATED) for _ in range(20)]
        for _ in range(3)
    ]
    logs = [steps_of(environment) for environment in environments]
    first, second = (NStep(n, 0.9, 3, 2, 1) for _ in range(2))
    for t in range(11):
        first.add(*vector_step(logs, t))
    second.restore({name: array.copy() for name, array in first.arrays().items()})
    for t in range(11, 20):
        mine, theirs = (stepper.add(*vector_step(logs, t)) for stepper in (first, second))
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_was_open_in_a_lost_environment_never_closes():
    environments = [[Episode([1.0] * 10, OPEN)], [Episode([1.0] * 10, OPEN)]]
    logs = [steps_of(environment) for environment in environments]
    stepper = NStep(3, 0.9, 2, 2, 1)
    for t in range(2):
        assert len(stepper.add(*vector_step(logs, t)).reward) == 0
    stepper.forget([1])
    closed = [stepper.add(*vector_step(logs, t)) for t in range(2, 6)]
    starts = [[int(obs[1]) for obs in np.concatenate([b.obs for b in closed]) if obs[0] == i] for i in (0, 1)]
    assert starts == [[0, 1, 2, 3], [2, 3]]


def test_what_is_given_is_not_what_is_kept():
    """The environments may use their arrays again: nothing that was closed or is open may change with them."""
    stepper = NStep(2, 0.5, 1, 1, 1)
    obs, action, reward = np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), np.ones(1, np.float32)
    over, on = np.array([True]), np.array([False])
    stepper.add(obs, action, reward, on, on, obs)
    obs[:], action[:], reward[:] = 7.0, 7.0, 7.0
    closed = stepper.add(np.full((1, 1), 2.0), action, np.ones(1, np.float32), on, over, np.full((1, 1), 3.0))
    assert closed.obs[:, 0].tolist() == [2.0, 1.0] and closed.reward.tolist() == [1.0, 1.5]
