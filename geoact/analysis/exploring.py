"""Episodes in which a trained policy explores, for the studies of what policies do."""

from dataclasses import dataclass

import numpy as np

from geoact.runtime import Policy


@dataclass(frozen=True)
class Episode:
    """What a policy saw and earned from a reset to the end."""

    obs: np.ndarray  # [steps, obs_dim], float32
    rewards: np.ndarray  # [steps]
    terminated: bool
    """Whether it ended for good; else its time was over."""

    def returns_to_go(self, gamma: float) -> np.ndarray:
        """The discounted rewards that followed each state.  # [steps]"""
        values = np.zeros(len(self.rewards))
        value = 0.0
        for i in range(len(values) - 1, -1, -1):
            value = float(self.rewards[i]) + gamma * value
            values[i] = value
        return values


def explore(policy: Policy, episodes: int, seed: int) -> list[Episode]:
    """Play with noise, in the environment that the policy was trained on; episode i starts from seed + i."""
    from geoact import environments

    env = environments.factory(policy.spec.env)()
    rng = np.random.default_rng(seed)
    played: list[Episode] = []
    try:
        for episode in range(episodes):
            obs, _ = env.reset(seed=seed + episode)
            seen: list[np.ndarray] = []
            rewards: list[float] = []
            terminated = over = False
            while not over:
                seen.append(np.asarray(obs, np.float32))
                action = policy(seen[-1], rng).astype(env.action_space.dtype)
                obs, reward, terminated, truncated, _ = env.step(action)
                rewards.append(float(reward))
                over = terminated or truncated
            played.append(Episode(np.stack(seen), np.asarray(rewards), bool(terminated)))
    finally:
        env.close()
    return played
