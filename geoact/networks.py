"""Multi-layer perceptrons, twin critics and the value network, on batches.

Weights are `[out, in]` and start uniform in `+-1/sqrt(fan_in)`, biases too (Equinox's `Linear`, PyTorch's
default); PPO's start orthogonal with zero biases. Networks are applied to whole batches, `x @ W.T + b`: one
matrix product per layer, rather than a `vmap` of matrix-vector products.
"""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_vjp
def product(weight: Array, *inputs: Array) -> Array:
    """`x @ W.T` for the joined inputs.  # [out, in], [batch, in_1], [batch, in_2] ... -> [batch, out]

    The gradient has its own rule: XLA would compute that of all inputs where only one (a critic's action) is
    asked for, and that of the weights in the slow order where the input is narrow.
    """
    return jnp.concatenate(inputs, axis=-1) @ weight.T


def _forward(weight: Array, *inputs: Array) -> tuple[Array, tuple[Array, tuple[Array, ...]]]:
    return product(weight, *inputs), (weight, inputs)


def _backward(saved: tuple[Array, tuple[Array, ...]], slope: Array) -> tuple[Array, ...]:
    weight, inputs = saved
    fan_out, fan_in = weight.shape
    x = jnp.concatenate(inputs, axis=-1)
    # The short side first is several times faster; the barrier keeps XLA from turning it around.
    by_weight = jax.lax.optimization_barrier(x.T @ slope).T if fan_in < fan_out else slope.T @ x
    starts = itertools.accumulate((part.shape[-1] for part in inputs), initial=0)
    by_input = (slope @ weight[:, i : i + part.shape[-1]] for i, part in zip(starts, inputs))
    return by_weight, *by_input


product.defvjp(_forward, _backward)


def linear(layer: eqx.nn.Linear, *inputs: Array) -> Array:
    """`x @ W.T + b` for the joined inputs.  # [batch, in] -> [batch, out]"""
    y = product(layer.weight, *inputs)
    return y + jnp.broadcast_to(layer.bias, y.shape) if layer.bias is not None else y


def orthogonal(key: Array, fan_in: int, fan_out: int, gain: float) -> eqx.nn.Linear:
    """A layer with orthogonal weights of this gain and zero biases."""
    layer = eqx.nn.Linear(fan_in, fan_out, key=key)
    weight = jax.nn.initializers.orthogonal(gain)(key, (fan_out, fan_in))
    return eqx.tree_at(lambda x: (x.weight, x.bias), layer, (weight, jnp.zeros(fan_out)))


class MLP(eqx.Module):
    """Linear layers with an activation between them, none after the last."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: Array, sizes: tuple[int, ...]):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(fan_in, fan_out, key=k) for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:])
        )

    def __call__(self, *inputs: Array) -> Array:
        """Of the joined inputs."""
        x = jax.nn.relu(linear(self.layers[0], *inputs))
        for layer in self.layers[1:-1]:
            x = jax.nn.relu(linear(layer, x))
        return linear(self.layers[-1], x)


class TwinCritic(eqx.Module):
    """Two independent action-value networks."""

    first: MLP
    second: MLP

    def __init__(self, key: Array, obs_dim: int, action_dim: int, hidden_size: int):
        first_key, second_key = jax.random.split(key)
        sizes = (obs_dim + action_dim, hidden_size, hidden_size, 1)
        self.first = MLP(first_key, sizes)
        self.second = MLP(second_key, sizes)

    def __call__(self, obs: Array, action: Array) -> tuple[Array, Array]:
        """Both values.  # [batch, obs_dim], [batch, action_dim] -> [batch], [batch]"""
        return self.first(obs, action)[..., 0], self.second(obs, action)[..., 0]


class ValueNetwork(eqx.Module):
    """The value of a state: two tanh layers, orthogonal at the start."""

    layers: tuple[eqx.nn.Linear, eqx.nn.Linear, eqx.nn.Linear]

    def __init__(self, key: Array, obs_dim: int, hidden_size: int):
        keys = jax.random.split(key, 3)
        self.layers = (
            orthogonal(keys[0], obs_dim, hidden_size, math.sqrt(2.0)),
            orthogonal(keys[1], hidden_size, hidden_size, math.sqrt(2.0)),
            orthogonal(keys[2], hidden_size, 1, 1.0),
        )

    def __call__(self, obs: Array) -> Array:
        """# [batch, obs_dim] -> [batch]"""
        x = obs
        for layer in self.layers[:-1]:
            x = jnp.tanh(linear(layer, x))
        return linear(self.layers[-1], x)[..., 0]
