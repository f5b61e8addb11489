"""The on-policy learner (PPO). One vector step:

    act, step the environments
    add to the rollout, with observations and rewards normalised as they come
    when the rollout is full, learn from it and wait

A rollout that the run's end cuts short is not learned from.
"""

from typing import Any

import numpy as np

from geoact.algorithms.record import Rollout
from geoact.config import OnPolicyConfig
from geoact.storage.checkpoints import Arrays
from geoact.training.learner import Core, below, prefixed
from geoact.training.normalization import Normalizer
from geoact.training.rollout import RolloutBuffer


class OnPolicyLearner:
    """Learns from whole rollouts of its own policy."""

    replay = None

    def __init__(self, core: Core):
        settings, envs = core.config.settings, core.envs
        assert isinstance(settings, OnPolicyConfig)
        self.core, self.settings = core, settings
        self._rollout = RolloutBuffer(
            settings.rollout_steps(envs.count), envs.count, envs.obs_dim, envs.action_dim
        )
        self._normalizer = Normalizer(
            envs.count, envs.obs_dim, settings.gamma, settings.normalize_obs, settings.normalize_reward
        )
        self._normalizer.see(envs.obs)
        self.core.policy.tensors |= self._normalizer.tensors()

    def step(self) -> None:
        """One vector step, and learning where it completes a rollout."""
        core, envs, normalizer = self.core, self.core.envs, self._normalizer
        raw = core.policy.raw(envs.obs, core.policy.noise(core.rng, envs.count))
        obs = normalizer.obs(envs.obs)  # as the policy saw it
        step = envs.step(np.clip(raw, -1.0, 1.0))
        normalizer.see(envs.obs)
        reward = normalizer.reward(step.reward, step.terminated | step.truncated)
        next_obs = normalizer.obs(step.next_obs)
        self._rollout.add(obs, raw, reward, step.terminated, step.truncated, next_obs)
        core.episodes += step.episodes
        core.vector_steps += 1
        tensors = core.policy.tensors
        if self._rollout.full:
            core.update.dispatch(self._data(), core.updates)
            core.updates += self.settings.updates_per_rollout
            tensors = core.update.tensors() or tensors
        core.policy.tensors = tensors | normalizer.tensors()

    def _data(self) -> Rollout:
        """The full rollout, with the share of the run's rollouts that is left."""
        total = max(1, self.core.config.vector_steps // self._rollout.steps)
        done = self.core.vector_steps // self._rollout.steps - 1
        remaining: Any = np.float32(max(0.0, 1.0 - done / total))
        return Rollout(**self._rollout.arrays, remaining=remaining)  # type: ignore[arg-type]

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        filled = {name: array[: self._rollout.filled] for name, array in self._rollout.arrays.items()}
        arrays = prefixed("normalizer.", self._normalizer.arrays()) | prefixed("rollout.", filled)
        return self.core.arrays() | arrays, self.core.facts()

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> list[int]:
        lost = self.core.restore(arrays, facts)
        self._normalizer.restore(below("normalizer.", arrays))
        self._rollout.restore(below("rollout.", arrays))
        self.core.policy.tensors = self.core.policy.tensors | self._normalizer.tensors()
        self.forget(lost)
        return lost

    def forget(self, envs: list[int]) -> None:
        self._normalizer.returns[envs] = 0.0
