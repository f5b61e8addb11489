"""The shared equations against hand-computed numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from geoact.critics import Batch, critic_step, polyak, td_target
from geoact.networks import MLP, TwinCritic, product


def batch(count: int = 4) -> Batch:
    keys = jax.random.split(jax.random.key(0), 3)
    return Batch(
        obs=jax.random.normal(keys[0], (count, 3)),
        action=jax.random.normal(keys[1], (count, 2)),
        reward=jnp.array([1.0, 2.0, 3.0, 4.0])[:count],
        terminated=jnp.array([0.0, 1.0, 0.0, 1.0])[:count],
        next_obs=jax.random.normal(keys[2], (count, 3)),
    )


def test_only_termination_ends_the_sum():
    y = td_target(batch(), jnp.array([10.0, 20.0, -30.0, 40.0]), 0.9)
    np.testing.assert_allclose(y, [1.0 + 9.0, 2.0, 3.0 - 27.0, 4.0], rtol=1e-6)


def test_networks_are_the_plain_numpy_loop():
    network = MLP(jax.random.key(1), (3, 5, 4, 2))
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    y = x
    for i, layer in enumerate(network.layers):
        y = y @ np.asarray(layer.weight).T + np.asarray(layer.bias)
        y = np.maximum(y, 0.0) if i < 2 else y
    np.testing.assert_allclose(network(jnp.asarray(x)), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fan_out", [3, 40])  # both orders of the weights' gradient
def test_gradients_of_a_product_are_those_of_plain_differentiation(fan_out: int):
    keys = jax.random.split(jax.random.key(3), 4)
    weight = jax.random.normal(keys[0], (fan_out, 7))
    inputs = jax.random.normal(keys[1], (9, 5)), jax.random.normal(keys[2], (9, 2))
    slope = jax.random.normal(keys[3], (9, fan_out))

    def plain(weight, *inputs):
        return jnp.concatenate(inputs, axis=-1) @ weight.T

    ours, theirs = jax.vjp(product, weight, *inputs), jax.vjp(plain, weight, *inputs)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for gradient, expected in zip(ours[1](slope), theirs[1](slope), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_layers_start_uniform_within_one_over_root_fan_in():
    layer = MLP(jax.random.key(2), (400, 300)).layers[0]
    assert layer.bias is not None
    for values in (np.asarray(layer.weight), np.asarray(layer.bias)):
        assert np.abs(values).max() <= 1 / 20
        assert np.isclose(values.std(), 1 / 20 / np.sqrt(3), rtol=0.1)


def test_critic_step_is_gradient_descent_on_the_sum_of_both_errors():
    critic = TwinCritic(jax.random.key(0), 3, 2, 8)
    data, y = batch(), jnp.arange(4.0)

    def loss(parameters: TwinCritic) -> jax.Array:
        first, second = parameters(data.obs, data.action)
        return jnp.mean((first - y) ** 2) + jnp.mean((second - y) ** 2)

    sgd = optax.sgd(0.1)
    stepped, _, value, _ = critic_step(critic, sgd.init(critic), sgd, data, y)  # pyright: ignore[reportArgumentType]
    expected = jax.tree.map(lambda p, g: p - 0.1 * g, critic, jax.grad(loss)(critic))
    np.testing.assert_allclose(value, loss(critic), rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), stepped, expected)


def test_polyak_moves_a_share_towards_the_critic():
    slow, fast = (TwinCritic(jax.random.key(k), 3, 2, 8) for k in (0, 1))
    moved = polyak(slow, fast, 0.25)
    jax.tree.map(
        lambda m, s, f: np.testing.assert_allclose(m, 0.75 * s + 0.25 * f, rtol=1e-5, atol=1e-7),
        moved,
        slow,
        fast,
    )
