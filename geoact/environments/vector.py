"""Several environments stepped together, whose episodes are known.

The vector environments run with autoreset disabled: what `step` returns is the true next observation, always,
and ended environments are reset here, each episode with its own seed derived from (run seed, environment
index, episode number). Actions come in units of the box [-1, 1] and are rescaled to the environment's limits.
Non-finite observations and rewards stop the run before they reach replay.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from geoact.config import Vectorization
from geoact.environments.checks import Env, Space, explained, is_box, require_finite, several
from geoact.environments.making import EnvFactory, headless
from geoact.environments.pool import EnvPool
from geoact.environments.workers import Workers
from geoact.errors import FileFormatError, InputError, TrainingFailed

REPLAYABLE = 1 << 16
"""Steps of an open episode that are logged to be played again; of a longer one the log stops, since playing it
again would take minutes, and a resumed run begins a new episode instead."""


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


class Vector(Protocol):
    """What steps several environments: here, in workers, or in EnvPool's threads."""

    @property
    def single_observation_space(self) -> Space: ...

    @property
    def single_action_space(self) -> Space: ...

    def reset(self, seeds: list[int | None], mask: np.ndarray) -> np.ndarray:
        """Begin a new episode where the mask says so; the other rows mean nothing.  # [n, obs_dim]"""
        ...

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Observations, rewards, terminated, truncated."""
        ...

    def step_some(self, actions: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, float, bool]] | None:
        """Step some of them: observation, reward, whether the episode ended; None where episodes cannot be played
        again."""
        ...

    def close(self) -> None: ...


class InProcess:
    """All environments in this process, one after the other."""

    def __init__(self, name: str, factory: EnvFactory, count: int):
        with headless():
            self.envs = several(factory, count, name)
        makers = [functools.partial(_itself, env) for env in self.envs]
        self._vector = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
        made: Any = self._vector  # Gymnasium leaves open what kind of spaces these are
        self.single_observation_space: Space = made.single_observation_space
        self.single_action_space: Space = made.single_action_space

    def reset(self, seeds: list[int | None], mask: np.ndarray) -> np.ndarray:
        return self._vector.reset(seed=seeds, options={"reset_mask": mask})[0]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self._vector.step(action)[:4]

    def step_some(self, actions: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, float, bool]]:
        results: dict[int, tuple[np.ndarray, float, bool]] = {}
        for i, action in actions.items():
            obs, reward, terminated, truncated, _ = self.envs[i].step(action)
            results[i] = np.asarray(obs), float(reward), bool(terminated or truncated)
        return results

    def close(self) -> None:
        self._vector.close()


def _itself(env: Env) -> Env:
    return env


class Environments:
    """`count` environments stepped together, with their episodes' seeds and actions since."""

    def __init__(
        self,
        name: str,
        factory: EnvFactory,
        count: int,
        seed: int,
        vectorization: Vectorization = "sync",
        patience: float = 60.0,
        practice: tuple[int, int] = (0, 0),
    ):
        """`patience`: seconds that worker processes (vectorization "async") may take for one step.

        `practice`: so many of the environments, the last ones, cut every episode off after so many steps. That is a
        truncation like any other, but what they earn is no episode's return.
        """
        self.name = name
        self.count = count
        self.seed = seed
        self._factory = factory
        self._vector = self._make(factory, vectorization, patience)
        space = self._vector.single_action_space
        assert is_box(space)
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
        number, self._practice_steps = practice
        assert number < count or number == 0
        self._practises = np.arange(count) >= count - number
        self.largest_reward = 0.0
        """The largest absolute reward seen: what a value can amount to follows from it."""
        self._actions = np.empty((count, 64, self.action_dim), np.float32)
        """Each environment's actions since its episode began, the first `lengths[i]` of row i."""
        try:
            self._reset(np.ones(count, bool))
        except BaseException:
            self.close()
            raise

    def _make(self, factory: EnvFactory, vectorization: Vectorization, patience: float) -> Vector:
        if vectorization == "sync":
            return InProcess(self.name, factory, self.count)
        if vectorization == "async":
            return Workers(self.name, factory, self.count, patience)
        if vectorization == "envpool":
            return EnvPool(self.name, factory, self.count, episode_seed(self.seed, 0, 0))
        raise InputError(f"unknown vectorization {vectorization!r}: use sync, async or envpool")

    def _begin(self, mask: np.ndarray, episode: np.ndarray) -> np.ndarray:
        """Begin these episodes where the mask says so: their first observations; other rows mean nothing."""
        seeds = [episode_seed(self.seed, i, int(episode[i])) if mask[i] else None for i in range(self.count)]
        with explained(self.name, self._one):
            obs = self._vector.reset(seeds, mask)
        self._require_finite("observation", np.where(mask[:, None], obs, 0.0), "reset")
        return obs

    def _reset(self, mask: np.ndarray) -> None:
        self.obs = np.where(mask[:, None], self._begin(mask, self.episode), self.obs).astype(np.float32)
        self.returns[mask] = 0.0
        self.lengths[mask] = 0

    def step(self, action: np.ndarray) -> Step:
        """Step all environments with actions in [-1, 1].  # [n, action_dim] float32

        After an error (a worker that died, a number that is not finite) the state is the one before the step, from
        which a run can go on.
        """
        if not np.isfinite(action).all():
            raise TrainingFailed(f"the policy gave a non-finite action at vector step {self.steps}")
        obs = self.obs
        with explained(self.name, self._one):
            raw_obs, reward, terminated, truncated = self._vector.step(self._rescale(action))
        next_obs = np.asarray(raw_obs).astype(np.float32)
        reward = np.asarray(reward, np.float64)
        self._require_finite("observation", next_obs, "step")
        self._require_finite("reward", reward, "step")
        truncated = truncated | (self._practises & (self.lengths + 1 >= self._practice_steps))
        ended = terminated | truncated
        after = next_obs
        if ended.any():
            fresh = self._begin(ended, self.episode + ended)
            after = np.where(ended[:, None], fresh, next_obs).astype(np.float32)
        self.steps += 1
        self.largest_reward = max(self.largest_reward, float(np.abs(reward).max()))
        self.returns += reward
        self._remember(action)
        self.lengths += 1
        self.obs = after
        whole = np.flatnonzero(ended & ~self._practises)
        episodes = [(float(self.returns[i]), int(self.lengths[i])) for i in whole]
        self.episode[ended] += 1
        self.returns[ended] = 0.0
        self.lengths[ended] = 0
        return Step(obs, next_obs, reward.astype(np.float32), terminated, truncated, episodes)

    @property
    def made(self) -> Sequence[Env]:
        """The environments themselves, where they are in this process."""
        return self._vector.envs if isinstance(self._vector, InProcess) else ()

    def _one(self) -> Env:
        """An environment to look at, after an error."""
        return self.made[0] if self.made else self._factory()

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
        for t in range(max(len(log) for log in logs)):
            active = [i for i, log in enumerate(logs) if t < len(log) and going[i]]
            actions = {i: self._rescale(logs[i][t]) for i in active}
            results = self._vector.step_some(actions)
            if results is None:
                return obs, returns, going & np.array([len(log) == 0 for log in logs])
            for i, (seen, reward, ended) in results.items():
                obs[i] = seen
                returns[i] += reward
                going[i] = not ended
        return obs, returns, going

    def _rescale(self, action: np.ndarray) -> np.ndarray:
        scaled = self.low + (action.astype(np.float64) + 1.0) * (0.5 * (self.high - self.low))
        return np.clip(scaled, self.low, self.high).astype(self._action_dtype)

    def _require_finite(self, field: str, values: np.ndarray, where: str) -> None:
        if np.isfinite(values).all():
            return
        index = int(np.argwhere(~np.isfinite(values))[0][0])
        where = f"environment {index}, {where}, vector step {self.steps}"
        require_finite(self.name, field, values, where)

    def close(self) -> None:
        self._vector.close()
