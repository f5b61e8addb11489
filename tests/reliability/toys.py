"""Cheap environments for the reliability tests, by name: `toys:Toy-v0` with this folder on the path.

The toy has everything that a restored episode must get right: a random start, noise in the dynamics from its own
generator, termination, truncation, and rewards that depend on all of it.
"""

import os
from typing import Any

import gymnasium as gym
import numpy as np


class Toy(gym.Env):
    """A point that is pushed about and must stay near the middle."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Box(-2.0, 2.0, (2,), np.float32)

    def __init__(self, forgetful: bool = False, poison: str | None = None):
        """`forgetful`: its noise ignores the seed. `poison`: where a NaN appears, for example "reward:step"."""
        self._forgetful = forgetful
        self._poison = poison
        self._place = np.zeros(3)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if self._forgetful:
            self.np_random = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        self._place = self.np_random.normal(size=3)
        self._steps = 0
        return self._seen("reset"), {}

    def step(self, action: np.ndarray):
        self._steps += 1
        push = np.append(np.asarray(action, np.float64), action.sum())
        self._place = 0.95 * self._place + 0.1 * push + 0.1 * self.np_random.normal(size=3)
        terminated = bool(np.abs(self._place).max() > 3.5)
        truncated = self._steps >= 60
        reward = -float(np.square(self._place).sum())
        if self._poison == "reward:step" and self._steps == 30:
            reward = float("nan")
        if self._poison == "reward:truncation" and truncated:
            reward = float("inf")
        return self._seen("truncation" if truncated else "step"), reward, terminated, truncated, {}

    def _seen(self, where: str) -> np.ndarray:
        seen = self._place.copy()
        if self._poison == f"obs:{where}" and (where != "step" or self._steps == 30):
            seen[1] = np.nan
        return seen


class Mortal(Toy):
    """A toy whose process dies in the middle of an episode, if it is a worker."""

    def step(self, action: np.ndarray):
        import multiprocessing

        if self._steps == 20 and multiprocessing.parent_process() is not None:
            os._exit(11)
        return super().step(action)


gym.register("Toy-v0", entry_point="toys:Toy")
gym.register("Forgetful-v0", entry_point="toys:Toy", kwargs={"forgetful": True})
gym.register("Mortal-v0", entry_point="toys:Mortal")
for field, where in [
    ("obs", "reset"),
    ("obs", "step"),
    ("obs", "truncation"),
    ("reward", "step"),
    ("reward", "truncation"),
]:
    gym.register(f"Poison-{field}-{where}-v0", entry_point="toys:Toy", kwargs={"poison": f"{field}:{where}"})
