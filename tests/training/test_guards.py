"""What stops a run whose learning has broken: any algorithm's, whatever its metrics are called."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from geoact.algorithms import build
from geoact.algorithms.record import Algorithm, Learned, value_bound
from geoact.config import GACConfig, PPOConfig, SACConfig
from geoact.errors import TrainingFailed
from geoact.training.guards import MARGIN, require_finite, require_sane
from geoact.training.update import VALUE, CompiledUpdate


def stranger(value: float = 0.0) -> Algorithm:
    """An algorithm with metrics of its own names."""

    def update(state: Any, data: Any, key: Any) -> Learned:
        return Learned(state, jnp.float32(value), {"my/number": jnp.float32(1.0)})

    return Algorithm(
        mode="off-policy",
        init=lambda key: {"w": jnp.zeros(1)},
        update=update,
        policy=lambda state: state,
        value_bound=value_bound(SACConfig(gamma=0.99)),
        divergence_hint=lambda metrics: f"; my number is {metrics['my/number']:.0f}",
    )


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["losses/qf_loss", "my/number", VALUE])
def test_a_number_that_is_none_stops_the_run_by_name(name: str, broken: float):
    metrics = {VALUE: 0.0, "my/number": 0.0} | {name: broken}
    with pytest.raises(TrainingFailed, match=f"{name} became {broken} at update 7"):
        require_sane(stranger(), metrics, 1.0, 7)


def test_values_beyond_what_the_rewards_allow_stop_the_run():
    algorithm = stranger()
    require_sane(algorithm, {VALUE: 59_000.0, "my/number": 3.0}, 5.0, 7)  # 100 * (1 + 5) / (1 - 0.99)
    for value in (61_000.0, -61_000.0):
        with pytest.raises(TrainingFailed, match=r"diverged: the mean value is -?6.1e\+04.*; my number is 3"):
            require_sane(algorithm, {VALUE: value, "my/number": 3.0}, 5.0, 7)


def test_an_algorithm_is_guarded_whatever_its_metrics_are_called():
    """The value is a part of what an update gives back, so that no name has to be known."""
    algorithm = stranger(1e9)
    update = CompiledUpdate(algorithm, algorithm.init(jnp.zeros(())), 0)
    require_sane(algorithm, update.metrics(), 1.0, 0)  # nothing was learned yet
    update.dispatch(np.zeros(1, np.float32), 0)
    with pytest.raises(TrainingFailed, match="diverged"):
        require_sane(algorithm, update.metrics(), 1.0, 1)


def test_the_bound_of_ppo_is_that_of_normalised_rewards():
    """11 / (1 - gamma), a hundredfold: also where the environment pays a million."""
    normalized, plain = (
        build("ppo", PPOConfig(normalize_reward=on, rollout=64, minibatches=4), 3, 2) for on in (True, False)
    )
    beyond = 1.01 * MARGIN * 11 / 0.01
    metrics = {VALUE: beyond}
    with pytest.raises(TrainingFailed, match=r"the rewards seen allow at most 1.1e\+03"):
        require_sane(normalized, metrics, 1e6, 1)
    require_sane(normalized, {VALUE: 0.99 * MARGIN * 11 / 0.01}, 0.0, 1)  # early, before rewards were seen
    require_sane(plain, metrics, 1e6, 1)
    with pytest.raises(TrainingFailed, match="diverged"):
        require_sane(plain, metrics, 1.0, 1)


def test_the_hint_of_gac_names_the_free_kappa():
    for config, named in ((GACConfig(concentration="free"), True), (GACConfig(), False)):
        algorithm = build("gac", config.resolve("Toy-v0", 2, 1000), 3, 2)
        with pytest.raises(TrainingFailed, match=r"mean kappa 12") as caught:
            require_sane(algorithm, {VALUE: 1e9, "policy/kappa": 12.0}, 1.0, 1)
        assert ("use --concentration softplus" in str(caught.value)) == named


@pytest.mark.parametrize(("gamma", "expected"), [(0.99, 600.0), (0.5, 12.0), (1.0, 60_000.0)])
def test_the_largest_value_that_can_be_right(gamma: float, expected: float):
    """The largest reward (5, and one more) at every step for ever; without discount, for 10,000 steps."""
    settings = SACConfig(gamma=gamma).resolve("Toy-v0", 2, 1000)
    np.testing.assert_allclose(value_bound(settings)(5.0), expected, rtol=1e-9)
    np.testing.assert_allclose(build("sac", settings, 3, 2).value_bound(5.0), expected, rtol=1e-9)


def test_the_bound_of_scaled_rewards_is_theirs_off_policy_too():
    scaled = SACConfig(gamma=0.99, normalize_reward=True)
    for largest in (0.0, 5.0, 1e6):
        np.testing.assert_allclose(value_bound(scaled)(largest), 1100.0, rtol=1e-9)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_policy_with_a_number_that_is_none_is_refused_by_name(broken: float):
    tensors = {"w": np.ones(3), "b": np.array([0.0, broken])}
    require_finite({"w": tensors["w"]}, 7)
    with pytest.raises(TrainingFailed, match=r"the policy's b has a non-finite number in it at update 7"):
        require_finite(tensors, 7)
