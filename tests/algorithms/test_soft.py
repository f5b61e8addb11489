"""What GAC and SAC share: the tuned weight of the entropy, and a target that follows the critics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import critics
from geoact.algorithms import soft
from geoact.config import CriticConfig, SACConfig

OBS, ACTION = 3, 2
CONFIG = SACConfig(
    critic=CriticConfig(hidden_sizes=(8,)), tau=0.25, alpha_init=0.5, alpha_lr=0.1, actor_lr=0.1
)


@pytest.fixture(scope="module")
def state() -> soft.SoftState:
    def start(key: jax.Array) -> soft.SoftState:
        critic = critics.Critics(key, OBS, ACTION, CONFIG.critic)
        return soft.start({"w": jnp.ones(2)}, critic, CONFIG, soft.optimizers(CONFIG), {})

    return jax.jit(start)(jax.random.key(0))


def test_the_start(state):
    np.testing.assert_allclose(jnp.exp(state.log_alpha), 0.5, rtol=1e-6)
    for mine, copy in zip(jax.tree.leaves(state.critic), jax.tree.leaves(state.target), strict=True):
        np.testing.assert_array_equal(mine, copy)


def test_alpha_falls_where_there_is_more_entropy_than_asked_for(state):
    adam = soft.optimizers(CONFIG)
    for surplus, direction in ((2.0, -1), (-2.0, 1)):
        after = soft.learn_policy(state, {"w": jnp.array([1.0, -1.0])}, jnp.asarray(surplus), adam)
        # Adam's first step has the size of the learning rate.
        np.testing.assert_allclose(after.log_alpha - state.log_alpha, 0.1 * direction, rtol=1e-4)
        np.testing.assert_allclose(after.actor["w"], [0.9, 1.1], rtol=1e-4)
    untouched = soft.learn_policy(state, {"w": jnp.zeros(2)}, None, adam)
    assert untouched.log_alpha is state.log_alpha and untouched.alpha_optimizer is state.alpha_optimizer


def test_the_penalty_lowers_the_target_and_the_target_network_follows(state):
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape, np.float32))  # noqa: E731
    batch = critics.Batch(draw(4, OBS), draw(4, ACTION), draw(4), jnp.zeros(4), draw(4, OBS))
    action, adam, key = draw(4, ACTION), soft.optimizers(CONFIG), jax.random.key(1)
    losses = []
    learn = jax.jit(lambda penalty: soft.learn_critics(state, batch, action, penalty, CONFIG, adam, key))
    for penalty in (0.0, 100.0):
        after, value, metrics = learn(jnp.full(4, penalty))
        losses.append(float(metrics["losses/qf_loss"]))
        before = critics.aggregate(state.target(batch.next_obs, action), "min")
        y = np.asarray(batch.reward + 0.99 * (before - penalty))
        expected = sum(np.mean((np.asarray(q) - y) ** 2) for q in state.critic(batch.obs, batch.action))
        np.testing.assert_allclose(losses[-1], expected, rtol=1e-4)
        np.testing.assert_allclose(value, metrics["losses/qf_values"])
    slow, old, new = (s.members[0].layers[0].bias for s in (after.target, state.target, after.critic))
    np.testing.assert_allclose(slow, old + 0.25 * (new - old), atol=1e-6)
    assert losses[1] > losses[0]


@pytest.mark.parametrize("size", [0.3, 0.0])
def test_alpha_in_units_of_the_reward_is_set_by_the_first_batch(state, size: float):
    config = dataclasses.replace(CONFIG, alpha_unit="reward", n_step=3)
    reward = size * jnp.array([1.0, -1.0, 1.0, -1.0])
    batch = critics.Batch(
        jnp.zeros((4, OBS)), jnp.zeros((4, ACTION)), reward, jnp.zeros(4), jnp.zeros((4, OBS))
    )
    first = soft.with_first_alpha(state, batch, config)
    np.testing.assert_allclose(jnp.exp(first.log_alpha), 0.5 * max(size / 3, 1e-3), rtol=1e-6)
    # After the first update it is whatever it has become.
    counted = state.critic_optimizer[0]._replace(count=jnp.asarray(1))
    later = state._replace(critic_optimizer=(counted, *state.critic_optimizer[1:]))
    assert float(soft.with_first_alpha(later, batch, config).log_alpha) == float(state.log_alpha)
    # Nothing happens unless it is asked for.
    assert soft.with_first_alpha(state, batch, CONFIG) is state
