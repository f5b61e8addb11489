"""The policies: how an observation and noise become an action, each written once.

Every function here takes `nn`, the array operations that it runs on: NumPy's (runtime.py: acting, the
robot), JAX's (networks.py: training) or a recorder of ONNX nodes (deploy/export.py). It works on the last
axis, on a batch and on one observation alike. Actions are in units of the normalised box `[-1, 1]^d`,
before clipping, and all randomness is an argument. No array library is imported here.

    geometric       a = r * normalize(w * mu(s) + (1 - w) * xi), the last `slack` coordinates dropped   (GAC)
    tanh-gaussian   a = tanh(mean(s) + std(s) * xi)                                                     (SAC)
    deterministic   a = tanh(f(s)) + exploration_noise * xi                                             (TD3)
    gaussian        a = f(s) + std * xi                                                                 (PPO)

A policy's tensors are a dictionary of `<layer>.weight` [out, in] and `<layer>.bias` [out]; `layers` gives
the layers of each kind. Where observations are normalised, `obs_mean` and `obs_std` [obs_dim] are among the
tensors.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from geoact import checks

Array = Any
"""An array of the library that `nn` belongs to."""
Params = Mapping[str, Any]
"""The tensors of a policy by name."""
Activation = Literal["relu", "tanh", "elu", "silu"]

SMALLEST_SQUARE = 1e-24
"""A vector whose squared length is below this has no direction: its normalisation is zero."""
CONCENTRATION_HIDDEN = 64
"""Width of the concentration head's hidden layer, the paper's."""


class Operations(Protocol):
    """What the policies need from an array library; arrays also add, subtract, multiply and divide."""

    def linear(self, params: Params, name: str, x: Array, /) -> Array:
        """`x @ W.T + b` of the layer's tensors."""
        ...

    def relu(self, x: Array, /) -> Array: ...
    def tanh(self, x: Array, /) -> Array: ...
    def elu(self, x: Array, /) -> Array: ...
    def sigmoid(self, x: Array, /) -> Array: ...
    def softplus(self, x: Array, /) -> Array: ...
    def exp(self, x: Array, /) -> Array: ...
    def at_most(self, x: Array, bound: float, /) -> Array: ...
    def clip(self, x: Array, low: float, high: float, /) -> Array: ...

    def first(self, x: Array, count: int, /) -> Array:
        """The first `count` coordinates of the last axis."""
        ...

    def normalize(self, v: Array, /) -> Array:
        """`v / |v|` along the last axis; zero where there is no direction."""
        ...

    def layer_norm(self, x: Array, /) -> Array:
        """`(x - mean) / sqrt(variance + 1e-5)` along the last axis."""
        ...


ACTIVATIONS: dict[str, Callable[[Operations, Array], Array]] = {
    "relu": lambda nn, x: nn.relu(x),
    "tanh": lambda nn, x: nn.tanh(x),
    "elu": lambda nn, x: nn.elu(x),
    "silu": lambda nn, x: x * nn.sigmoid(x),
}
"""What may follow a hidden layer, by the names of `Activation`; one that is made of operations needs nothing else."""


@dataclass(frozen=True)
class NetworkConfig:
    """The hidden layers of a policy's network; stored in its policy file."""

    hidden_sizes: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    activation: Activation = "relu"
    """Activation after each hidden layer."""
    layer_norm: bool = False
    """Normalise each hidden layer (without parameters) before its activation."""

    def __post_init__(self) -> None:
        checks.check(self)
        check_sizes(self.hidden_sizes)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse hidden sizes that no network has."""
    checks.require(
        0 < len(sizes) <= 16 and all(0 < size <= 65_536 for size in sizes),
        f"hidden-sizes must be 1 to 16 widths greater than 0, got {list(sizes)}",
    )


def hidden(nn: Operations, network: NetworkConfig, params: Params, obs: Array) -> Array:
    """The last hidden layer.  # [..., obs_dim] -> [..., hidden_sizes[-1]]"""
    activate = ACTIVATIONS[network.activation]
    x = obs
    for i in range(len(network.hidden_sizes)):
        x = nn.linear(params, f"backbone.{i}", x)
        x = activate(nn, nn.layer_norm(x) if network.layer_norm else x)
    return x


def normalized_obs(nn: Operations, params: Params, obs: Array, bound: float) -> Array:
    """Observations by the running mean and deviation that the policy keeps, clipped."""
    return nn.clip((obs - params["obs_mean"]) / params["obs_std"], -bound, bound)


# Geometric


@dataclass(frozen=True)
class GeometricHead:
    """How a geometric policy turns network outputs into an action; stored in its policy file."""

    radius: float | None
    scale_max: float | None
    slack: int
    concentration: Literal["softplus", "free", "fixed", "published"]
    weight: float
    normalize_direction: bool
    normalize_mixture: bool
    kappa_init: float = 2.0
    """kappa0 of concentration=published."""
    scale_form: Literal["bounded", "softplus"] = "bounded"
    """How a learned scale comes from its head: scale_max * sigmoid, or the paper's softplus."""


class GeometricOutput(NamedTuple):
    """What a geometric policy says about observations."""

    direction: Array  # [..., action_dim + slack]
    kappa: Array  # [..., 1]: log signal-to-noise ratio (see sphere.py), or the published form's own
    weight: Array  # [..., 1]: mixing weight w
    scale: Array  # [..., action_dim], or one number: the radius r


def geometric_layers(head: GeometricHead, width: int, action_dim: int) -> dict[str, tuple[int, int]]:
    """Direction head, concentration head, and the scale head on the concentration head's hidden layer."""
    layers = {"direction": (action_dim + head.slack, width)}
    # Without a concentration head (fixed weight) a learned scale still needs the hidden layer it sits on.
    if head.concentration != "fixed" or head.scale_max is not None:
        layers |= {
            "concentration.0": (CONCENTRATION_HIDDEN, width),
            "concentration.1": (1, CONCENTRATION_HIDDEN),
        }
    if head.scale_max is not None:
        layers["scale"] = (action_dim, CONCENTRATION_HIDDEN)
    return layers


def geometric_outputs(
    nn: Operations, head: GeometricHead, params: Params, x: Array, noisy: bool = True
) -> GeometricOutput:
    """Direction, concentration and scale from the last hidden layer; without noise kappa and w are left out.

    A learned scale is `scale_max * sigmoid(...)` by default, where the paper has a softplus: an unbounded
    scale shoots off before the critic knows better.
    """
    direction = nn.linear(params, "direction", x)
    if head.normalize_direction:
        direction = nn.normalize(direction)
    learned = head.scale_max is not None
    inner = None
    if learned or (noisy and head.concentration != "fixed"):
        inner = nn.relu(nn.linear(params, "concentration.0", x))
    scale = head.radius
    if learned:
        raw = nn.linear(params, "scale", inner)
        bounded = head.scale_form == "bounded"
        scale = head.scale_max * nn.sigmoid(raw) if bounded else nn.softplus(raw)
    if not noisy:
        return GeometricOutput(direction, None, None, scale)
    if head.concentration == "fixed":
        # kappa is the weight's logit, so that w = sigmoid(kappa) holds here too
        kappa, weight = math.log(head.weight) - math.log1p(-head.weight), head.weight
        return GeometricOutput(direction, kappa, weight, scale)
    raw = nn.linear(params, "concentration.1", inner)
    if head.concentration == "published":
        kappa = nn.softplus(20.0 * nn.sigmoid(raw / 5.0) - 10.0 + math.log(head.kappa_init)) + 1e-6
        return GeometricOutput(direction, kappa, nn.sigmoid(nn.at_most(kappa, 20.0) / 2.0), scale)
    kappa = nn.softplus(raw) if head.concentration == "softplus" else raw
    return GeometricOutput(direction, kappa, nn.sigmoid(kappa), scale)


def geometric_action(
    nn: Operations, head: GeometricHead, outputs: GeometricOutput, noise: Array | None, action_dim: int
) -> Array:
    """The action for given noise on the sphere; without noise the deterministic one.  # [..., action_dim]"""
    point = outputs.direction
    if noise is not None:
        point = outputs.weight * point + (1.0 - outputs.weight) * noise
        if head.normalize_mixture:
            point = nn.normalize(point)
    return (nn.first(point, action_dim) if head.slack else point) * outputs.scale


def _geometric(
    nn: Operations, head: GeometricHead, params: Params, x: Array, noise: Array | None, action_dim: int
) -> Array:
    outputs = geometric_outputs(nn, head, params, x, noise is not None)
    return geometric_action(nn, head, outputs, noise, action_dim)


# Gaussian squashed by tanh


def gaussian_point(nn: Operations, mean: Array, log_std: Array, noise: Array) -> Array:
    """A Gaussian's value for given standard normal noise."""
    return mean + nn.exp(log_std) * noise


@dataclass(frozen=True)
class TanhGaussianHead:
    """How SAC's policy turns network outputs into an action; stored in its policy file."""

    log_std_min: float
    log_std_max: float


def tanh_gaussian_outputs(
    nn: Operations, head: TanhGaussianHead, params: Params, x: Array
) -> tuple[Array, Array]:
    """Mean and log standard deviation before tanh, the latter squashed into its bounds."""
    low, high = head.log_std_min, head.log_std_max
    squashed = nn.tanh(nn.linear(params, "log_std", x)) + 1.0
    return nn.linear(params, "mean", x), low + 0.5 * (high - low) * squashed


def _before_tanh(
    nn: Operations, head: TanhGaussianHead, params: Params, x: Array, noise: Array | None, action_dim: int
) -> Array:
    if noise is None:
        return nn.linear(params, "mean", x)
    mean, log_std = tanh_gaussian_outputs(nn, head, params, x)
    return gaussian_point(nn, mean, log_std, noise)


def _tanh_gaussian(
    nn: Operations, head: TanhGaussianHead, params: Params, x: Array, noise: Array | None, action_dim: int
) -> Array:
    return nn.tanh(_before_tanh(nn, head, params, x, noise, action_dim))


# Deterministic


@dataclass(frozen=True)
class DeterministicHead:
    """How TD3's policy explores; stored in its policy file."""

    exploration_noise: float


def _deterministic(
    nn: Operations, head: DeterministicHead, params: Params, x: Array, noise: Array | None, action_dim: int
) -> Array:
    action = nn.tanh(nn.linear(params, "mean", x))
    return action if noise is None else action + head.exploration_noise * noise


def _mean(nn: Operations, head: Any, params: Params, x: Array, noise: Array | None, action_dim: int) -> Array:
    return nn.linear(params, "mean", x)


# Gaussian


@dataclass(frozen=True)
class GaussianHead:
    """PPO's policy has no settings of its own: its deviation is the tensor `log_std`, the same in every
    state."""


def _gaussian(
    nn: Operations, head: GaussianHead, params: Params, x: Array, noise: Array | None, action_dim: int
) -> Array:
    mean = nn.linear(params, "mean", x)
    return mean if noise is None else gaussian_point(nn, mean, params["log_std"], noise)


# The kinds by name

Act = Callable[[Operations, Any, Params, Array, "Array | None", int], Array]
"""(nn, head, params, last hidden layer, noise, action_dim) -> [..., action_dim]"""


@dataclass(frozen=True)
class Kind:
    """One kind of policy: its settings, its layers behind the hidden ones, and how it acts."""

    head: type
    layers: Callable[[Any, int, int], dict[str, tuple[int, int]]]
    """(head, width of the last hidden layer, action_dim) -> (out, in) of each layer"""
    act: Act
    """The action in units of the box, before clipping."""
    unsquashed: Act | None = None
    """The action before its tanh, where the policy ends in one."""
    sphere_noise: bool = False
    """Noise is uniform on the unit sphere rather than standard normal."""
    own_log_std: bool = False
    """The deviation is a tensor `log_std` [action_dim] of its own."""


KINDS: dict[str, Kind] = {
    "geometric": Kind(GeometricHead, geometric_layers, _geometric, sphere_noise=True),
    "tanh-gaussian": Kind(
        TanhGaussianHead,
        lambda head, width, action_dim: {"mean": (action_dim, width), "log_std": (action_dim, width)},
        _tanh_gaussian,
        _before_tanh,
    ),
    "deterministic": Kind(
        DeterministicHead,
        lambda head, width, action_dim: {"mean": (action_dim, width)},
        _deterministic,
        _mean,
    ),
    "gaussian": Kind(
        GaussianHead,
        lambda head, width, action_dim: {"mean": (action_dim, width)},
        _gaussian,
        own_log_std=True,
    ),
}
"""Every kind of policy that exists: training, acting, files and export know them from here."""


def layers(
    kind: str, head: Any, network: NetworkConfig, obs_dim: int, action_dim: int
) -> dict[str, tuple[int, int]]:
    """(out, in) of every layer of a policy, hidden layers first."""
    sizes = (obs_dim, *network.hidden_sizes)
    found = {f"backbone.{i}": (out, fan_in) for i, (fan_in, out) in enumerate(itertools.pairwise(sizes))}
    return found | KINDS[kind].layers(head, sizes[-1], action_dim)


def shapes(
    kind: str, head: Any, network: NetworkConfig, obs_dim: int, action_dim: int, normalized: bool
) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a policy."""
    found: dict[str, tuple[int, ...]] = {}
    for name, (out, fan_in) in layers(kind, head, network, obs_dim, action_dim).items():
        found |= {f"{name}.weight": (out, fan_in), f"{name}.bias": (out,)}
    if KINDS[kind].own_log_std:
        found["log_std"] = (action_dim,)
    if normalized:
        found |= {"obs_mean": (obs_dim,), "obs_std": (obs_dim,)}
    return found


def noise_dim(kind: str, head: Any, action_dim: int) -> int:
    """Numbers of noise per action."""
    return action_dim + head.slack if KINDS[kind].sphere_noise else action_dim
