"""Evaluation: an episode is a function of its seed, and however it ends, the end is told."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from geoact import environments, runtime
from geoact.errors import InputError, TrainingFailed
from geoact.runtime import Policy
from geoact.training.evaluation import Evaluation, Stopped, evaluate, play, play_episode
from geoact.training.progress import EvaluationLines
from tests.policy_cases import HEADS, make
from tests.probes import BrokenObservation, BrokenReset, BrokenReward, Counter, Endless, Probe
from tests.training_cases import TINY


class Walk(Probe):
    """A walk of random length that pays for where the actions lead: returns differ by seed, action and noise."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2)
        self.length = int(self.np_random.integers(3, 30))
        return self.observe(), {}

    def observe(self) -> Any:
        return np.asarray(getattr(self, "place", np.zeros(2)), np.float32)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.place = 0.9 * self.place + 0.3 * action + 0.1 * self.np_random.normal(size=2)
        return self.observe(), -float(self.place @ self.place), self.count >= self.length, False, {}


def policy_for(env: Any, obs_dim: int = 2) -> Policy:
    """A policy with the limits of an environment."""
    policy = make("tanh-gaussian", HEADS["tanh-gaussian"][0], TINY, obs_dim=obs_dim, action_dim=2)
    space = env.action_space
    limits = {"action_low": tuple(space.low.tolist()), "action_high": tuple(space.high.tolist())}
    return Policy(dataclasses.replace(policy.spec, **limits), policy.tensors)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_for(Walk)


@pytest.mark.parametrize("stochastic", [False, True])
def test_trust_05_an_episode_is_a_function_of_its_seed_alone(policy: Policy, stochastic: bool):
    """The same returns with 1, 2 and 10 episodes, alone, on several environments, and again."""
    ten = evaluate(policy, Walk, 10, seed=3, stochastic=stochastic)
    assert len(set(ten.returns)) == 10
    for count in (1, 2, 10):
        few = evaluate(policy, Walk, count, seed=3, stochastic=stochastic)
        np.testing.assert_array_equal(few.returns, ten.returns[:count])
        np.testing.assert_array_equal(few.lengths, ten.lengths[:count])
    for i in range(10):
        alone = play_episode(policy, Walk(), 3 + i, stochastic)
        assert alone == (ten.returns[i], ten.lengths[i], False)
    several = play(policy, [Walk(), Walk(), Walk()], 10, seed=3, stochastic=stochastic)
    np.testing.assert_array_equal(several.returns, ten.returns)
    shifted = evaluate(policy, Walk, 4, seed=5, stochastic=stochastic)
    np.testing.assert_array_equal(shifted.returns, ten.returns[2:6])


def test_a_stochastic_policy_explores(policy: Policy):
    plain, noisy = (evaluate(policy, Walk, 3, stochastic=s).returns for s in (False, True))
    assert (plain != noisy).all()


def test_lengths_and_returns_are_the_episodes():
    factory = environments.factory("tests.probes:Counter-v0")
    result = evaluate(policy_for(Counter), factory, 5, seed=3)
    env = environments.make("tests.probes:Counter-v0")
    for i in range(5):
        obs, _ = env.reset(seed=3 + i)
        length = 1 + int(obs[0]) % 5
        assert result.lengths[i] == length
        assert result.returns[i] == length * (length + 1) / 2
    assert result.cut == 0 and "eval/cut" not in result.row()


def test_trust_11_an_episode_without_end_is_cut_and_counted(policy: Policy):
    result = evaluate(policy, Endless, 3, max_steps=17)
    assert result.lengths.tolist() == [17, 17, 17] and result.cut == 3
    assert result.row()["eval/cut"] == 3.0
    # One that ends in its last allowed step is not cut.
    env = Counter()
    env.reset(seed=0)
    _, length, cut = play_episode(policy_for(Counter), Counter(), 0, max_steps=env.length)
    assert (length, cut) == (env.length, False)


def test_trust_11_an_evaluation_says_how_far_it_is(policy: Policy):
    heard: list[tuple[int, int]] = []
    evaluate(policy, Endless, 2, max_steps=2500, watch=lambda episode, steps: heard.append((episode, steps)))
    assert heard == [(0, 0), (0, 1000), (0, 2000), (1, 0), (1, 1000), (1, 2000)]
    said: list[str] = []
    lines = EvaluationLines(3, said.append, seconds=0.0)
    lines(1, 2000)
    assert said == ["evaluating: episode 2 of 3, step 2,000"]
    quiet = EvaluationLines(3, said.append, seconds=1000.0)
    quiet(1, 2000)
    assert len(said) == 1, "a short one needs no line"


def test_trust_05_an_action_depends_on_its_observation_alone_to_the_stated_tolerance():
    """Batches of any size and company: within 1e-6 of the action's range, as `geoact.runtime` says."""
    policy = runtime.load("zoo:halfcheetah")
    obs = 3 * np.random.default_rng(0).standard_normal((256, policy.spec.obs_dim)).astype(np.float32)
    alone = np.stack([policy(one) for one in obs])
    for size in (2, 3, 8, 64, 256):
        for first in range(0, len(obs) - size + 1, size):
            batch = policy(obs[first : first + size])
            np.testing.assert_allclose(batch, alone[first : first + size], rtol=0, atol=2e-6)


def test_a_row_by_hand():
    row = Evaluation(np.array([1.0, 3.0]), np.array([10, 20]), 1).row()
    assert row == {"eval/return_mean": 2.0, "eval/return_std": 1.0, "eval/length_mean": 15.0, "eval/cut": 1.0}


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (BrokenObservation, r"Toy-v0 gave a non-finite observation \(evaluation, step\)"),
        (BrokenReward, r"Toy-v0 gave a non-finite reward \(evaluation, step\)"),
        (BrokenReset, r"Toy-v0 gave a non-finite observation \(evaluation, reset\)"),
    ],
)
def test_trust_17_a_number_that_is_none_is_the_environments(policy: Policy, env: Any, sentence: str):
    with pytest.raises(TrainingFailed, match=sentence):
        evaluate(policy, env, 1)


def test_trust_11_a_request_to_stop_ends_it_in_the_middle_of_an_episode(policy: Policy):
    steps: list[int] = []

    def stop() -> bool:
        steps.append(1)
        return len(steps) > 5

    with pytest.raises(Stopped):
        evaluate(policy, Endless, 1, stop=stop)
    assert len(steps) == 6


def test_the_environment_is_closed_however_it_ends(policy: Policy):
    closed: list[bool] = []

    class Watched(BrokenReward):
        def close(self) -> None:
            closed.append(True)

    with pytest.raises(TrainingFailed):
        evaluate(policy, Watched, 1)
    assert closed == [True]


@pytest.mark.parametrize(
    ("trained_on", "sentence"),
    [((Walk, 5), "5"), ((Counter, 2), "lower action limit -2 in dimension 0, the environment has -1")],
)
def test_trust_01_an_environment_that_does_not_fit_is_refused(trained_on: tuple[Any, int], sentence: str):
    with pytest.raises(InputError, match=rf"{sentence}.*give the environment that it was trained on"):
        evaluate(policy_for(*trained_on), Walk, 1)
