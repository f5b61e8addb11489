"""The policies as JAX modules: network outputs, and how noise turns them into an action.

Every policy maps `(obs, noise)` to an action in units of the normalised box `[-1, 1]^d`, before clipping, so
that all randomness is an explicit argument. `geoact.runtime` is the same mathematics in NumPy; a test holds
the two together.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geoact import sphere
from geoact.config import DeterministicHead, GeometricHead, TanhGaussianHead
from geoact.networks import linear, orthogonal


class GeometricOutput(NamedTuple):
    """What a geometric policy says about a batch of observations."""

    direction: Array  # [batch, action_dim + slack]
    kappa: Array  # [batch]: log signal-to-noise ratio (see sphere.py), or the published form's own
    weight: Array  # [batch, 1]: mixing weight w
    scale: Array  # [batch, action_dim] or [batch, 1]: the radius r


class GeometricPolicy(eqx.Module):
    """`a = r * normalize(w * mu + (1 - w) * xi)`, the last `slack` coordinates dropped.

    Backbone `obs -> h -> ReLU -> h -> ReLU`; direction head `h -> d + slack`; concentration head
    `h -> 64 -> ReLU -> 1`; scale head `64 -> d` on the concentration head's hidden layer. The scale is
    `scale_max * sigmoid(...)` where the paper has a softplus: an unbounded scale shoots off before the critic
    knows better.
    """

    backbone: tuple[eqx.nn.Linear, eqx.nn.Linear]
    direction: eqx.nn.Linear
    concentration: tuple[eqx.nn.Linear, eqx.nn.Linear] | None
    scale: eqx.nn.Linear | None
    head: GeometricHead = eqx.field(static=True)
    action_dim: int = eqx.field(static=True)

    def __init__(self, key: Array, obs_dim: int, action_dim: int, hidden_size: int, head: GeometricHead):
        keys = jax.random.split(key, 6)
        self.backbone = (
            eqx.nn.Linear(obs_dim, hidden_size, key=keys[0]),
            eqx.nn.Linear(hidden_size, hidden_size, key=keys[1]),
        )
        self.direction = eqx.nn.Linear(hidden_size, action_dim + head.slack, key=keys[2])
        learned_scale = head.scale_max is not None
        # Without a concentration head (fixed weight) a learned scale still needs the hidden layer it sits on.
        self.concentration = (
            (eqx.nn.Linear(hidden_size, 64, key=keys[3]), eqx.nn.Linear(64, 1, key=keys[4]))
            if head.concentration != "fixed" or learned_scale
            else None
        )
        self.scale = eqx.nn.Linear(64, action_dim, key=keys[5]) if learned_scale else None
        self.head = head
        self.action_dim = action_dim

    def outputs(self, obs: Array) -> GeometricOutput:
        """Direction, concentration and scale.  # [batch, obs_dim] -> ..."""
        head = self.head
        x = obs
        for layer in self.backbone:
            x = jax.nn.relu(linear(layer, x))
        direction = linear(self.direction, x)
        if head.normalize_direction:
            direction = sphere.normalize(direction)
        batch = obs.shape[:-1]
        raw = jnp.zeros(batch)
        scale = jnp.full((*batch, 1), head.radius if head.radius is not None else 0.0)
        if self.concentration is not None:
            hidden = jax.nn.relu(linear(self.concentration[0], x))
            raw = linear(self.concentration[1], hidden)[..., 0]
            if self.scale is not None and head.scale_max is not None:
                scale = head.scale_max * jax.nn.sigmoid(linear(self.scale, hidden))
        if head.concentration == "softplus":
            kappa = jax.nn.softplus(raw)
        elif head.concentration == "published":
            kappa = jax.nn.softplus(20.0 * jax.nn.sigmoid(raw / 5.0) - 10.0 + jnp.log(head.kappa_init)) + 1e-6
        elif head.concentration == "free":
            kappa = raw
        else:  # fixed: logit of the weight, so that w = sigmoid(kappa) holds here too
            kappa = jnp.full(batch, jnp.log(head.weight) - jnp.log1p(-head.weight))
        logit = jnp.minimum(kappa, 20.0) / 2.0 if head.concentration == "published" else kappa
        return GeometricOutput(direction, kappa, jax.nn.sigmoid(logit)[..., None], scale)

    def noise(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Uniform noise on the sphere.  # [*batch, action_dim + slack]"""
        return sphere.uniform(key, batch, self.action_dim + self.head.slack)

    def act(self, outputs: GeometricOutput, noise: Array | None) -> Array:
        """The action for given noise; without noise the deterministic one.  # [batch, action_dim]"""
        on_sphere = outputs.direction
        if noise is not None:
            on_sphere = sphere.mix(outputs.direction, noise, outputs.weight, self.head.normalize_mixture)
        return outputs.scale * on_sphere[..., : self.action_dim]

    def tensors(self) -> dict[str, Array]:
        """The tensors of a policy file, by name."""
        layers = {"backbone.0": self.backbone[0], "backbone.1": self.backbone[1], "direction": self.direction}
        if self.concentration is not None:
            layers |= {"concentration.0": self.concentration[0], "concentration.1": self.concentration[1]}
        if self.scale is not None:
            layers["scale"] = self.scale
        return layer_tensors(layers)


class TanhGaussianPolicy(eqx.Module):
    """SAC's `a = tanh(mean + std * noise)`, with `log std` squashed by tanh into [log_std_min, log_std_max]."""

    backbone: tuple[eqx.nn.Linear, eqx.nn.Linear]
    mean: eqx.nn.Linear
    log_std: eqx.nn.Linear
    head: TanhGaussianHead = eqx.field(static=True)

    def __init__(self, key: Array, obs_dim: int, action_dim: int, hidden_size: int, head: TanhGaussianHead):
        keys = jax.random.split(key, 4)
        self.backbone = (
            eqx.nn.Linear(obs_dim, hidden_size, key=keys[0]),
            eqx.nn.Linear(hidden_size, hidden_size, key=keys[1]),
        )
        self.mean = eqx.nn.Linear(hidden_size, action_dim, key=keys[2])
        self.log_std = eqx.nn.Linear(hidden_size, action_dim, key=keys[3])
        self.head = head

    def outputs(self, obs: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation before tanh.  # [batch, obs_dim] -> 2 x [batch, action_dim]"""
        x = obs
        for layer in self.backbone:
            x = jax.nn.relu(linear(layer, x))
        low, high = self.head.log_std_min, self.head.log_std_max
        return linear(self.mean, x), low + 0.5 * (high - low) * (jnp.tanh(linear(self.log_std, x)) + 1.0)

    def act(self, obs: Array, noise: Array | None) -> Array:
        """The action for given noise; without noise the deterministic one.  # [batch, action_dim]"""
        mean, log_std = self.outputs(obs)
        return jnp.tanh(mean if noise is None else mean + jnp.exp(log_std) * noise)

    def sample(self, obs: Array, noise: Array) -> tuple[Array, Array]:
        """The action for given noise and the log of its density.  # [batch, action_dim], [batch]"""
        mean, log_std = self.outputs(obs)
        x = mean + jnp.exp(log_std) * noise
        # log(1 - tanh(x)^2), in a form that does not cancel for large |x|
        log_slope = 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))
        return jnp.tanh(x), gaussian_log_prob(noise, log_std) - jnp.sum(log_slope, axis=-1)

    def tensors(self) -> dict[str, Array]:
        """The tensors of a policy file, by name."""
        return layer_tensors(backbone_layers(self.backbone) | {"mean": self.mean, "log_std": self.log_std})


class DeterministicPolicy(eqx.Module):
    """TD3's `a = tanh(f(s))`, plus Gaussian noise where it explores."""

    backbone: tuple[eqx.nn.Linear, eqx.nn.Linear]
    mean: eqx.nn.Linear
    head: DeterministicHead = eqx.field(static=True)

    def __init__(self, key: Array, obs_dim: int, action_dim: int, hidden_size: int, head: DeterministicHead):
        keys = jax.random.split(key, 3)
        self.backbone = (
            eqx.nn.Linear(obs_dim, hidden_size, key=keys[0]),
            eqx.nn.Linear(hidden_size, hidden_size, key=keys[1]),
        )
        self.mean = eqx.nn.Linear(hidden_size, action_dim, key=keys[2])
        self.head = head

    def act(self, obs: Array, noise: Array | None) -> Array:
        """The action, exploring where there is noise.  # [batch, action_dim]"""
        x = obs
        for layer in self.backbone:
            x = jax.nn.relu(linear(layer, x))
        action = jnp.tanh(linear(self.mean, x))
        return action if noise is None else action + self.head.exploration_noise * noise

    def tensors(self) -> dict[str, Array]:
        """The tensors of a policy file, by name."""
        return layer_tensors(backbone_layers(self.backbone) | {"mean": self.mean})


class GaussianPolicy(eqx.Module):
    """PPO's `a = f(s) + std * noise`, the deviation a parameter of its own; orthogonal at the start.

    Observations come normalised: their statistics are the training loop's, and it writes them into the policy's
    file as `obs_mean` and `obs_std`.
    """

    backbone: tuple[eqx.nn.Linear, eqx.nn.Linear]
    mean: eqx.nn.Linear
    log_std: Array  # [action_dim]

    def __init__(self, key: Array, obs_dim: int, action_dim: int, hidden_size: int):
        keys = jax.random.split(key, 3)
        self.backbone = (
            orthogonal(keys[0], obs_dim, hidden_size, math.sqrt(2.0)),
            orthogonal(keys[1], hidden_size, hidden_size, math.sqrt(2.0)),
        )
        self.mean = orthogonal(keys[2], hidden_size, action_dim, 0.01)
        self.log_std = jnp.zeros(action_dim)

    def outputs(self, obs: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation.  # [batch, obs_dim] -> 2 x [batch, action_dim]"""
        x = obs
        for layer in self.backbone:
            x = jnp.tanh(linear(layer, x))
        mean = linear(self.mean, x)
        return mean, jnp.broadcast_to(self.log_std, mean.shape)

    def act(self, obs: Array, noise: Array | None) -> Array:
        """The action for given noise; without noise the deterministic one.  # [batch, action_dim]"""
        mean, log_std = self.outputs(obs)
        return mean if noise is None else mean + jnp.exp(log_std) * noise

    def log_prob(self, obs: Array, action: Array) -> Array:
        """Log of an action's density.  # [batch]"""
        mean, log_std = self.outputs(obs)
        return gaussian_log_prob((action - mean) * jnp.exp(-log_std), log_std)

    def entropy(self) -> Array:
        """Entropy of the action, the same in every state."""
        return jnp.sum(self.log_std + 0.5 * math.log(2.0 * math.pi * math.e))

    def tensors(self) -> dict[str, Array]:
        """The tensors of a policy file, by name."""
        return layer_tensors(backbone_layers(self.backbone) | {"mean": self.mean}) | {"log_std": self.log_std}


def gaussian_log_prob(noise: Array, log_std: Array) -> Array:
    """Log density of `mean + std * noise`, summed over the last axis.  # 2 x [batch, action_dim] -> [batch]"""
    return jnp.sum(-0.5 * noise**2 - log_std - 0.5 * math.log(2.0 * math.pi), axis=-1)


def backbone_layers(backbone: tuple[eqx.nn.Linear, eqx.nn.Linear]) -> dict[str, eqx.nn.Linear]:
    return {"backbone.0": backbone[0], "backbone.1": backbone[1]}


def layer_tensors(layers: dict[str, eqx.nn.Linear]) -> dict[str, Array]:
    """`name.weight` and `name.bias` of each layer."""
    tensors: dict[str, Array] = {}
    for name, layer in layers.items():
        tensors[f"{name}.weight"] = layer.weight
        if layer.bias is not None:
            tensors[f"{name}.bias"] = layer.bias
    return tensors
