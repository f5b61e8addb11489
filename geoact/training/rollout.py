"""What an on-policy algorithm learns from: the last vector steps of all environments, preallocated.

Filled step by step, learned from when full, then filled anew. `algorithms.ppo.Rollout` is what the update takes.
"""

import numpy as np


class RolloutBuffer:
    """`steps` vector steps of `count` environments."""

    def __init__(self, steps: int, count: int, obs_dim: int, action_dim: int):
        shape = (steps, count)
        self.arrays = {
            "obs": np.zeros((*shape, obs_dim), np.float32),
            "action": np.zeros((*shape, action_dim), np.float32),
            "reward": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, np.float32),
            "truncated": np.zeros(shape, np.float32),
            "next_obs": np.zeros((*shape, obs_dim), np.float32),
        }
        self.steps = steps
        self.filled = 0
        """Vector steps in it."""

    @property
    def full(self) -> bool:
        return self.filled == self.steps

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        next_obs: np.ndarray,
    ) -> None:
        """Add one vector step; a full buffer starts anew.  # [count, ...]"""
        row = 0 if self.full else self.filled
        given = (obs, action, reward, terminated, truncated, next_obs)
        for array, value in zip(self.arrays.values(), given, strict=True):
            array[row] = value
        self.filled = row + 1

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """The vector steps that a checkpoint has.  # [filled, count, ...]"""
        self.filled = len(arrays["obs"])
        for name, array in self.arrays.items():
            array[: self.filled] = arrays[name]
