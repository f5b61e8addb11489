"""Policies of every kind with random tensors, and their actions by JAX and by plain NumPy in float64."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from geoact import policies
from geoact.networks import JAX
from geoact.policies import (
    KINDS,
    Activation,
    DeterministicHead,
    GaussianHead,
    GeometricHead,
    NetworkConfig,
    TanhGaussianHead,
)
from geoact.runtime import Policy, PolicySpec

OBS_DIM, ACTION_DIM = 5, 3
LOW, HIGH = (-1.0, -0.4, 0.1), (1.0, 0.4, 0.7)

DEFAULT = GeometricHead(
    radius=2.5,
    scale_max=None,
    slack=0,
    concentration="softplus",
    weight=0.73,
    normalize_direction=True,
    normalize_mixture=True,
)
HEADS: dict[str, list[Any]] = {
    "geometric": [
        DEFAULT,
        dataclasses.replace(DEFAULT, radius=None, scale_max=3.5, slack=1, concentration="free"),
        dataclasses.replace(DEFAULT, concentration="fixed", slack=2),
        dataclasses.replace(DEFAULT, concentration="fixed", radius=None, scale_max=2.0),
        dataclasses.replace(DEFAULT, radius=None, scale_max=3.5, scale_form="softplus"),
        dataclasses.replace(DEFAULT, concentration="published", normalize_mixture=False, kappa_init=3.0),
        dataclasses.replace(DEFAULT, normalize_direction=False, slack=1),
    ],
    "tanh-gaussian": [TanhGaussianHead(-5.0, 2.0), TanhGaussianHead(-1.0, 0.5)],
    "deterministic": [DeterministicHead(0.1), DeterministicHead(0.0)],
    "gaussian": [GaussianHead()],
}
"""Some settings of each kind of policy, all branches among them."""
SIZES = ((8,), (8, 6), (6, 8, 6))
"""Hidden layers: one, two, three, of unequal widths."""
NETWORKS = [
    NetworkConfig(sizes, activation, layer_norm)
    for sizes, activation, layer_norm in itertools.product(SIZES, get_args(Activation), (False, True))
]


def make(
    kind: str,
    head: Any,
    network: NetworkConfig,
    normalized: bool = False,
    obs_dim: int = OBS_DIM,
    action_dim: int = ACTION_DIM,
    gain: float = 2.0,
    seed: int = 0,
) -> Policy:
    """A policy with random tensors. The gain spreads the outputs, so that the heads are not all near 0."""
    spec = PolicySpec(
        kind=kind,
        head=head,
        network=network,
        obs_dim=obs_dim,
        action_low=(LOW * action_dim)[:action_dim],
        action_high=(HIGH * action_dim)[:action_dim],
        algorithm=next(name for name, found in ALGORITHM_OF.items() if found == kind),
        env="Toy-v0",
        obs_clip=2.0 if normalized else None,
        about={"seed": 0},
    )
    rng, tensors = np.random.default_rng(seed), {}
    for name, (fan_out, fan_in) in policies.layers(kind, head, network, obs_dim, action_dim).items():
        for part, shape in (("weight", (fan_out, fan_in)), ("bias", (fan_out,))):
            values = gain * rng.uniform(-1.0, 1.0, shape) / math.sqrt(fan_in)
            tensors[f"{name}.{part}"] = values.astype(np.float32)
    if KINDS[kind].own_log_std:
        tensors["log_std"] = np.linspace(-1.0, 0.5, action_dim, dtype=np.float32)
    if normalized:
        tensors["obs_mean"] = np.linspace(-1.0, 1.0, obs_dim, dtype=np.float32)
        tensors["obs_std"] = np.linspace(0.5, 2.0, obs_dim, dtype=np.float32)
    return Policy(spec, tensors)


ALGORITHM_OF = {"gac": "geometric", "sac": "tanh-gaussian", "td3": "deterministic", "ppo": "gaussian"}


def geometric(
    head: GeometricHead,
    network: NetworkConfig = NetworkConfig((32, 32)),
    obs_dim: int = OBS_DIM,
    action_dim: int = ACTION_DIM,
    gain: float = 3.0,
) -> Policy:
    """GAC's policy."""
    return make("geometric", head, network, False, obs_dim, action_dim, gain)


BASELINES: dict[str, tuple[Any, NetworkConfig, bool]] = {
    "tanh-gaussian": (TanhGaussianHead(-5.0, 2.0), NetworkConfig((32, 32)), False),
    "deterministic": (DeterministicHead(0.1), NetworkConfig((32, 32)), False),
    "gaussian": (GaussianHead(), NetworkConfig((32, 32), "tanh"), True),
    "gaussian, observations as they come": (GaussianHead(), NetworkConfig((32, 32), "tanh"), False),
}


def baseline(name: str) -> Policy:
    """SAC's, TD3's or PPO's policy."""
    head, network, normalized = BASELINES[name]
    return make(name.partition(",")[0], head, network, normalized)


def cases(kind: str) -> Iterator[tuple[Any, NetworkConfig, bool]]:
    """Every network and normalisation of a kind, its heads in turn."""
    heads = itertools.cycle(HEADS[kind])
    for network, normalized in itertools.product(NETWORKS, (False, True)):
        yield next(heads), network, normalized


def by_jax(policy: Policy, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
    """The action before clipping, by JAX."""
    # Not jitted: the operations are then compiled once for all variants.
    spec, params = policy.spec, {name: jnp.asarray(tensor) for name, tensor in policy.tensors.items()}
    x = jnp.asarray(obs)
    with jax.numpy_rank_promotion("allow"):
        if spec.obs_clip is not None:
            x = policies.normalized_obs(JAX, params, x, spec.obs_clip)
        x = policies.hidden(JAX, spec.network, params, x)
        given = None if noise is None else jnp.asarray(noise)
        return np.asarray(KINDS[spec.kind].act(JAX, spec.head, params, x, given, spec.action_dim))


def by_hand(policy: Policy, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
    """The action before clipping, from the equations, in float64."""
    spec, head = policy.spec, policy.spec.head
    tensors = {name: tensor.astype(np.float64) for name, tensor in policy.tensors.items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    def softplus(x: Any) -> Any:
        return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)

    activate = {
        "relu": lambda x: np.where(x > 0, x, 0.0),
        "tanh": np.tanh,
        "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0.0)) - 1.0),
        "silu": lambda x: x * sigmoid(x),
    }[spec.network.activation]
    x = obs.astype(np.float64)
    if spec.obs_clip is not None:
        x = np.clip((x - tensors["obs_mean"]) / tensors["obs_std"], -spec.obs_clip, spec.obs_clip)
    for i in range(len(spec.network.hidden_sizes)):
        x = linear(f"backbone.{i}", x)
        if spec.network.layer_norm:
            x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
        x = activate(x)
    if spec.kind == "tanh-gaussian":
        low, high = head.log_std_min, head.log_std_max
        std = np.exp(low + 0.5 * (high - low) * (np.tanh(linear("log_std", x)) + 1.0))
        return np.tanh(linear("mean", x) + (0.0 if noise is None else std * noise))
    if spec.kind == "deterministic":
        return np.tanh(linear("mean", x)) + (0.0 if noise is None else head.exploration_noise * noise)
    if spec.kind == "gaussian":
        return linear("mean", x) + (0.0 if noise is None else np.exp(tensors["log_std"]) * noise)
    direction = linear("direction", x)
    if head.normalize_direction:
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    scale: Any = head.radius
    inner = None
    if "concentration.0.weight" in tensors:
        inner = np.maximum(linear("concentration.0", x), 0.0)
    if head.scale_max is not None:
        assert inner is not None
        raw = linear("scale", inner)
        scale = head.scale_max * sigmoid(raw) if head.scale_form == "bounded" else np.logaddexp(raw, 0.0)
    if noise is not None:
        weight: Any = head.weight
        if head.concentration != "fixed":
            assert inner is not None
            raw = linear("concentration.1", inner)
            if head.concentration == "published":
                kappa = softplus(20.0 * sigmoid(raw / 5.0) - 10.0 + math.log(head.kappa_init)) + 1e-6
                weight = sigmoid(np.minimum(kappa, 20.0) / 2.0)
            else:
                weight = sigmoid(softplus(raw) if head.concentration == "softplus" else raw)
        direction = weight * direction + (1.0 - weight) * noise
        if head.normalize_mixture:
            direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return direction[..., : spec.action_dim] * scale


def observations(count: int = 64, obs_dim: int = OBS_DIM) -> np.ndarray:
    """Of different sizes, as different environments and phases of learning give them."""
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((count, obs_dim)) * np.logspace(-2, 1, count)[:, None]
    return obs.astype(np.float32)
