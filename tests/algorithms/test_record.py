"""The form that every algorithm has: one gradient update per batch, keys of their own, bounds on values."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import algorithms
from geoact.algorithms.record import off_policy, value_bound
from geoact.config import REGISTRY, OffPolicyConfig, OnPolicyConfig, PPOConfig, SACConfig
from geoact.critics import Batch

OBS, ACTION = 3, 2


class Sum(NamedTuple):
    actor: dict[str, Any]


def test_an_update_for_each_batch_with_a_key_of_its_own():
    def update_once(state: Sum, batch: Batch, key: Any) -> tuple[Sum, Any, dict[str, Any]]:
        total = state.actor["total"] + jnp.sum(batch.reward)
        noise = jax.random.normal(key)
        return Sum({"total": total}), total, {"noise": noise, "width": jnp.asarray(batch.obs.shape[1])}

    algorithm = off_policy(SACConfig(), OBS, ACTION, lambda key: Sum({"total": jnp.zeros(())}), update_once)
    assert algorithm.mode == "off-policy" and algorithm.replay_action == "executed"
    rows = np.zeros((3, 4, 2 * OBS + ACTION + 2), np.float32)
    rows[:, :, OBS + ACTION] = [[1], [10], [100]]
    state = algorithm.init(jax.random.key(0))
    key = jax.random.key(7)
    state, value, metrics = jax.jit(algorithm.update)(state, jnp.asarray(rows), key)
    assert float(value) == 444.0 and float(algorithm.policy(state)["total"]) == 444.0
    assert int(metrics["width"]) == OBS
    assert float(metrics["noise"]) == float(jax.random.normal(jax.random.split(key, 3)[2]))  # the last one's


@pytest.mark.parametrize("config", [SACConfig(gamma=0.5), PPOConfig(gamma=0.5, normalize_reward=False)])
def test_no_value_is_larger_than_the_largest_reward_for_ever(config):
    assert value_bound(config)(9.0) == 20.0


@pytest.mark.parametrize("name", REGISTRY)
def test_every_algorithm_declares_the_mode_of_its_configuration(name):
    config = REGISTRY[name].config.resolve("Hopper-v5", ACTION, 10**6)
    algorithm = algorithms.build(name, config, OBS, ACTION)
    assert isinstance(config, OffPolicyConfig if algorithm.mode == "off-policy" else OnPolicyConfig)
    assert algorithm.divergence_hint({"policy/kappa": 1.0}) == (
        "" if name[:3] != "gac" else " (mean kappa 1)"
    )
