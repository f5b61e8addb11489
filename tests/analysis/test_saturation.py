import dataclasses

import numpy as np
import pytest

from geoact.analysis import saturation
from geoact.analysis.act_cost import random_policy
from geoact.errors import InputError
from geoact.runtime import Policy


def policy_for(algorithm: str, env: str = "", obs_dim: int = 4, action_dim: int = 3) -> Policy:
    policy = random_policy(algorithm, obs_dim, action_dim)
    return Policy(dataclasses.replace(policy.spec, env=env), policy.tensors)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
@pytest.mark.parametrize("explore", [True, False])
def test_what_is_looked_at_is_the_inverse_of_tanh(algorithm, explore):
    policy = policy_for(algorithm)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((50, 4)).astype(np.float32) * 0.1
    noise = policy.noise(rng, 50) if explore else None
    expected = policy.raw(obs, noise if algorithm == "sac" else None)  # TD3's noise comes after tanh
    np.testing.assert_allclose(np.tanh(policy.unsquashed(obs, noise)), expected, atol=1e-6)


def test_of_a_geometric_policy_it_is_its_action_before_clipping():
    policy = policy_for("gac")
    obs = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    np.testing.assert_array_equal(policy.unsquashed(obs), policy.raw(obs))
    np.testing.assert_allclose(np.linalg.norm(policy.raw(obs), axis=1), 2.5, rtol=1e-5)


def test_definitions_by_hand():
    sac, gac = policy_for("sac"), policy_for("gac")
    edge = np.arctanh(np.sqrt(0.95))  # tanh' = 0.05
    values = np.array([[0.0, edge - 1e-6, edge + 1e-6, -5.0]])
    assert saturation.without_gradient(sac, values).tolist() == [[False, False, True, True]]
    assert saturation.at_limit(sac, values).tolist() == [[False, False, True, True]]
    values = np.array([[0.9, 0.98, 1.0, -1.01]])
    assert saturation.without_gradient(gac, values).tolist() == [[False, False, False, True]]
    assert saturation.at_limit(gac, values).tolist() == [[False, True, True, True]]


def test_nothing_to_look_at_is_refused(tmp_path):
    with pytest.raises(InputError, match="give the runs"):
        saturation.run(tmp_path, [])


@pytest.mark.slow
def test_the_study_runs_on_saved_policies(tmp_path):
    paths = []
    for algorithm in ("sac", "gac"):
        policy = policy_for(algorithm, "Pendulum-v1", 3, 1)
        paths.append(policy.save(tmp_path / algorithm))
    files = saturation.run(tmp_path / "out", paths, episodes=1)
    assert {p.suffix for p in files} == {".md", ".csv", ".png", ".svg"}
    assert "tanh' < 0.05" in files[0].read_text() and "clipped" in files[0].read_text()
