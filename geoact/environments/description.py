"""What an environment given in Python is, as plain data, and whether an environment fits a policy.

A run or policy that was trained on a wrapped object must not be resumed or evaluated on the plain environment of the
same id: its rewards, limits or dynamics are others. So what it was trained on is written down, and an environment
that is to take its place is compared with it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FlattenObservation

from geoact.environments.checks import Env, Space, is_box
from geoact.errors import FileFormatError

USUAL = ("PassiveEnvChecker", "OrderEnforcing", "TimeLimit")
"""The wrappers that `gymnasium.make` adds; a time limit other than the registered one is told apart."""


@dataclass(frozen=True)
class EnvDescription:
    """What an environment is: its id, the arguments it was made with, and its wrappers, the innermost first."""

    id: str | None
    """Its id in Gymnasium's registry; None for an object of a class that was never registered."""
    kind: str
    """Its class."""
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that differ from the registered ones; one that is not plain data is given as text."""
    wrappers: tuple[str, ...] = ()

    @property
    def rebuildable(self) -> bool:
        """Whether the id alone makes the same environment."""
        return self.id is not None and not self.kwargs and not self.wrappers

    def __str__(self) -> str:
        """In words: `Pendulum-v1 (g=1.0) in RescaleAction, TransformReward`."""
        text = self.id or self.kind
        if self.kwargs:
            text += f" ({', '.join(f'{name}={value}' for name, value in self.kwargs.items())})"
        if self.wrappers:
            text += f" in {', '.join(self.wrappers)}"
        return text if self.rebuildable else f"an environment given in Python: {text}"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "kwargs": self.kwargs,
            "wrappers": list(self.wrappers),
            "rebuildable": self.rebuildable,
        }

    @classmethod
    def from_json(cls, data: Any) -> "EnvDescription":
        """From run.json or policy.json."""
        try:
            id, kind = data["id"], data["kind"]
            kwargs, wrappers = dict[str, Any](data["kwargs"].items()), tuple[str, ...](data["wrappers"])
            if not (isinstance(id, str | None) and all(isinstance(text, str) for text in (kind, *wrappers))):
                raise TypeError
            return cls(id, kind, kwargs, wrappers)
        except (KeyError, TypeError, AttributeError):
            raise FileFormatError("the description of the environment is damaged") from None


def describe(env: Env) -> EnvDescription:
    """What this environment is. Attributes that were changed after it was made cannot be seen."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(_inside(layers[-1]))
    if type(layers[0]) is FlattenObservation and not _is_vector(layers[1].observation_space):
        layers.pop(0)  # as `checked` adds it
    *wrappers, bare = layers
    kind = f"{type(bare).__module__}.{type(bare).__qualname__}"
    added = [type(w).__name__ for w in reversed(wrappers) if type(w).__name__ not in USUAL]
    spec = layers[0].spec or bare.spec
    known = gym.registry.get(spec.id) if spec is not None else None
    if spec is None or known is None:
        return EnvDescription(None, kind, {}, tuple(added))
    registered = dict(known.kwargs)
    kwargs = {
        name: _plain(value) for name, value in spec.kwargs.items() if not _same(registered, name, value)
    }
    kwargs.pop("render_mode", None)
    if spec.max_episode_steps != known.max_episode_steps:
        kwargs["max_episode_steps"] = spec.max_episode_steps
    return EnvDescription(spec.id, kind, kwargs, tuple(added))


def _inside(wrapper: Any) -> Env:
    return wrapper.env


def _is_vector(space: Space) -> bool:
    return is_box(space) and len(space.shape) == 1


def _same(registered: dict[str, Any], name: str, value: Any) -> bool:
    if name not in registered:
        return False
    try:
        return bool(np.all(registered[name] == value))
    except (ValueError, TypeError):
        return False


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:200]


def compare_spaces(
    obs_dim: int, action_low: Sequence[float], action_high: Sequence[float], env: Env
) -> str | None:
    """What in an environment (as `checked` gives it) differs from what a policy was trained with; None if nothing."""
    obs, action = env.observation_space, env.action_space
    assert is_box(obs) and is_box(action)
    if obs.shape != (obs_dim,):
        return f"the policy was trained on observations of {obs_dim} numbers, the environment gives {obs.shape[0]}"
    if action.shape != (len(action_low),):
        return f"the policy has {len(action_low)} action dimensions, the environment {action.shape[0]}"
    for name, mine, its in (("lower", action_low, action.low), ("upper", action_high, action.high)):
        differs = np.flatnonzero(np.asarray(mine, np.float32) != np.asarray(its, np.float32))
        if len(differs):
            i = int(differs[0])
            return (
                f"the policy was trained with the {name} action limit {float(mine[i]):g} in dimension {i}, the "
                f"environment has {float(its[i]):g}"
            )
    return None
