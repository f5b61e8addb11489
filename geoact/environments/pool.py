"""EnvPool's own simulators and threads, behind the part of a vector environment that `Environments` uses.

EnvPool answers the step that ends an episode with the true final observation, and would begin the next
episode at the following step; here ended environments are reset at once instead, so that the two look alike.
It seeds each environment once, when it is made, and draws all episodes from there: none can be played again.
"""

import importlib
import re
from typing import Any

import numpy as np

from geoact.environments.checks import parts
from geoact.environments.making import EnvFactory
from geoact.environments.tasks import dm_control_task
from geoact.errors import InputError


class EnvPool:
    """A vector environment made by EnvPool."""

    def __init__(self, name: str, factory: EnvFactory, count: int, seed: int):
        try:
            envpool: Any = importlib.import_module("envpool")
        except ImportError:
            raise InputError(
                "--vectorization envpool needs EnvPool: pip install 'geoact[envpool]', or use sync or async"
            ) from None
        task = dm_control_task(name)
        pool_id = name
        if task is not None:
            pool_id = "".join(word.capitalize() for word in re.split("[-_]", task)) + "-v1"
        if pool_id not in envpool.list_all_envs():
            raise InputError(f"EnvPool does not have {name}: use --vectorization sync or async")
        self._pool: Any = envpool.make(pool_id, env_type="gymnasium", num_envs=count, seed=seed % 2**31)
        # The environment that evaluations play says what an observation is: EnvPool's Dicts may hold more.
        env = factory()
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        inner = env.unwrapped.observation_space
        self._parts = list(parts(inner) or {}) or None
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

    def reset(self, seeds: list[int | None], mask: np.ndarray) -> np.ndarray:
        """Begin a new episode where the mask says so; the other rows are left empty. Seeds are EnvPool's own."""
        fresh, _ = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        fresh = self._vector(fresh)
        obs = np.zeros((len(mask), fresh.shape[1]))
        obs[mask] = fresh
        return obs

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        obs, reward, terminated, truncated, _ = self._pool.step(action.astype(np.float64))
        return self._vector(obs), reward, terminated, truncated

    def step_some(self, actions: dict[int, np.ndarray]) -> None:
        """Episodes that begin from unknown seeds cannot be played again."""
        return None

    def close(self) -> None:
        self._pool.close()
