"""Train on an environment of your own, and play the policy.

    python examples/own_environment.py

A Gymnasium environment is all that is needed: continuous actions in a box, a vector to observe, `terminated` where
an episode ends for good and `truncated` where it is only cut off (then the value of what would follow still counts).
To train on it from the command line, register it in a module and name both:

    geoact train examples.own_environment:Docking-v0 --timesteps 40000
"""

import sys
from typing import Any

import gymnasium as gym
import numpy as np

import geoact


class Docking(gym.Env):
    """A boat on a lake: push it to the dock at the origin, arriving slowly. 100 steps, or until it leaves the lake."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)  # position, velocity
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)  # thrust

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)  # seeds self.np_random
        self.position = self.np_random.uniform(-1.0, 1.0, 2)
        self.velocity = np.zeros(2)
        self.steps = 0
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        return np.concatenate([self.position, self.velocity]).astype(np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.velocity = 0.9 * self.velocity + 0.1 * action
        self.position = self.position + 0.1 * self.velocity
        self.steps += 1
        distance = float(np.linalg.norm(self.position))
        lost = distance > 2.0
        reward = -distance - 0.1 * float(np.linalg.norm(self.velocity)) - (50.0 if lost else 0.0)
        return self._observe(), reward, lost, self.steps >= 100, {}


gym.register("Docking-v0", entry_point="examples.own_environment:Docking")


def main(timesteps: int = 40_000) -> float:
    """Train, play one episode, and return what it earned."""
    # Any algorithm takes a function that makes the environment: geoact.SAC, geoact.TD3, geoact.PPO too. A slack
    # dimension lets the action be short, which arriving slowly needs.
    agent = geoact.GAC(Docking, geoact.GACConfig(slack=1, exploration="entropy", learning_starts=250), seed=0)
    agent.learn(timesteps, progress_bar=True)

    env = Docking()
    obs, _ = env.reset(seed=1)
    total, over = 0.0, False
    while not over:
        action, _ = agent.predict(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += reward
        over = terminated or truncated
    print(f"return {total:.1f}, {np.linalg.norm(env.position):.2f} from the dock at the end")
    return total


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)
