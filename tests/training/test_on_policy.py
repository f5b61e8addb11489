"""The on-policy learner: when it learns, from what, and with which statistics."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from geoact.config import PPOConfig
from geoact.policies import NetworkConfig
from geoact.training.on_policy import OnPolicyLearner
from geoact.training.session import Session
from tests.training_cases import fingerprint, run_config, start

CONFIG = PPOConfig(
    actor=NetworkConfig((8,), "tanh"), value_hidden_sizes=(8,), rollout=32, minibatches=2, epochs=2
)


def begin(timesteps: int = 96, **changes: Any) -> Session:
    settings = dataclasses.replace(CONFIG, **changes)
    return start(run_config("ppo", settings, timesteps, num_envs=4, evaluations=0, log_points=3))


def learner(session: Session) -> OnPolicyLearner:
    assert isinstance(session.learner, OnPolicyLearner)
    return session.learner


def test_it_learns_from_whole_rollouts_and_the_share_of_the_run_that_is_left_falls():
    with begin(100) as session:  # 25 vector steps: three rollouts of 8, and one step that fills none
        on, core = learner(session), session.learner.core
        assert on.replay is None
        plain, left = core.update.dispatch, []

        def watch(data: Any, count: int) -> None:
            left.append((count, float(data.remaining), data.obs.shape))
            plain(data, count)

        core.update.dispatch = watch  # type: ignore[method-assign]
        for step in range(1, 26):
            before = session.updates
            on.step()
            assert session.updates - before == (4 if step % 8 == 0 else 0)
    shares = [1.0, pytest.approx(2 / 3, rel=1e-6), pytest.approx(1 / 3, rel=1e-6)]
    assert left == [(4 * i, share, (8, 4, 2)) for i, share in enumerate(shares)]


def test_a_run_that_is_made_longer_has_a_rate_again():
    with begin(64) as session:
        assert session.train()
        session.change_total(128)
        on = learner(session)
        for _ in range(8):
            on.step()
        assert float(on._data().remaining) == pytest.approx(1 - 2 / 4)


def test_what_is_learned_from_is_what_the_policy_saw():
    """The stored observation is the one that the policy acted on, by the statistics of then."""
    with begin() as session:
        on, core = learner(session), session.learner.core
        for _ in range(6):
            expected = np.clip(
                (core.envs.obs - core.policy.tensors["obs_mean"]) / core.policy.tensors["obs_std"],
                -10.0,
                10.0,
            )
            on.step()
            stored = on._rollout.arrays["obs"][on._rollout.filled - 1]
            np.testing.assert_allclose(stored, expected, rtol=1e-3, atol=1e-4)
            assert np.abs(on._rollout.arrays["reward"]).max() <= 10.0


def test_a_state_goes_back_to_where_it_was():
    with begin() as first, begin() as second:
        for _ in range(11):
            first.learner.step()
        arrays, facts = first.learner.state()
        assert second.learner.restore({name: np.array(a) for name, a in arrays.items()}, facts) == []
        for _ in range(9):
            for session in (first, second):
                session.learner.step()
        assert fingerprint(first) == fingerprint(second)


def test_a_lost_episode_loses_its_sum_of_rewards():
    with begin() as session:
        on = learner(session)
        on._normalizer.returns[:] = 5.0
        on.forget([1, 3])
        assert on._normalizer.returns.tolist() == [5.0, 0.0, 5.0, 0.0]
