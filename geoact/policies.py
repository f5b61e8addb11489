"""The policies as JAX modules: network outputs, and how noise turns them into an action.

Every policy maps `(obs, noise)` to an action in units of the normalised box `[-1, 1]^d`, before clipping, so
that all randomness is an explicit argument. `geoact.runtime` is the same mathematics in NumPy; a test holds
the two together.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from geoact import sphere
from geoact.config import GeometricHead
from geoact.networks import linear


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


def layer_tensors(layers: dict[str, eqx.nn.Linear]) -> dict[str, Array]:
    """`name.weight` and `name.bias` of each layer."""
    tensors: dict[str, Array] = {}
    for name, layer in layers.items():
        tensors[f"{name}.weight"] = layer.weight
        if layer.bias is not None:
            tensors[f"{name}.bias"] = layer.bias
    return tensors
