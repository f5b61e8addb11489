"""A trained policy in NumPy alone, for machines without JAX; also what acts during training.

    policy = geoact.runtime.load("runs/.../policy")
    action = policy(observation)

Needs NumPy and safetensors. The same mathematics as `geoact.policies`, kept equal by tests: observation
normalisation, network, head, clipping to the box and rescaling to the environment's own limits are all
inside. A policy is a folder of two files:

    policy.json         what it is: schema, head, sizes, action limits, where it was trained
    policy.safetensors  its tensors; size and SHA-256 are in policy.json

Nothing in these files is ever executed.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from geoact import __version__, files
from geoact.config import DeterministicHead, GaussianHead, GeometricHead, TanhGaussianHead, unknown
from geoact.errors import FileFormatError, InputError

SCHEMA = 1
POLICY_FILES = frozenset({"policy.json", "policy.safetensors"})
ZOO = Path(__file__).parent / "models"
"""The policies that come with the package: `models/` of the repository, to which this is a link there."""
SMALLEST_SQUARE = 1e-24
"""Shorter than the root of this, a vector has no direction: as in sphere.py."""

Tensors = dict[str, np.ndarray]

# Everything below works on the last axis, on a batch and on one observation alike. For one, the overhead of
# the calls is most of the time, so they are chosen for it: `np.dot` over `@`, and no `where`, `clip` or `einsum`.


def linear(tensors: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    """`x @ W.T + b`.  # [..., in] -> [..., out]"""
    y = np.dot(x, tensors[name + ".weight"].T)
    y += tensors[name + ".bias"]
    return y


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    y = np.tanh(0.5 * x)
    y *= 0.5
    y += 0.5
    return y


def normalize(v: np.ndarray) -> np.ndarray:
    """Unit vectors along the last axis; a vector without a direction becomes zero, as in sphere.py."""
    if v.ndim == 1:
        squared = float(np.dot(v, v))
        return np.zeros_like(v) if squared <= SMALLEST_SQUARE else v / math.sqrt(squared)
    squared = np.einsum("ij,ij->i", v, v)[:, None]
    is_direction = ~(squared <= SMALLEST_SQUARE)  # so that a NaN stays one, and stops the run
    return np.where(is_direction, v / np.sqrt(np.where(is_direction, squared, 1.0)), 0.0)


def geometric_noise(head: GeometricHead, rng: np.random.Generator, batch: int, action_dim: int) -> np.ndarray:
    """Uniform on the sphere.  # [batch, action_dim + slack]"""
    noise = rng.standard_normal((batch, action_dim + head.slack), dtype=np.float32)
    return normalize(noise) if batch > 1 else normalize(noise[0])[None]


def geometric_act(
    head: GeometricHead, tensors: Tensors, obs: np.ndarray, noise: np.ndarray | None, action_dim: int
) -> np.ndarray:
    """`r * normalize(w * mu + (1 - w) * xi)`, before clipping.  # [..., obs_dim] -> [..., action_dim]"""
    x = relu(linear(tensors, "backbone.0", obs))
    x = relu(linear(tensors, "backbone.1", x))
    action = linear(tensors, "direction", x)
    if head.normalize_direction:
        action = normalize(action)
    hidden = None
    if "concentration.0.weight" in tensors and (noise is not None or head.scale_max is not None):
        hidden = relu(linear(tensors, "concentration.0", x))
    if noise is not None:
        weight = geometric_weight(head, tensors, hidden)
        action = weight * action + (1.0 - weight) * noise
        if head.normalize_mixture:
            action = normalize(action)
    action = action[..., :action_dim]
    if head.scale_max is not None:
        assert hidden is not None
        return action * (head.scale_max * sigmoid(linear(tensors, "scale", hidden)))
    assert head.radius is not None
    return action * head.radius


def geometric_weight(head: GeometricHead, tensors: Tensors, hidden: np.ndarray | None) -> np.ndarray | float:
    """Mixing weight w from the concentration head's hidden layer.  # [..., 1]"""
    if head.concentration == "fixed":
        return head.weight
    assert hidden is not None
    logit = linear(tensors, "concentration.1", hidden)
    if head.concentration == "softplus":
        logit = np.logaddexp(logit, 0.0)
    elif head.concentration == "published":
        bounded = 20.0 * sigmoid(logit / 5.0) - 10.0 + math.log(head.kappa_init)
        logit = np.minimum(np.logaddexp(bounded, 0.0) + 1e-6, 20.0) / 2.0
    return sigmoid(logit) if logit.ndim == 2 else 0.5 * math.tanh(0.5 * logit.item()) + 0.5


def geometric_shapes(
    head: GeometricHead, obs_dim: int, action_dim: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor that a geometric policy has."""
    shapes = {
        "backbone.0": (hidden, obs_dim),
        "backbone.1": (hidden, hidden),
        "direction": (action_dim + head.slack, hidden),
    }
    if head.concentration != "fixed" or head.scale_max is not None:
        shapes |= {"concentration.0": (64, hidden), "concentration.1": (1, 64)}
    if head.scale_max is not None:
        shapes["scale"] = (action_dim, 64)
    return layer_shapes(shapes)


def layer_shapes(layers: dict[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    """`name.weight` and `name.bias` for the `[out, in]` of each layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (fan_out, fan_in) in layers.items():
        shapes |= {f"{name}.weight": (fan_out, fan_in), f"{name}.bias": (fan_out,)}
    return shapes


def gaussian_noise(head: object, rng: np.random.Generator, batch: int, action_dim: int) -> np.ndarray:
    """Standard normal.  # [batch, action_dim]"""
    return rng.standard_normal((batch, action_dim), dtype=np.float32)


def tanh_gaussian_act(
    head: TanhGaussianHead, tensors: Tensors, obs: np.ndarray, noise: np.ndarray | None, action_dim: int
) -> np.ndarray:
    """SAC: `tanh(mean + std * noise)`.  # [batch, action_dim]"""
    x = relu(linear(tensors, "backbone.0", obs))
    x = relu(linear(tensors, "backbone.1", x))
    action = linear(tensors, "mean", x)
    if noise is not None:
        low, high = head.log_std_min, head.log_std_max
        action += np.exp(low + 0.5 * (high - low) * (np.tanh(linear(tensors, "log_std", x)) + 1.0)) * noise
    return np.tanh(action)


def tanh_gaussian_shapes(
    head: TanhGaussianHead, obs_dim: int, action_dim: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    layers = {"backbone.0": (hidden, obs_dim), "backbone.1": (hidden, hidden)}
    return layer_shapes(layers | {"mean": (action_dim, hidden), "log_std": (action_dim, hidden)})


def deterministic_act(
    head: DeterministicHead, tensors: Tensors, obs: np.ndarray, noise: np.ndarray | None, action_dim: int
) -> np.ndarray:
    """TD3: `tanh(f(s)) + exploration_noise * noise`, before clipping.  # [batch, action_dim]"""
    x = relu(linear(tensors, "backbone.0", obs))
    x = relu(linear(tensors, "backbone.1", x))
    action = np.tanh(linear(tensors, "mean", x))
    return action if noise is None else action + head.exploration_noise * noise


def deterministic_shapes(
    head: DeterministicHead, obs_dim: int, action_dim: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    layers = {"backbone.0": (hidden, obs_dim), "backbone.1": (hidden, hidden)}
    return layer_shapes(layers | {"mean": (action_dim, hidden)})


def gaussian_act(
    head: GaussianHead, tensors: Tensors, obs: np.ndarray, noise: np.ndarray | None, action_dim: int
) -> np.ndarray:
    """PPO: `f(normalised s) + std * noise`, before clipping.  # [batch, action_dim]"""
    if head.obs_clip is not None:
        obs = np.clip((obs - tensors["obs_mean"]) / tensors["obs_std"], -head.obs_clip, head.obs_clip)
    x = np.tanh(linear(tensors, "backbone.0", obs))
    x = np.tanh(linear(tensors, "backbone.1", x))
    action = linear(tensors, "mean", x)
    return action if noise is None else action + np.exp(tensors["log_std"]) * noise


def gaussian_shapes(
    head: GaussianHead, obs_dim: int, action_dim: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    layers = {"backbone.0": (hidden, obs_dim), "backbone.1": (hidden, hidden), "mean": (action_dim, hidden)}
    shapes = layer_shapes(layers) | {"log_std": (action_dim,)}
    if head.obs_clip is not None:
        shapes |= {"obs_mean": (obs_dim,), "obs_std": (obs_dim,)}
    return shapes


@dataclass(frozen=True)
class Kind:
    """The functions of one kind of policy. `act` takes one observation or a batch: it works on the last axis."""

    head: type
    noise: Callable[[Any, np.random.Generator, int, int], np.ndarray]
    act: Callable[[Any, Tensors, np.ndarray, np.ndarray | None, int], np.ndarray]
    shapes: Callable[[Any, int, int, int], dict[str, tuple[int, ...]]]


KINDS: dict[str, Kind] = {
    "geometric": Kind(GeometricHead, geometric_noise, geometric_act, geometric_shapes),
    "tanh-gaussian": Kind(TanhGaussianHead, gaussian_noise, tanh_gaussian_act, tanh_gaussian_shapes),
    "deterministic": Kind(DeterministicHead, gaussian_noise, deterministic_act, deterministic_shapes),
    "gaussian": Kind(GaussianHead, gaussian_noise, gaussian_act, gaussian_shapes),
}


@dataclass(frozen=True)
class PolicySpec:
    """What a policy is, besides its tensors."""

    kind: str
    """One of KINDS."""
    head: Any
    """The kind's own settings."""
    obs_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    algorithm: str
    env: str
    about: dict[str, Any] = field(default_factory=dict)
    """Where it was trained and what it scored: plain data for people and cards."""

    @property
    def action_dim(self) -> int:
        return len(self.action_low)


class Policy:
    """Tensors and a specification that act."""

    def __init__(self, spec: PolicySpec, tensors: Tensors):
        self.spec = spec
        self.tensors = tensors
        self._kind = KINDS[spec.kind]
        low = np.asarray(spec.action_low, np.float32)
        high = np.asarray(spec.action_high, np.float32)
        self._low, self._high = low, high
        self._middle, self._half = (high + low) / 2, (high - low) / 2

    def noise(self, rng: np.random.Generator, batch: int) -> np.ndarray:
        """The noise that a stochastic action is made from."""
        return self._kind.noise(self.spec.head, rng, batch, self.spec.action_dim)

    def raw(self, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """Actions in units of the box [-1, 1], before clipping.  # [..., obs_dim] -> [..., action_dim]"""
        return self._kind.act(self.spec.head, self.tensors, obs, noise, self.spec.action_dim)

    def __call__(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for the environment, for one observation or many; deterministic without a generator."""
        x = np.asarray(obs, np.float32)
        single = x.ndim == 1
        if x.shape[-1:] != (self.spec.obs_dim,) or x.ndim > 2:
            raise InputError(
                f"this policy takes observations of {self.spec.obs_dim} numbers "
                f"(or a batch of them), got an array of shape {np.shape(obs)}"
            )
        # The square is finite only where all numbers are; where it is not, they may just be very large.
        if not (single and math.isfinite(np.dot(x, x))) and not np.isfinite(x).all():
            raise InputError("the observation has a NaN or an infinity in it")
        noise = None
        if rng is not None:
            noise = self.noise(rng, 1)[0] if single else self.noise(rng, len(x))
        action = self.raw(x, noise) * self._half
        action += self._middle
        # Clipped after rescaling, which is the same and cannot leave the limits by a rounding error.
        return np.minimum(np.maximum(action, self._low, out=action), self._high, out=action)

    def save(self, folder: Path | str) -> Path:
        """Write policy.json and policy.safetensors into `folder`, which may hold an older policy, but nothing else."""
        from safetensors.numpy import save

        folder = Path(folder)
        files.require_replaceable(folder, POLICY_FILES, "a policy")
        data = save({name: np.ascontiguousarray(t, np.float32) for name, t in self.tensors.items()})
        spec = dataclasses.asdict(self.spec)
        spec |= {"format": "geoact-policy", "schema": SCHEMA, "version": __version__}
        spec["tensors"] = {"file": "policy.safetensors", "size": len(data), "sha256": files.sha256(data)}
        with files.new_folder(folder) as temporary:
            files.write_bytes(temporary / "policy.safetensors", data)
            files.write_json(temporary / "policy.json", spec)
        return folder


def load(path: Path | str) -> Policy:
    """Load a policy from its folder (or its policy.json, or the run it belongs to), or `zoo:<name>`."""
    folder = find(Path(path))
    data = files.read_json(folder / "policy.json")
    if data.get("format") != "geoact-policy":
        raise FileFormatError(f"{folder / 'policy.json'} is not a geoact policy")
    schema = data.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise FileFormatError(f"{folder / 'policy.json'} is damaged: schema {schema!r}")
    if schema > SCHEMA:
        raise FileFormatError(
            f"{folder} was written by a newer geoact ({data.get('version')}, schema {schema}; this one reads up to "
            f"{SCHEMA}): upgrade geoact to use it"
        )
    spec = _read_spec(folder, data)
    return Policy(spec, _read_tensors(folder, data, spec))


def zoo() -> dict[str, Path]:
    """The policies that come with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(ZOO.glob("*/policy.json"))}


def find(path: Path) -> Path:
    """The policy folder that a path means."""
    scheme, _, name = str(path).partition(":")
    if scheme == "zoo":
        known = zoo()
        if not known:
            raise InputError(f"this installation of geoact has no zoo: {ZOO} is empty or missing")
        if name not in known:
            raise InputError(unknown("policy of the zoo", name, list(known)))
        return known[name]
    if path.name == "policy.json":
        path = path.parent
    for folder in (path, path / "policy"):
        if (folder / "policy.json").is_file():
            return folder
    if not path.exists():
        raise InputError(f"{path} does not exist: give a run directory or a policy folder")
    if (path / "run.json").is_file():
        raise InputError(f"{path} is a run that has no policy yet: it stopped before its first evaluation")
    raise InputError(f"{path} is neither a run nor a policy: there is no policy.json in it")


def _read_spec(folder: Path, data: dict[str, Any]) -> PolicySpec:
    where = folder / "policy.json"
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise FileFormatError(f"{where}: {unknown('kind of policy', str(kind)[:40], list(KINDS))}")
    try:
        low, high = (tuple(float(x) for x in data[name]) for name in ("action_low", "action_high"))
        head = KINDS[kind].head(**data["head"])
        _check_head(head)
        spec = PolicySpec(
            kind,
            head,
            data["obs_dim"],
            low,
            high,
            str(data["algorithm"]),
            str(data["env"]),
            dict(data["about"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{where} is damaged: {type(error).__name__} {error}") from None
    limits = np.asarray([low, high], np.float64) if len(low) == len(high) else np.asarray([[math.nan]])
    if not (low and (np.abs(limits) < 1e30).all() and (limits[0] < limits[1]).all()):
        raise FileFormatError(f"{where} is damaged: the action limits are not a box")
    if not isinstance(spec.obs_dim, int) or isinstance(spec.obs_dim, bool) or spec.obs_dim < 1:
        raise FileFormatError(f"{where} is damaged: obs_dim {spec.obs_dim!r}")
    return spec


def _check_head(head: Any) -> None:
    """Each setting must be of the type that the head declares, and a finite number where it is a number."""
    for name, kind in get_type_hints(type(head)).items():
        value = getattr(head, name)
        allowed = get_args(kind) or (kind,)
        plain = tuple(k for k in allowed if isinstance(k, type))
        fits = value in allowed if get_origin(kind) is Literal else isinstance(value, plain)
        if float in plain and type(value) is int:
            fits = True  # JSON does not tell 1 from 1.0
        if isinstance(value, bool) and bool not in plain:
            fits = False
        if not fits or (isinstance(value, (int, float)) and not abs(value) < 1e6):
            raise ValueError(f"{name} is {str(value)[:40]!r}")


def _read_tensors(folder: Path, data: dict[str, Any], spec: PolicySpec) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_tensors

    path = folder / "policy.safetensors"
    stated = data.get("tensors")
    if not isinstance(stated, dict):
        raise FileFormatError(f"{folder / 'policy.json'} is damaged: it does not describe its tensors")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileFormatError(f"{path} is missing") from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) != stated.get("size") or files.sha256(content) != stated.get("sha256"):
        raise FileFormatError(f"{path} is damaged: its size or SHA-256 is not the one in policy.json")
    try:
        tensors = load_tensors(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from None
    first = tensors.get("backbone.0.weight")
    hidden = first.shape[0] if first is not None and first.ndim == 2 else 0
    expected = KINDS[spec.kind].shapes(spec.head, spec.obs_dim, spec.action_dim, hidden)
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != expected or any(tensor.dtype != np.float32 for tensor in tensors.values()):
        raise FileFormatError(f"{path} does not fit its policy.json: expected {expected}, found {found}")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise FileFormatError(f"{path} is damaged: {name} has a NaN or an infinity in it")
    return tensors
