"""Running statistics that normalise what is learned from: observations, and rewards by their discounted sum.

    observation          clip((x - mean) / sqrt(var + 1e-8), -10, 10)
    reward, on-policy    clip(r / sqrt(var of the discounted return + 1e-8), -10, 10)
    reward, off-policy   r / max(sqrt(var of the discounted return + 1e-8), largest |discounted return| / 5)

Off-policy the second bound keeps the scaled returns within 5, and a reward, the difference of two of them,
within 10: the early spread of a task that has hardly paid yet would otherwise blow everything up. Kept on
the host in float64 and updated once per vector step from all environments together. They change what a
policy sees, so they belong to a checkpoint (`arrays`, `restore`), and the observation's to the policy's
file.
"""

import numpy as np

from geoact.config import NORMALIZED_BOUND as CLIP

EPSILON = 1e-8
LARGEST_RETURN = 5.0
"""No scaled off-policy return is larger."""


class RunningMoments:
    """Mean and variance of everything seen, merged batch by batch (Chan's formula)."""

    def __init__(self, shape: tuple[int, ...]):
        self.mean = np.zeros(shape)
        self.var = np.ones(shape)
        self.count = 1e-4  # the start counts for almost nothing, and nothing is divided by zero

    def update(self, batch: np.ndarray) -> None:
        """Take in a batch.  # [n, *shape]"""
        batch = batch.astype(np.float64)
        mean, var, count = batch.mean(axis=0), batch.var(axis=0), len(batch)
        delta, total = mean - self.mean, self.count + count
        scatter = self.var * self.count + var * count + delta**2 * (self.count * count / total)
        self.mean = self.mean + delta * (count / total)
        self.var = scatter / total
        self.count = total

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "var": self.var, "count": np.asarray(self.count)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.mean, self.var = arrays["mean"].copy(), arrays["var"].copy()
        self.count = float(arrays["count"])


class Normalizer:
    """Normalises observations and rewards of `count` environments; either can be switched off."""

    def __init__(self, count: int, obs_dim: int, gamma: float, use_obs: bool, use_reward: bool):
        self.use_obs, self.use_reward = use_obs, use_reward
        self.gamma = gamma
        self.observations = RunningMoments((obs_dim,))
        self.discounted = RunningMoments(())
        self.returns = np.zeros(count)
        """Each environment's discounted sum of rewards in its current episode."""
        self.largest = 0.0
        """The largest absolute discounted sum seen."""

    def see(self, obs: np.ndarray) -> None:
        """Take in the observations that the policy acts on next.  # [n, obs_dim]"""
        if self.use_obs:
            self.observations.update(obs)

    def obs(self, obs: np.ndarray) -> np.ndarray:
        """Normalised observations.  # [n, obs_dim] float32"""
        if not self.use_obs:
            return obs
        moments = self.observations
        scaled = (obs - moments.mean) / np.sqrt(moments.var + EPSILON)
        return np.clip(scaled, -CLIP, CLIP).astype(np.float32)

    def normalize_in_place(self, obs: np.ndarray) -> None:
        """Normalise a batch where it lies, as the policy does.  # [..., obs_dim] float32"""
        tensors = self.tensors()
        obs -= tensors["obs_mean"]
        obs /= tensors["obs_std"]
        np.clip(obs, -CLIP, CLIP, out=obs)

    def reward(self, reward: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Take in a vector step's rewards and normalise them.  # [n] float32"""
        if not self.use_reward:
            return reward
        self.see_reward(reward, ended)
        return np.clip(reward / np.sqrt(self.discounted.var + EPSILON), -CLIP, CLIP).astype(np.float32)

    def see_reward(self, reward: np.ndarray, ended: np.ndarray) -> None:
        """Take in a vector step's rewards.  # [n]"""
        self.returns = self.returns * self.gamma + reward
        self.discounted.update(self.returns)
        self.largest = max(self.largest, float(np.abs(self.returns).max()))
        self.returns[ended] = 0.0

    def reward_scale(self) -> float:
        """What off-policy rewards are divided by."""
        return max(float(np.sqrt(self.discounted.var + EPSILON)), self.largest / LARGEST_RETURN)

    def tensors(self) -> dict[str, np.ndarray]:
        """What the policy's file needs to see as the policy does."""
        if not self.use_obs:
            return {}
        moments = self.observations
        return {
            "obs_mean": moments.mean.astype(np.float32),
            "obs_std": np.sqrt(moments.var + EPSILON).astype(np.float32),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, for a checkpoint."""
        parts = {"obs": self.observations, "return": self.discounted}
        named = {
            f"{part}.{name}": value
            for part, moments in parts.items()
            for name, value in moments.arrays().items()
        }
        return named | {"returns": self.returns, "largest": np.asarray(self.largest)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """The state of a checkpoint."""
        for part, moments in (("obs", self.observations), ("return", self.discounted)):
            moments.restore({name: arrays[f"{part}.{name}"] for name in ("mean", "var", "count")})
        self.returns = arrays["returns"].copy()
        self.largest = float(arrays.get("largest", 0.0))  # schema 1 had none, and no use for it
