"""What the two learners have in common: a core that is complete when it is made, and can go back."""

import numpy as np
import pytest

from geoact.config import PPOConfig, SACConfig
from geoact.errors import InputError, TrainingFailed
from geoact.training.learner import below, make_core, policy_spec, prefixed
from geoact.training.session import make_learner
from tests.training_cases import TINY, networks, run_config, start

SAC = SACConfig(**networks(), batch_size=8, buffer_size=100, learning_starts=2)


def test_prefixes_there_and_back():
    arrays = {"a": np.zeros(1), "b.c": np.ones(2)}
    both = prefixed("x.", arrays) | prefixed("y.", {"a": np.ones(3)})
    assert list(both) == ["x.a", "x.b.c", "y.a"]
    assert below("x.", both) == arrays and below("z.", both) == {}


def test_the_mode_that_an_algorithm_declares_decides_the_learner():
    ppo = PPOConfig(actor=TINY, value_hidden_sizes=(8,), rollout=16, minibatches=2)
    for config, expected in (
        (run_config("sac", SAC, 40, num_envs=2), "OffPolicyLearner"),
        (run_config("ppo", ppo, 40, num_envs=2), "OnPolicyLearner"),
    ):
        with start(config) as session:
            assert type(session.learner).__name__ == expected


def test_a_core_is_complete_when_it_is_made():
    with start(run_config("sac", SAC, 40, num_envs=2)) as session:
        envs, config = session.learner.core.envs, session.config
        core = make_core(config, envs)
        assert (core.timesteps, core.updates, core.episodes) == (0, 0, [])
        assert core.policy.spec == policy_spec(config, envs) and core.policy.spec.kind == "tanh-gaussian"
        assert core.policy.raw(envs.obs).shape == (2, envs.action_dim)
        again = make_learner(config, envs)
        for name, tensor in again.core.policy.tensors.items():  # the seed decides it
            np.testing.assert_array_equal(tensor, core.policy.tensors[name])


def test_other_action_limits_are_refused():
    with start(run_config("sac", SAC, 40, num_envs=2)) as session:
        arrays, facts = session.learner.state()
        facts["action_limits"] = [[-2.0, -2.0], [2.0, 2.0]]
        with pytest.raises(InputError, match="go on with the environment that it was begun with"):
            session.learner.restore(arrays, facts)


def test_a_policy_that_is_not_finite_is_named_though_all_metrics_are():
    with start(run_config("sac", SAC, 40, num_envs=2)) as session:
        core = session.learner.core
        core.require_sane()
        core.policy.tensors["mean.bias"] = np.full(2, np.nan, np.float32)
        with pytest.raises(TrainingFailed, match=r"the policy's mean\.bias has a non-finite number"):
            core.require_sane()


def test_a_policy_says_how_long_it_has_learned():
    with start(run_config("sac", SAC, 40, num_envs=2)) as session:
        session.learner.step()
        about = session.learner.core.policy_with({"eval/return_mean": 3.0}).spec.about
        assert (about["timesteps"], about["eval/return_mean"]) == (2, 3.0)


def test_other_environments_go_on_with_the_open_episodes():
    config = run_config("sac", SAC, 40, num_envs=2)
    with start(config) as session, start(config) as other:
        core, envs = session.learner.core, other.learner.core.envs
        for _ in range(3):
            session.learner.step()
        obs = core.envs.obs.copy()
        assert core.take_over(envs) == [] and core.envs is envs
        np.testing.assert_array_equal(envs.obs, obs)


def test_another_total_is_what_the_learner_plans_with():
    with start(run_config("sac", SAC, 40, num_envs=2)) as session:
        session.learner.core.change_total(80)
        assert session.config.timesteps == session.learner.core.config.timesteps == 80
