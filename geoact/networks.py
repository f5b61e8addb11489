"""Multi-layer perceptrons and twin critics, on batches.

Weights are `[out, in]` and start uniform in `+-1/sqrt(fan_in)`, biases too (Equinox's `Linear`, PyTorch's
default). Networks are applied to whole batches, `x @ W.T + b`: one matrix product per layer, rather than a
`vmap` of matrix-vector products.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


def linear(layer: eqx.nn.Linear, x: Array) -> Array:
    """`x @ W.T + b` over the last axis.  # [..., in] -> [..., out]"""
    y = x @ layer.weight.T
    return y + jnp.broadcast_to(layer.bias, y.shape) if layer.bias is not None else y


class MLP(eqx.Module):
    """Linear layers with an activation between them, none after the last."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: Array, sizes: tuple[int, ...]):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(fan_in, fan_out, key=k) for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:])
        )

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
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
        x = jnp.concatenate([obs, action], axis=-1)
        return self.first(x)[..., 0], self.second(x)[..., 0]
