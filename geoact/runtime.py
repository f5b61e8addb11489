"""A trained policy in NumPy alone, for machines without JAX; also what acts during training.

    policy = geoact.runtime.load("runs/.../policy")
    action = policy(observation)

Needs NumPy and safetensors. The mathematics is that of `geoact.policies`, run on NumPy: observation
normalisation, network, head, clipping to the box and rescaling to the environment's own limits are all
inside. A policy is a folder of two files:

    policy.json         what it is: schema, kind, head, network, sizes, action limits, where it was trained
    policy.safetensors  its tensors; size and SHA-256 are in policy.json

Nothing in these files is ever executed.

An action depends on its observation alone, but matrix products of one row and of many are summed in another
order: the same observation in batches of different sizes gives actions that agree to about 1e-6 of their
range, not to the bit. Evaluations therefore act on one observation at a time.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from geoact import __version__, checks, policies
from geoact.config import entry
from geoact.errors import FileFormatError, InputError
from geoact.policies import KINDS, SMALLEST_SQUARE, NetworkConfig, Params
from geoact.storage import files

SCHEMA = 2
POLICY_FILES = frozenset({"policy.json", "policy.safetensors"})
ZOO = Path(__file__).parent / "models"
"""The policies that come with the package: `models/` of the repository, to which this is a link there."""

Tensors = dict[str, np.ndarray]


class NumpyOperations:
    """The operations of `geoact.policies`, in NumPy, on a batch and on one observation alike.

    For one observation the overhead of the calls is most of the time, so they are chosen for it: `np.dot`
    over `@`, results written over inputs that nobody else has, and no `where`, `clip` or `einsum`.
    """

    def linear(self, params: Params, name: str, x: np.ndarray) -> np.ndarray:
        y = np.dot(x, params[name + ".weight"].T)
        y += params[name + ".bias"]
        return y

    def relu(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0.0, out=x)

    tanh = staticmethod(np.tanh)
    exp = staticmethod(np.exp)

    def elu(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0)))

    def sigmoid(self, x: np.ndarray) -> np.ndarray:
        if x.shape == (1,):
            return 0.5 * math.tanh(0.5 * x.item()) + 0.5  # type: ignore[return-value]
        y = np.tanh(0.5 * x)
        y *= 0.5
        y += 0.5
        return y

    def softplus(self, x: np.ndarray) -> np.ndarray:
        return np.logaddexp(x, 0.0)

    def at_most(self, x: np.ndarray, bound: float) -> np.ndarray:
        return np.minimum(x, bound)

    def clip(self, x: np.ndarray, low: float, high: float) -> np.ndarray:
        return np.minimum(np.maximum(x, low, out=x), high, out=x)

    def first(self, x: np.ndarray, count: int) -> np.ndarray:
        return x[..., :count]

    def normalize(self, v: np.ndarray) -> np.ndarray:
        if v.ndim == 1:
            squared = float(np.dot(v, v))
            return np.zeros_like(v) if squared <= SMALLEST_SQUARE else v / math.sqrt(squared)
        squared = np.einsum("ij,ij->i", v, v)[:, None]
        is_direction = ~(squared <= SMALLEST_SQUARE)  # so that a NaN stays one, and stops the run
        return np.where(is_direction, v / np.sqrt(np.where(is_direction, squared, 1.0)), 0.0)

    def layer_norm(self, x: np.ndarray) -> np.ndarray:
        centered = x - x.mean(axis=-1, keepdims=True)
        return centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + 1e-5)


NUMPY = NumpyOperations()


@dataclass(frozen=True)
class PolicySpec:
    """What a policy is, besides its tensors."""

    kind: str
    """One of `geoact.policies.KINDS`."""
    head: Any
    """The kind's own settings."""
    network: NetworkConfig
    """Its hidden layers."""
    obs_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    algorithm: str
    env: str
    obs_clip: float | None = None
    """Bound of the normalised observation; None where observations are taken as they come."""
    about: dict[str, Any] = field(default_factory=dict)
    """Where it was trained and what it scored: plain data for people and cards."""

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return len(self.action_low)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor."""
        return policies.shapes(
            self.kind, self.head, self.network, self.obs_dim, self.action_dim, self.obs_clip is not None
        )


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
        self._noise_dim = policies.noise_dim(spec.kind, spec.head, spec.action_dim)

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy, (self.spec, self.tensors)

    def noise(self, rng: np.random.Generator, batch: int) -> np.ndarray:
        """The noise that a stochastic action is made from.  # [batch, noise_dim]"""
        noise = rng.standard_normal((batch, self._noise_dim), dtype=np.float32)
        if not self._kind.sphere_noise:
            return noise
        return NUMPY.normalize(noise) if batch > 1 else NUMPY.normalize(noise[0])[None]

    def hidden(self, obs: np.ndarray) -> np.ndarray:
        """The last hidden layer.  # [..., obs_dim] -> [..., width]"""
        spec, tensors = self.spec, self.tensors
        if spec.obs_clip is not None:
            obs = policies.normalized_obs(NUMPY, tensors, obs, spec.obs_clip)
        return policies.hidden(NUMPY, spec.network, tensors, obs)

    def raw(self, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """Actions in units of the box [-1, 1], before clipping.  # [..., obs_dim] -> [..., action_dim]"""
        spec = self.spec
        return self._kind.act(NUMPY, spec.head, self.tensors, self.hidden(obs), noise, spec.action_dim)

    def unsquashed(self, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """Actions before their tanh, or before clipping where the policy has none.  # [..., action_dim]"""
        act, spec = self._kind.unsquashed or self._kind.act, self.spec
        return act(NUMPY, spec.head, self.tensors, self.hidden(obs), noise, spec.action_dim)

    @property
    def squashes(self) -> bool:
        """Whether the policy ends in a tanh; else its actions are clipped to the box."""
        return self._kind.unsquashed is not None

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
        """Write policy.json and policy.safetensors into a folder that holds an older policy or nothing."""
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
    return files.read_consistently(lambda: _load(folder), folder / "policy.json")


def _load(folder: Path) -> Policy:
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
    tensors = _read_tensors(folder, data)
    spec = _read_spec(folder, _from_schema_1(data, tensors) if schema == 1 else data)
    expected = spec.shapes()
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != expected or any(tensor.dtype != np.float32 for tensor in tensors.values()):
        path = folder / "policy.safetensors"
        raise FileFormatError(f"{path} does not fit its policy.json: expected {expected}, found {found}")
    return Policy(spec, tensors)


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
            raise InputError(checks.unknown("policy of the zoo", name, list(known)))
        return known[name]
    if path.name == "policy.json":
        path = path.parent
    for folder in (path, path / "policy"):
        if (folder / "policy.json").is_file():
            return folder
    if not path.exists():
        raise InputError(f"{path} does not exist: give a run directory or a policy folder")
    if (path / "run.json").is_file():
        raise InputError(
            f"{path} is a run that has no policy yet: it writes one at its first evaluation, and whenever it ends"
        )
    raise InputError(f"{path} is neither a run nor a policy: there is no policy.json in it")


def _read_spec(folder: Path, data: dict[str, Any]) -> PolicySpec:
    where = folder / "policy.json"
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise FileFormatError(f"{where}: {checks.unknown('kind of policy', str(kind)[:40], list(KINDS))}")
    try:
        entry(str(data.get("algorithm"))[:40])
    except InputError as error:
        raise FileFormatError(f"{where}: {error}") from None
    try:
        low, high = (tuple(float(x) for x in data[name]) for name in ("action_low", "action_high"))
        if not checks.fits(data["obs_dim"], int) or data["obs_dim"] < 1:
            raise ValueError(f"obs_dim {data['obs_dim']!r}")
        head, clip = KINDS[kind].head(**data["head"]), data["obs_clip"]
        _check_head(head)
        spec = PolicySpec(
            kind=kind,
            head=head,
            network=NetworkConfig(**data["network"]),
            obs_dim=data["obs_dim"],
            action_low=low,
            action_high=high,
            algorithm=str(data["algorithm"]),
            env=str(data["env"]),
            obs_clip=None if clip is None else float(clip),
            about=dict(data["about"]),
        )
        if spec.obs_clip is not None and not 0 < spec.obs_clip < 1e6:
            raise ValueError(f"obs_clip is {spec.obs_clip}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{where} is damaged: {type(error).__name__} {error}") from None
    limits = np.asarray([low, high], np.float64) if len(low) == len(high) else np.asarray([[math.nan]])
    if not (low and (np.abs(limits) < 1e30).all() and (limits[0] < limits[1]).all()):
        raise FileFormatError(f"{where} is damaged: the action limits are not a box")
    return spec


def _check_head(head: Any) -> None:
    """Each setting must be of the type that the head declares, and of a size that makes sense."""
    checks.check(head)
    for name, value in vars(head).items():
        if isinstance(value, int | float) and not abs(value) < 1e6:
            raise ValueError(f"{name} is {str(value)[:40]!r}")


def _from_schema_1(data: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Schema 1 had two hidden layers of one width, and the bound of normalised observations in PPO's head."""
    first = tensors.get("backbone.0.weight")
    width = first.shape[0] if first is not None and first.ndim == 2 else 1
    head = data.get("head")
    head = dict(head) if isinstance(head, dict) else {}
    return data | {
        "network": {
            "hidden_sizes": [width, width],
            "activation": "tanh" if data.get("kind") == "gaussian" else "relu",
        },
        "obs_clip": head.pop("obs_clip", None),
        "head": head,
    }


def _read_tensors(folder: Path, data: dict[str, Any]) -> Tensors:
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
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise FileFormatError(f"{path} is damaged: {name} has a NaN or an infinity in it")
    return tensors
