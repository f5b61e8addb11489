"""Networks in JAX: the operations that policies run on in training, and multi-layer perceptrons for values.

Weights are `[out, in]` and start uniform in `+-1/sqrt(fan_in)`, biases too (Equinox's `Linear`, PyTorch's
default); PPO's start orthogonal with zero biases. Networks are applied to whole batches, `x @ W.T + b`: one
matrix product per layer, rather than a `vmap` of matrix-vector products.
"""

import itertools
import math
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geoact import policies, sphere
from geoact.policies import NetworkConfig, Params


@jax.custom_vjp
def product(weight: Array, *inputs: Array) -> Array:
    """`x @ W.T` for the joined inputs.  # [out, in], [batch, in_1], [batch, in_2] ... -> [batch, out]

    The gradient has its own rule: XLA would compute that of all inputs where only one (a critic's action) is
    asked for, and that of the weights in the slow order where the input is narrow.
    """
    return jnp.concatenate(inputs, axis=-1) @ weight.T


def _forward(weight: Array, *inputs: Array) -> tuple[Array, tuple[Array, tuple[Array, ...]]]:
    return product(weight, *inputs), (weight, inputs)


def _backward(saved: tuple[Array, tuple[Array, ...]], cotangent: Array) -> tuple[Array, ...]:
    weight, inputs = saved
    fan_out, fan_in = weight.shape
    x = jnp.concatenate(inputs, axis=-1)
    # The short side first is several times faster; the barrier keeps XLA from turning it around.
    narrow = fan_in < fan_out
    by_weight = jax.lax.optimization_barrier(x.T @ cotangent).T if narrow else cotangent.T @ x
    starts = itertools.accumulate((part.shape[-1] for part in inputs), initial=0)
    by_input = (cotangent @ weight[:, i : i + part.shape[-1]] for i, part in zip(starts, inputs))
    return by_weight, *by_input


product.defvjp(_forward, _backward)


def affine(weight: Array, bias: Array, *inputs: Array) -> Array:
    """`x @ W.T + b` for the joined inputs.  # [batch, in] -> [batch, out]"""
    y = product(weight, *inputs)
    return y + jnp.broadcast_to(bias, y.shape)


def layer_norm(x: Array) -> Array:
    """`(x - mean) / sqrt(variance + 1e-5)` along the last axis, without parameters."""
    centered = x - jnp.mean(x, axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.mean(centered * centered, axis=-1, keepdims=True) + 1e-5)


class JaxOperations:
    """The operations of `geoact.policies`, in JAX."""

    def linear(self, params: Params, name: str, x: Array) -> Array:
        return affine(params[f"{name}.weight"], params[f"{name}.bias"], x)

    relu = staticmethod(jax.nn.relu)
    tanh = staticmethod(jnp.tanh)
    elu = staticmethod(jax.nn.elu)
    sigmoid = staticmethod(jax.nn.sigmoid)
    softplus = staticmethod(jax.nn.softplus)
    exp = staticmethod(jnp.exp)
    normalize = staticmethod(sphere.normalize)
    layer_norm = staticmethod(layer_norm)

    def at_most(self, x: Array, bound: float) -> Array:
        return jnp.minimum(x, bound)

    def clip(self, x: Array, low: float, high: float) -> Array:
        return jnp.clip(x, low, high)

    def first(self, x: Array, count: int) -> Array:
        return x[..., :count]


JAX = JaxOperations()

Tensors = dict[str, Array]


def init_layers(
    key: Array, layers: Mapping[str, tuple[int, int]], gains: Mapping[str, float] | None = None
) -> Tensors:
    """Starting tensors of layers given by (out, in): uniform, or orthogonal with zero biases for given gains."""
    tensors: Tensors = {}
    for layer_key, (name, (fan_out, fan_in)) in zip(jax.random.split(key, len(layers)), layers.items()):
        if gains is None:
            layer = eqx.nn.Linear(fan_in, fan_out, key=layer_key)
            assert layer.bias is not None
            tensors |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
        else:
            weight = jax.nn.initializers.orthogonal(gains[name])(layer_key, (fan_out, fan_in))
            tensors |= {f"{name}.weight": weight, f"{name}.bias": jnp.zeros(fan_out)}
    return tensors


def init_policy(
    key: Array, kind: str, head: object, network: NetworkConfig, obs_dim: int, action_dim: int
) -> Tensors:
    """The starting tensors of a policy."""
    return init_layers(key, policies.layers(kind, head, network, obs_dim, action_dim))


class MLP(eqx.Module):
    """Linear layers with ReLU between them, none after the last; optionally layer norm and dropout before each."""

    layers: tuple[eqx.nn.Linear, ...]
    norm: bool = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(self, key: Array, sizes: tuple[int, ...], norm: bool = False, dropout: float = 0.0):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(fan_in, fan_out, key=k) for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:])
        )
        self.norm, self.dropout = norm, dropout

    def __call__(self, *inputs: Array, key: Array | None = None) -> Array:
        """Of the joined inputs; dropout only where there is a key."""
        x: tuple[Array, ...] = inputs
        for i, layer in enumerate(self.layers[:-1]):
            y = _linear(layer, *x)
            if self.dropout and key is not None:
                kept = jax.random.bernoulli(jax.random.fold_in(key, i), 1.0 - self.dropout, y.shape)
                y = jnp.where(kept, y / (1.0 - self.dropout), 0.0)
            x = (jax.nn.relu(layer_norm(y) if self.norm else y),)
        return _linear(self.layers[-1], *x)


def _linear(layer: eqx.nn.Linear, *inputs: Array) -> Array:
    assert layer.bias is not None
    return affine(layer.weight, layer.bias, *inputs)


def gaussian_log_prob(noise: Array, log_std: Array) -> Array:
    """Log density of `mean + std * noise`, summed over the last axis.  # 2 x [batch, action_dim] -> [batch]"""
    return jnp.sum(-0.5 * noise**2 - log_std - 0.5 * math.log(2.0 * math.pi), axis=-1)
