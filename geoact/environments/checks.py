"""What an environment must be, so that geoact can control it, and what it must give at every step.

Everything else is refused in one sentence that names the environment: other spaces, the interface of the old gym,
one object where several are needed, numbers that are not finite.
"""

import contextlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from geoact.errors import InputError, TrainingFailed

Env: TypeAlias = "gym.Env[Any, Any]"
Space: TypeAlias = "gym.Space[Any]"


def is_box(space: Space) -> TypeGuard["spaces.Box[Any]"]:
    return isinstance(space, spaces.Box)


def parts(space: Space) -> dict[Any, Space] | None:
    """The spaces that a Dict or a Tuple is made of, by key or position; None of a space in one piece."""
    made_of: Any = getattr(space, "spaces", None)
    if isinstance(space, spaces.Dict):
        return dict(made_of)
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(made_of))
    return None


def checked(env: Env, name: str) -> Env:
    """The environment with a vector observation, or an error that says what does not fit."""
    if not isinstance(env, gym.Env):  # pyright: ignore[reportUnnecessaryIsInstance] (a user's function may return anything)
        kind = f"{type(env).__module__}.{type(env).__qualname__}"
        advice = "; shimmy has wrappers for it" if kind.startswith("gym.") else ""
        raise InputError(f"{name} is a {kind}: expected a Gymnasium environment (gymnasium.Env){advice}")
    action, obs = env.action_space, env.observation_space
    if not is_box(action):
        raise InputError(
            f"{name} has a {type(action).__name__} action space: geoact controls continuous (Box) actions"
        )
    if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise InputError(
            f"{name} has an unbounded action box: wrap it with gymnasium.wrappers.RescaleAction or "
            "give its action space finite limits"
        )
    if len(action.shape) != 1:
        raise InputError(f"{name} has actions of shape {action.shape}: flatten them to a vector")
    if is_box(obs) and len(obs.shape) >= 3:
        raise InputError(f"{name} has image observations of shape {obs.shape}: geoact learns from vectors")
    if not (is_box(obs) and len(obs.shape) == 1):
        if not _flattens(obs):
            raise InputError(
                f"{name} has {type(obs).__name__} observations that do not flatten to a vector of numbers: "
                "wrap it so that it gives a Box"
            )
        env = gym.wrappers.FlattenObservation(env)
    return env


def _flattens(space: Space) -> bool:
    """Whether a space is made of numeric vectors only."""
    inner = parts(space)
    if inner is not None:
        return all(_flattens(part) for part in inner.values())
    return is_box(space) and len(space.shape) <= 2


def several(make: Callable[[], Env], count: int, name: str, apart_from: Sequence[Env] = ()) -> list[Env]:
    """`count` environments of their own; a function that gives the same object twice is refused.

    `apart_from`: environments that these must not be, either, such as those that are being trained on.
    """
    made: list[Env] = []
    inner = {id(env.unwrapped) for env in apart_from}  # a wrapper may be new where what it wraps is not
    for _ in range(count):
        env = make()
        if id(env.unwrapped) in inner:
            raise InputError(
                f"{name} gave the same environment twice: the function must make a new one each time it is called, "
                "not return one that was made before"
            )
        inner.add(id(env.unwrapped))
        made.append(env)
    return made


def reset(env: Env, seed: int, name: str) -> np.ndarray:
    """Begin an evaluation episode: its first observation, finite, or an error that names the environment."""
    with explained(name, lambda: env):
        obs, info = env.reset(seed=seed)
        if not isinstance(info, dict):  # pyright: ignore[reportUnnecessaryIsInstance] (a vector of two also unpacks)
            raise TypeError(f"reset returned {type(info).__name__} as info")
    obs = np.asarray(obs)
    require_finite(name, "observation", obs, "evaluation, reset")
    return obs


def step(env: Env, action: np.ndarray, name: str) -> tuple[np.ndarray, float, bool, bool]:
    """One step of an evaluation: observation, reward, terminated, truncated; finite, or an error with the name."""
    with explained(name, lambda: env):
        obs, reward, terminated, truncated, _ = env.step(action.astype(env.action_space.dtype))
    obs, reward = np.asarray(obs), float(reward)
    if not (math.isfinite(reward) and np.isfinite(obs).all()):
        require_finite(name, "observation", obs, "evaluation, step")
        require_finite(name, "reward", np.asarray(reward), "evaluation, step")
    return obs, reward, bool(terminated), bool(truncated)


def require_finite(name: str, field: str, values: np.ndarray, where: str) -> None:
    """Stop at a NaN or an infinity, by the name of the environment that gave it."""
    if not np.isfinite(values).all():
        raise TrainingFailed(
            f"{name} gave a non-finite {field} ({where}): correct the environment; nothing was learned from it"
        )


@contextlib.contextmanager
def explained(name: str, env: Callable[[], Env]) -> Generator[None]:
    """Where a reset or a step raises because the environment has the old gym's interface, say so instead."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        problem = _old_interface(env())
        if problem is None:
            raise
        raise InputError(
            f"{name} {problem}: it has the interface of the old gym; change it to Gymnasium's, or wrap it (shimmy has "
            "wrappers for it)"
        ) from error


def _old_interface(env: Env) -> str | None:
    """What in an environment's answers is not Gymnasium's interface, by resetting and stepping it; None if nothing."""
    bare: Any = env.unwrapped
    try:
        try:
            answer: Any = bare.reset(seed=0, options={})
        except TypeError as error:
            if "unexpected keyword argument" not in str(error):
                return None
            return "has a reset that does not take seed and options"
        if _values(answer) != 2 or not isinstance(answer[1], dict):
            return "has a reset that does not return (observation, info)"
        answer = bare.step(bare.action_space.sample())
        if _values(answer) != 5:
            count = f"{_values(answer)} values" if _values(answer) else f"a {type(answer).__name__}"
            return f"has a step that returns {count}, expected (observation, reward, terminated, truncated, info)"
    except Exception:  # then something else is wrong with it, which the error at hand says
        return None
    return None


def _values(answer: Any) -> int | None:
    """The length of a tuple; None of anything else."""
    return len(cast(Any, answer)) if type(answer) is tuple else None


def flatten_observation(space: Space, obs: Any) -> np.ndarray:
    """The vector that `checked` makes of an observation; of a batch, with leading axes in every part, one for each.

    The parts of a Dict come in the order of the space, not of the observation.  # [..., obs_dim]
    """
    inner = parts(space)
    if inner is not None:
        given = _given(obs)
        if given.keys() != inner.keys():
            kind = type(obs).__name__
            raise InputError(
                f"expected an observation with the parts {', '.join(map(str, inner))}, got a {kind} with "
                f"{', '.join(map(str, given)) or 'none'}"
            )
        return _join([flatten_observation(part, given[key]) for key, part in inner.items()])
    array, shape = np.asarray(obs), space.shape
    assert shape is not None
    lead = array.shape[: array.ndim - len(shape)]
    if array.shape != lead + shape:
        raise InputError(f"expected an observation of shape {shape}, got {array.shape}")
    return array.reshape(*lead, -1)


def _given(obs: Any) -> dict[Any, Any]:
    """The parts of an observation, by key or position."""
    if isinstance(obs, Mapping):
        return dict(cast("Mapping[Any, Any]", obs))
    return dict(enumerate(cast("Sequence[Any]", obs))) if isinstance(obs, (tuple, list)) else {}


def _join(vectors: list[np.ndarray]) -> np.ndarray:
    sizes = sorted({vector.shape[:-1] for vector in vectors})
    if len(sizes) > 1:
        raise InputError(f"the parts of the observation are batches of different sizes: {sizes}")
    return np.concatenate(vectors, axis=-1)
