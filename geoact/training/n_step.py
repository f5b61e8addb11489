"""Transitions over several steps, exactly, for environments that are stepped together.

    R          = r_t + gamma r_(t+1) + ... + gamma^(m-1) r_(t+m-1)
    terminated = 1 - gamma^(m-1) * (1 - whether the last step terminated)      (see transitions.py)
    next_obs   = s_(t+m)

with m = n inside an episode. Where an episode ends, all its open transitions are closed with the steps that
they have: a termination bootstraps nothing, a truncation the value of the true last observation, discounted
by the steps really made. Nothing reaches across episodes.

The bonus that GAC and SAC add to the value of the bootstrap state (entropy, or -kappa) is theirs; for the n
- 1 states between, the soft return would have a bonus too, which is left out here: it would need the policy
at every state between, and it is small beside the rewards once alpha is tuned. At n = 1 nothing is left
out.
"""

from typing import NamedTuple

import numpy as np


class Transitions(NamedTuple):
    """Closed transitions, ready for replay."""

    obs: np.ndarray  # [rows, obs_dim]
    action: np.ndarray  # [rows, action_dim]
    reward: np.ndarray  # [rows]
    terminated: np.ndarray  # [rows]
    next_obs: np.ndarray  # [rows, obs_dim]


class NStep:
    """The open transitions of `count` environments: slot k holds what was done k steps ago."""

    def __init__(self, n: int, gamma: float, count: int, obs_dim: int, action_dim: int):
        self.n = n
        self._powers = np.power(gamma, np.arange(n)).astype(np.float32)[:, None]  # [n, 1]
        self._obs = np.zeros((n, count, obs_dim), np.float32)
        self._action = np.zeros((n, count, action_dim), np.float32)
        self._reward = np.zeros((n, count), np.float32)
        self._open = np.zeros((n, count), bool)

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        next_obs: np.ndarray,
    ) -> Transitions:
        """Take in one vector step and give what it closes.  # [count, ...]"""
        if self.n == 1:
            return Transitions(obs, action, reward, terminated, next_obs)
        for slots, newest in (
            (self._obs, obs),
            (self._action, action),
            (self._reward, np.zeros_like(reward)),
            (self._open, np.True_),
        ):
            slots[1:] = slots[:-1].copy()
            slots[0] = newest
        self._reward += self._powers * reward
        closing = self._open & (terminated | truncated)
        closing[-1] = self._open[-1]
        slot, env = np.nonzero(closing)
        self._open &= ~closing
        return Transitions(
            self._obs[slot, env],
            self._action[slot, env],
            self._reward[slot, env],
            1.0 - self._powers[slot, 0] * (1.0 - terminated[env].astype(np.float32)),
            next_obs[env],
        )

    def forget(self, envs: list[int]) -> None:
        """Drop the open transitions of environments whose episodes were lost."""
        self._open[:, envs] = False

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, for a checkpoint."""
        return {"obs": self._obs, "action": self._action, "reward": self._reward, "open": self._open}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """The state of a checkpoint."""
        for mine, name in ((self._obs, "obs"), (self._action, "action"), (self._reward, "reward")):
            mine[...] = arrays[name]
        self._open[...] = arrays["open"]
