"""From an environment's name to vector environments whose episodes are known.

The vector environments run with autoreset disabled: what `step` returns is the true next observation, always,
and ended environments are reset here, each episode with its own seed derived from (run seed, environment
index, episode number). Actions come in units of the box [-1, 1] and are rescaled to the environment's limits.
Non-finite observations and rewards stop the run before they reach replay.
"""

import functools
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault(
    "MUJOCO_GL", "disabled"
)  # training is headless; rendering sets its own before importing

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from geoact.config import Vectorization, unknown
from geoact.errors import InputError, TrainingFailed

EnvFactory = Callable[[], gym.Env]


def factory(env: str) -> EnvFactory:
    """A function that makes this environment; it can be sent to another process."""
    return functools.partial(make, env)


def make(env: str, render_mode: str | None = None) -> gym.Env:
    """One environment by name, its observation a vector, its action a bounded box; anything else is explained."""
    made = _make(env, render_mode)
    try:
        return checked(made, env)
    except InputError:
        made.close()
        raise


def registered(env: str) -> str:
    """The id in Gymnasium's registry that a name means; imports what the name says it needs, and nothing else.

    `module:Id` imports the module first; `dm_control/walker-run`, or `walker-run` for short, is a task of
    DMControl (through Shimmy), which takes a second or two to import.
    """
    if ":" in env:
        module, _, name = env.partition(":")
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(
                os.getcwd()
            )  # an installed command does not look where it was started; people expect it
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"cannot import {module!r}, which {env!r} names: {error}") from None
        env = name
    task = DM_CONTROL.fullmatch(env)
    if env not in gym.registry and task:
        import shimmy

        gym.register_envs(shimmy)
        env = f"dm_control/{task['task']}-v0"
    if env not in gym.registry:
        known = [
            name.removeprefix("dm_control/").removesuffix("-v0") if task else name for name in gym.registry
        ]
        raise InputError(unknown("environment", task["task"] if task else env, known))
    return env


DM_CONTROL = re.compile(r"(dm_control/)?(?P<task>[a-z_]+-[a-z0-9_]+?)(-v0)?")

SUCCESSORS = {"Pusher-v4": "its object is heavier"}
"""Environments that cannot be made any more, and what to know about the next version."""


def available() -> list[str]:
    """The names of all environments that Gymnasium and DMControl register here, the newest versions only."""
    import shimmy

    gym.register_envs(shimmy)
    newest: dict[str, int] = {}
    for spec in gym.registry.values():
        stem = spec.id.rpartition("-v")[0]
        newest[stem] = max(newest.get(stem, 0), spec.version or 0)
    kept = [s for s in gym.registry.values() if (s.version or 0) == newest[s.id.rpartition("-v")[0]]]
    return sorted(s.id for s in kept if s.namespace in (None, "dm_control"))


def _make(env: str, render_mode: str | None) -> gym.Env:
    env_id = registered(env)
    if env_id in SUCCESSORS:
        successor = env_id.removesuffix("4") + "5"
        raise InputError(
            f"{env_id} needs MuJoCo 2, which this geoact does not run on: use {successor} "
            f"({SUCCESSORS[env_id]}, so the two are not to be compared number by number)"
        )
    _quiet_mujoco()
    # An environment of the user's own need not know about rendering.
    rendering: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    try:
        with warnings.catch_warnings():
            # The old version is what the user named, for comparison with published numbers.
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
            return gym.make(env_id, disable_env_checker=True, **rendering)
    except Exception as error:  # whatever a third-party constructor raises, the user named this environment
        raise InputError(f"environment {env!r} cannot be made: {error}") from None


def _quiet_mujoco() -> None:
    """MuJoCo prints a deprecation of everybody's model files at every load; other warnings become Python's.

    Set each time, because importing dm_control puts its own handler in place.
    """
    try:
        import mujoco
    except ImportError:  # environments of the user's own need no MuJoCo
        return

    def warn(message: str) -> None:
        if "settotalmass" not in message:
            warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)

    mujoco.set_mju_user_warning(warn)  # pyright: ignore[reportAttributeAccessIssue] (missing in its stubs)


def checked(env: gym.Env, name: str) -> gym.Env:
    """The environment with a vector observation, or an error that says what does not fit."""
    action, obs = env.action_space, env.observation_space
    if not isinstance(action, gym.spaces.Box):
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
    if isinstance(obs, gym.spaces.Box) and len(obs.shape) >= 3:
        raise InputError(f"{name} has image observations of shape {obs.shape}: geoact learns from vectors")
    if not isinstance(obs, gym.spaces.Box) or len(obs.shape) != 1:
        if not _flattens(obs):
            raise InputError(
                f"{name} has {type(obs).__name__} observations that do not flatten to a vector of numbers: "
                "wrap it so that it gives a Box"
            )
        env = gym.wrappers.FlattenObservation(env)
    return env


def _flattens(space: gym.Space) -> bool:
    """Whether a space is made of numeric vectors only."""
    if isinstance(space, gym.spaces.Dict):
        return all(_flattens(part) for part in space.values())
    if isinstance(space, gym.spaces.Tuple):
        return all(_flattens(part) for part in space)
    return isinstance(space, gym.spaces.Box) and len(space.shape) <= 2


def episode_seed(run_seed: int, index: int, episode: int) -> int:
    """The seed of an environment's episode: known from three numbers, so that it can be played again."""
    return int(np.random.SeedSequence([run_seed, index, episode]).generate_state(1)[0])


@dataclass(frozen=True)
class Step:
    """One vector step."""

    obs: np.ndarray  # [n, obs_dim], before the step
    next_obs: np.ndarray  # [n, obs_dim], after it, also where an episode ended
    reward: np.ndarray  # [n]
    terminated: np.ndarray  # [n] bool
    truncated: np.ndarray  # [n] bool
    episodes: list[tuple[float, int]]  # (return, length) of the episodes that ended


class Environments:
    """`count` environments stepped together, with their episodes' seeds and actions since."""

    def __init__(
        self, name: str, factory: EnvFactory, count: int, seed: int, vectorization: Vectorization = "sync"
    ):
        self.name = name
        self.count = count
        self.seed = seed
        self.resumable = vectorization != "envpool"
        """Whether every episode starts from a seed of ours, so that it can be played again exactly."""
        self._vector = _vector(name, factory, count, seed, vectorization)
        space = self._vector.single_action_space
        assert isinstance(space, gym.spaces.Box)
        self.low, self.high = space.low.astype(np.float64), space.high.astype(np.float64)
        self._action_dtype = space.dtype
        obs_space = self._vector.single_observation_space
        assert obs_space.shape is not None
        self.obs_dim, self.action_dim = int(obs_space.shape[0]), int(space.shape[0])
        self.obs = np.zeros((count, self.obs_dim), np.float32)
        self.episode = np.zeros(count, np.int64)
        self.returns = np.zeros(count)
        self.lengths = np.zeros(count, np.int64)
        self.steps = 0
        self.largest_reward = 0.0
        """The largest absolute reward seen: what a value can amount to follows from it."""
        self.actions: list[list[np.ndarray]] = [[] for _ in range(count)]
        """Each environment's actions since its episode began."""
        self._reset(np.ones(count, bool))

    def _reset(self, mask: np.ndarray) -> None:
        seeds = [
            episode_seed(self.seed, i, int(self.episode[i])) if mask[i] else None for i in range(self.count)
        ]
        obs, _ = self._vector.reset(seed=seeds, options={"reset_mask": mask})  # pyright: ignore[reportArgumentType]
        self._require_finite("observation", np.asarray(obs)[mask], "reset")
        self.obs = np.where(mask[:, None], obs, self.obs).astype(np.float32)
        for i in np.flatnonzero(mask):
            self.actions[i] = []
        self.returns[mask] = 0.0
        self.lengths[mask] = 0

    def step(self, action: np.ndarray) -> Step:
        """Step all environments with actions in [-1, 1].  # [n, action_dim] float32"""
        if not np.isfinite(action).all():
            raise TrainingFailed(f"the policy gave a non-finite action at vector step {self.steps}")
        obs = self.obs
        raw_obs, reward, terminated, truncated, _ = self._vector.step(self._rescale(action))
        next_obs = np.asarray(raw_obs).astype(np.float32)
        reward = np.asarray(reward, np.float64)
        self.steps += 1
        self._require_finite("observation", next_obs, "step")
        self._require_finite("reward", reward, "step")
        self.largest_reward = max(self.largest_reward, float(np.abs(reward).max()))
        self.returns += reward
        self.lengths += 1
        for i in range(self.count):
            self.actions[i].append(action[i])
        self.obs = next_obs
        ended = terminated | truncated
        episodes: list[tuple[float, int]] = []
        if ended.any():
            episodes = [(float(self.returns[i]), int(self.lengths[i])) for i in np.flatnonzero(ended)]
            self.episode[ended] += 1
            self._reset(ended)
        return Step(obs, next_obs, reward.astype(np.float32), terminated, truncated, episodes)

    def _rescale(self, action: np.ndarray) -> np.ndarray:
        scaled = self.low + (action.astype(np.float64) + 1.0) * (0.5 * (self.high - self.low))
        return np.clip(scaled, self.low, self.high).astype(self._action_dtype)

    def _require_finite(self, field: str, values: np.ndarray, where: str) -> None:
        if np.isfinite(values).all():
            return
        index = int(np.argwhere(~np.isfinite(values))[0][0])
        raise TrainingFailed(
            f"{self.name} gave a non-finite {field} (environment {index}, {where}, vector step {self.steps}): "
            "the run stopped before it reached the replay buffer"
        )

    def close(self) -> None:
        self._vector.close()


def _vector(
    name: str, factory: EnvFactory, count: int, seed: int, vectorization: Vectorization
) -> "VectorEnv[Any, Any, Any] | EnvPool":
    if vectorization == "async":
        return AsyncVectorEnv([factory] * count, autoreset_mode=AutoresetMode.DISABLED, context="spawn")
    if vectorization == "sync":
        return SyncVectorEnv([factory] * count, copy=False, autoreset_mode=AutoresetMode.DISABLED)
    if vectorization == "envpool":
        return EnvPool(name, factory, count, seed)
    raise InputError(f"unknown vectorization {vectorization!r}: use sync, async or envpool")


class EnvPool:
    """EnvPool's own simulators and threads, behind the part of a vector environment that `Environments` uses.

    EnvPool answers the step that ends an episode with the true final observation, and would begin the next
    episode at the following step; here ended environments are reset at once instead, so that the two look alike.
    It seeds each environment once, when it is made, and draws all episodes from there.
    """

    def __init__(self, name: str, factory: EnvFactory, count: int, seed: int):
        try:
            import envpool  # pyright: ignore[reportMissingImports] (an extra)
        except ImportError:
            raise InputError(
                "--vectorization envpool needs EnvPool: pip install 'geoact[envpool]', or use sync or async"
            ) from None
        task = DM_CONTROL.fullmatch(name)
        pool_id = name
        if task:
            pool_id = "".join(word.capitalize() for word in re.split("[-_]", task["task"])) + "-v1"
        if pool_id not in envpool.list_all_envs():
            raise InputError(f"EnvPool does not have {name}: use --vectorization sync or async")
        self._pool = envpool.make(
            pool_id, env_type="gymnasium", num_envs=count, seed=episode_seed(seed, 0, 0) % 2**31
        )
        # The environment that evaluations play says what an observation is: EnvPool's Dicts may hold more.
        env = factory()
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        inner = env.unwrapped.observation_space
        self._parts = list(inner) if isinstance(inner, gym.spaces.Dict) else None
        env.close()
        obs = self._vector(self._pool.reset()[0])
        expected = self.single_observation_space.shape
        if obs.shape[1:] != expected:
            raise InputError(
                f"EnvPool's {pool_id} has observations of shape {obs.shape[1:]}, {name} of shape {expected}: "
                "they are not the same task; use --vectorization sync or async"
            )

    def _vector(self, obs: Any) -> np.ndarray:
        """# [count, obs_dim]"""
        if self._parts is None:
            return obs
        return np.concatenate([obs[part].reshape(len(obs[part]), -1) for part in self._parts], axis=1)

    def reset(self, *, seed: Any = None, options: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a new episode where `reset_mask` says so; the other rows are left empty. Seeds are EnvPool's own."""
        mask = options["reset_mask"]
        fresh, _ = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        fresh = self._vector(fresh)
        obs = np.zeros((len(mask), fresh.shape[1]))
        obs[mask] = fresh
        return obs, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = self._pool.step(action.astype(np.float64))
        return self._vector(obs), reward, terminated, truncated, {}

    def close(self) -> None:
        self._pool.close()
