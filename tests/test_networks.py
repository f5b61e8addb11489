"""Networks in JAX, against plain NumPy loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact.networks import MLP, affine, gaussian_log_prob, init_layers, layer_norm, product


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("sizes", [(3, 5, 4, 2), (3, 7, 1), (3, 5, 4, 6, 2)])
def test_networks_are_the_plain_numpy_loop(norm: bool, sizes: tuple[int, ...]):
    network = MLP(jax.random.key(1), sizes, norm)
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    y = x.astype(np.float64)
    for i, layer in enumerate(network.layers):
        y = y @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)
        if i == len(network.layers) - 1:
            break
        if norm:
            y = (y - y.mean(axis=1, keepdims=True)) / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5)
        y = np.maximum(y, 0.0)
    np.testing.assert_allclose(network(jnp.asarray(x)), y, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        network(jnp.asarray(x[:, :2]), jnp.asarray(x[:, 2:])), network(jnp.asarray(x))
    )


def test_dropout_is_that_of_its_key_and_keeps_the_mean():
    """One layer of ones: what is left of each unit is 0 or 1 / (1 - p), and a sum over many has the old mean."""
    network = MLP(jax.random.key(1), (1, 400, 1), dropout=0.25)
    network = jax.tree.map(jnp.ones_like, network)
    x = jnp.zeros((300, 1))
    plain = np.asarray(network(x))
    np.testing.assert_allclose(plain, 401.0)
    dropped = np.asarray(network(x, key=jax.random.key(2)))
    np.testing.assert_array_equal(dropped, network(x, key=jax.random.key(2)))
    assert (dropped != np.asarray(network(x, key=jax.random.key(3)))).any()
    kept = (dropped - 1.0) * 0.75
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-3)  # whole units are kept
    np.testing.assert_allclose(dropped.mean(), 401.0, rtol=0.005)
    assert dropped.std() > 5.0  # sqrt(400 * 0.25 / 0.75) = 11.5


def test_layer_norm_by_hand():
    x = jnp.asarray([[1.0, 2.0, 3.0, 6.0], [5.0, 5.0, 5.0, 5.0]])
    spread = np.sqrt((4 + 1 + 0 + 9) / 4 + 1e-5)
    expected = [[-2 / spread, -1 / spread, 0.0, 3 / spread], [0.0] * 4]
    np.testing.assert_allclose(layer_norm(x), expected, rtol=1e-6)


@pytest.mark.parametrize("fan_out", [3, 40])  # both orders of the weights' gradient
def test_gradients_of_a_product_are_those_of_plain_differentiation(fan_out: int):
    keys = jax.random.split(jax.random.key(3), 4)
    weight = jax.random.normal(keys[0], (fan_out, 7))
    inputs = jax.random.normal(keys[1], (9, 5)), jax.random.normal(keys[2], (9, 2))
    cotangent = jax.random.normal(keys[3], (9, fan_out))

    def plain(weight, *inputs):
        return jnp.concatenate(inputs, axis=-1) @ weight.T

    ours, theirs = jax.vjp(product, weight, *inputs), jax.vjp(plain, weight, *inputs)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for gradient, expected in zip(ours[1](cotangent), theirs[1](cotangent), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_layers_start_uniform_within_one_over_root_fan_in():
    layer = MLP(jax.random.key(2), (400, 300)).layers[0]
    assert layer.bias is not None
    policy = init_layers(jax.random.key(2), {"one": (300, 400)})
    for values in (layer.weight, layer.bias, policy["one.weight"], policy["one.bias"]):
        assert np.abs(np.asarray(values)).max() <= 1 / 20
        assert np.isclose(np.asarray(values).std(), 1 / 20 / np.sqrt(3), rtol=0.1)


def test_layers_of_given_gains_start_orthogonal_with_zero_biases():
    layers = {"wide": (6, 9), "tall": (9, 6)}
    tensors = init_layers(jax.random.key(0), layers, {"wide": 0.5, "tall": 2.0})
    wide, tall = np.asarray(tensors["wide.weight"]), np.asarray(tensors["tall.weight"])
    np.testing.assert_allclose(wide @ wide.T, 0.25 * np.eye(6), atol=1e-6)
    np.testing.assert_allclose(tall.T @ tall, 4.0 * np.eye(6), atol=1e-5)
    assert not np.any(tensors["wide.bias"]) and not np.any(tensors["tall.bias"])


def test_layers_of_one_key_differ_and_those_of_two_keys_too():
    first, second = (init_layers(jax.random.key(k), {"a": (4, 4), "b": (4, 4)}) for k in (0, 1))
    assert (first["a.weight"] != first["b.weight"]).all()
    assert (first["a.weight"] != second["a.weight"]).all()


def test_affine_and_the_density_of_a_gaussian_by_hand():
    y = affine(
        jnp.asarray([[1.0, 2.0, 3.0]]), jnp.asarray([0.5]), jnp.asarray([[1.0, 1.0]]), jnp.asarray([[2.0]])
    )
    np.testing.assert_allclose(y, [[9.5]])
    density = gaussian_log_prob(jnp.asarray([[1.0, -2.0]]), jnp.log(jnp.asarray([[0.5, 3.0]])))
    by_hand = -0.5 * (1 + 4) - np.log(0.5) - np.log(3.0) - np.log(2 * np.pi)
    np.testing.assert_allclose(density, [by_hand], rtol=1e-6)
