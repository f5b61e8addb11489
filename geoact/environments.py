"""From an environment's name to vector environments whose episodes are known.

The vector environments run with autoreset disabled: what `step` returns is the true next observation, always,
and ended environments are reset here, each episode with its own seed derived from (run seed, environment
index, episode number). Actions come in units of the box [-1, 1] and are rescaled to the environment's limits.
Non-finite observations and rewards stop the run before they reach replay.
"""

import contextlib
import functools
import importlib
import multiprocessing
import os
import re
import signal
import sys
import time
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
from geoact.errors import FileFormatError, InputError, TrainingFailed

EnvFactory = Callable[[], gym.Env]

REPLAYABLE = 1 << 16
"""Steps of an open episode that are logged to be played again; of a longer one the log stops, since playing it
again would take minutes, and a resumed run begins a new episode instead."""


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
        self._actions = np.empty((count, 64, self.action_dim), np.float32)
        """Each environment's actions since its episode began, the first `lengths[i]` of row i."""
        self._reset(np.ones(count, bool))

    def _reset(self, mask: np.ndarray) -> None:
        seeds = [
            episode_seed(self.seed, i, int(self.episode[i])) if mask[i] else None for i in range(self.count)
        ]
        obs, _ = self._alive(
            lambda: self._vector.reset(seed=seeds, options={"reset_mask": mask})  # pyright: ignore[reportArgumentType]
        )
        self._require_finite("observation", np.asarray(obs)[mask], "reset")
        self.obs = np.where(mask[:, None], obs, self.obs).astype(np.float32)
        self.returns[mask] = 0.0
        self.lengths[mask] = 0

    def step(self, action: np.ndarray) -> Step:
        """Step all environments with actions in [-1, 1].  # [n, action_dim] float32"""
        if not np.isfinite(action).all():
            raise TrainingFailed(f"the policy gave a non-finite action at vector step {self.steps}")
        obs = self.obs
        raw_obs, reward, terminated, truncated, _ = self._alive(
            lambda: self._vector.step(self._rescale(action))
        )
        next_obs = np.asarray(raw_obs).astype(np.float32)
        reward = np.asarray(reward, np.float64)
        self.steps += 1
        self._require_finite("observation", next_obs, "step")
        self._require_finite("reward", reward, "step")
        self.largest_reward = max(self.largest_reward, float(np.abs(reward).max()))
        self.returns += reward
        self._remember(action)
        self.lengths += 1
        self.obs = next_obs
        ended = terminated | truncated
        episodes: list[tuple[float, int]] = []
        if ended.any():
            episodes = [(float(self.returns[i]), int(self.lengths[i])) for i in np.flatnonzero(ended)]
            self.episode[ended] += 1
            self._reset(ended)
        return Step(obs, next_obs, reward.astype(np.float32), terminated, truncated, episodes)

    def _remember(self, action: np.ndarray) -> None:
        """Log the actions, so that the open episodes can be played again; very long ones are not logged on."""
        room = self._actions.shape[1]
        if room < REPLAYABLE and self.lengths.max() >= room:
            self._actions = np.concatenate([self._actions, np.empty_like(self._actions)], axis=1)
        if self.lengths.max() < self._actions.shape[1]:
            self._actions[np.arange(self.count), self.lengths] = action
        else:
            short = np.flatnonzero(self.lengths < self._actions.shape[1])
            self._actions[short, self.lengths[short]] = action[short]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that a checkpoint needs: arrays, and plain data."""
        arrays = {"obs": self.obs, "returns": self.returns}
        for i, length in enumerate(self.lengths):
            arrays[f"actions.{i}"] = self._actions[i, : length if length <= self._actions.shape[1] else 0]
        return arrays, {
            "episode": self.episode.tolist(),
            "lengths": self.lengths.tolist(),
            "steps": self.steps,
            "largest_reward": self.largest_reward,
        }

    def restore(self, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> list[int]:
        """Go back to a state by playing the open episodes again.

        Returns the environments that did not reproduce (another observation or return than stored); these start
        a new episode.
        """
        self.episode = np.asarray(facts["episode"], np.int64)
        lengths = np.asarray(facts["lengths"], np.int64)
        if not self.episode.shape == lengths.shape == (self.count,):
            raise FileFormatError(f"the checkpoint is of {len(self.episode)} environments, not {self.count}")
        self._reset(np.ones(self.count, bool))
        logs = [arrays[f"actions.{i}"] for i in range(self.count)]
        obs, returns, going = self._play_again(logs)
        known = np.array([len(log) == length for log, length in zip(logs, lengths)])
        same = known & going & (obs == arrays["obs"]).all(axis=1) & (returns == arrays["returns"])
        self.obs = np.where(same[:, None], obs, self.obs)
        self.returns = np.where(same, returns, 0.0)
        self.lengths = np.where(same, lengths, 0)
        self.steps, self.largest_reward = int(facts["steps"]), float(facts["largest_reward"])
        room = max(int(self.lengths.max()), 64)
        self._actions = np.empty((self.count, room, self.action_dim), np.float32)
        for i in np.flatnonzero(same):
            self._actions[i, : lengths[i]] = logs[i]
        lost = np.flatnonzero(~same).tolist()
        if lost:
            self.episode[~same] += 1
            self._reset(~same)
        return lost

    def _play_again(self, logs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play each environment's actions; the observations and returns reached, and which have not ended."""
        obs, returns, going = self.obs.copy(), np.zeros(self.count), np.ones(self.count, bool)
        vector = self._vector
        if not isinstance(vector, (SyncVectorEnv, AsyncVectorEnv)):
            return obs, returns, going & np.array([len(log) == 0 for log in logs])
        for t in range(max(len(log) for log in logs)):
            active = [i for i, log in enumerate(logs) if t < len(log) and going[i]]
            actions = {i: self._rescale(logs[i][t]) for i in active}
            results = self._alive(lambda a=actions, v=vector: _step_some(v, a))
            for i, (seen, reward, ended) in results.items():
                obs[i] = seen
                returns[i] += reward
                going[i] = not ended
        return obs, returns, going

    def _alive(self, call: Callable[[], Any]) -> Any:
        """A call to the vector environment; a worker that died is reported, and the others are ended."""
        try:
            return call()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            assert isinstance(self._vector, AsyncVectorEnv)
            dead = _end_workers(self._vector)
            raise TrainingFailed(
                f"{dead} at vector step {self.steps} ({self.name}): its process was killed or crashed; is there "
                "enough memory? --vectorization sync does without extra processes"
            ) from None

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
        if isinstance(self._vector, AsyncVectorEnv):
            _end_workers(self._vector)
        else:
            self._vector.close()


def _vector(
    name: str, factory: EnvFactory, count: int, seed: int, vectorization: Vectorization
) -> "VectorEnv[Any, Any, Any] | EnvPool":
    if vectorization == "async":
        make = functools.partial(_in_worker, factory)
        try:
            return AsyncVectorEnv([make] * count, autoreset_mode=AutoresetMode.DISABLED, context="spawn")
        except EOFError:
            raise InputError(
                "an environment worker died while it was starting: try --vectorization sync, which shows why"
            ) from None
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


def _in_worker(factory: EnvFactory) -> gym.Env:
    """The environment in its own process, which leaves Ctrl-C to the one that trains."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return factory()


def _step_some(
    vector: SyncVectorEnv | AsyncVectorEnv, actions: dict[int, np.ndarray]
) -> dict[int, tuple[np.ndarray, float, bool]]:
    """Step some of the environments: their observation, reward and whether the episode ended."""
    results: dict[int, tuple[np.ndarray, float, bool]] = {}
    if isinstance(vector, SyncVectorEnv):
        for i, action in actions.items():
            obs, reward, terminated, truncated, _ = vector.envs[i].step(action)
            results[i] = np.asarray(obs), float(reward), bool(terminated or truncated)
        return results
    for i, action in actions.items():
        vector.parent_pipes[i].send(("step", action))
    for i in actions:
        answer, success = vector.parent_pipes[i].recv()
        if not success:
            raise EOFError
        obs = np.asarray(vector.observations)[i].copy()  # the worker wrote it into shared memory
        results[i] = obs, float(answer[1]), bool(answer[2] or answer[3])
    return results


def _end_workers(vector: AsyncVectorEnv, patience: float = 5.0) -> str:
    """End all worker processes, however they are, and say which one was already dead."""
    if vector.closed:
        return "an environment worker"
    vector.processes[0].join(0.2)  # a process that was just killed takes a moment to be seen dead
    dead = [i for i, process in enumerate(vector.processes) if not process.is_alive()]
    for pipe in vector.parent_pipes:
        with contextlib.suppress(OSError, AttributeError):  # dead, or None after an error of its own
            pipe.send(("close", None))
    deadline = time.monotonic() + patience
    for process in vector.processes:
        process.join(max(deadline - time.monotonic(), 0.0))
        if process.is_alive():
            process.kill()
            process.join()
    for pipe in vector.parent_pipes:
        if pipe is not None:
            pipe.close()
    vector.closed = True
    return f"environment worker {dead[0]} died" if dead else "an environment worker died"
