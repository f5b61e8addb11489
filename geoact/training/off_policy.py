"""The off-policy learner (GAC, SAC, TD3). One vector step:

    dispatch the update (asynchronous, behind the one before; batches drawn from replay as it is now)
    wait for the update before it and take over its parameters
    act with them, in NumPy (runtime.py), while the new update runs
    step the environments, add to replay

so that the environments always act with parameters one update old, deterministically, however fast either
side is, and the numerics never wait for Python. Metrics leave the device only when they are logged.

Where observations or rewards are normalised, replay holds them raw: batches are normalised when they are drawn, and
observations when the policy acts, by the statistics of then.
"""

from typing import Any

import numpy as np

from geoact.config import OffPolicyConfig
from geoact.storage.checkpoints import Arrays
from geoact.training.learner import Core, below, prefixed
from geoact.training.n_step import NStep
from geoact.training.normalization import Normalizer
from geoact.training.replay import Replay
from geoact.transitions import row_width


class OffPolicyLearner:
    """Learns from replay, at every vector step after the warm-up."""

    def __init__(self, core: Core):
        settings, envs = core.config.settings, core.envs
        assert isinstance(settings, OffPolicyConfig)
        self.core, self.settings = core, settings
        self.replay = Replay(
            settings.buffer_size, envs.obs_dim, envs.action_dim, recency=settings.replay_recency
        )
        self._n_step = NStep(settings.n_step, settings.gamma, envs.count, envs.obs_dim, envs.action_dim)
        width = row_width(envs.obs_dim, envs.action_dim)
        self._batches = np.empty((2, settings.updates_per_step, settings.batch_size, width), np.float32)
        self._normalizer = Normalizer(
            envs.count, envs.obs_dim, settings.gamma, settings.normalize_obs, settings.normalize_reward
        )
        spread = settings.noise_spread
        self._strengths = (
            np.geomspace(1.0 / spread, spread, envs.count, dtype=np.float32)[:, None]
            if spread != 1.0 and envs.count > 1
            else None
        )
        self._see_obs()

    def step(self) -> None:
        """Random while warming up, then learning."""
        core, envs, settings = self.core, self.core.envs, self.settings
        learning = self._warm()
        if learning:
            core.update.dispatch(self._sample(), core.updates)
            core.policy.tensors = core.policy.tensors | (core.update.tensors_before() or {})
            raw = core.policy.raw(envs.obs, self._noise())
        else:
            raw = core.rng.uniform(-1.0, 1.0, (envs.count, envs.action_dim)).astype(np.float32)
        executed = np.clip(raw, -1.0, 1.0)
        step = envs.step(executed)
        seen = raw if core.algorithm.replay_action == "raw" else executed
        self.replay.add(
            *self._n_step.add(step.obs, seen, step.reward, step.terminated, step.truncated, step.next_obs)
        )
        self._see_obs()
        if settings.normalize_reward:
            self._normalizer.see_reward(step.reward, step.terminated | step.truncated)
        core.episodes += step.episodes
        core.vector_steps += 1
        if learning:
            core.updates += settings.updates_per_step

    def _noise(self) -> np.ndarray:
        """The noise that every environment explores with.  # [environments, noise_dim]"""
        noise = self.core.policy.noise(self.core.rng, self.core.envs.count)
        return noise if self._strengths is None else noise * self._strengths

    def _warm(self) -> bool:
        """Whether there is enough to learn from. Once begun it goes on, also when a run is extended."""
        core, wanted = self.core, self.settings.warm_up(self.core.config.vector_steps)
        return core.updates > 0 or (core.vector_steps >= wanted and len(self.replay) > 0)

    def _sample(self) -> np.ndarray:
        """Batches for the next update.  # [updates, batch, columns]"""
        batches = self._batches[self.core.vector_steps % 2]  # the other one may still be read
        self.replay.sample(self.core.rng, batches)
        columns, settings = self.replay.columns, self.settings
        if settings.normalize_obs:
            self._normalizer.normalize_in_place(batches[..., columns["obs"]])
            self._normalizer.normalize_in_place(batches[..., columns["next_obs"]])
        if settings.normalize_reward:
            batches[..., columns["reward"]] /= self._normalizer.reward_scale()
        return batches

    def _see_obs(self) -> None:
        """Take in the observations that the policy acts on next."""
        if self.settings.normalize_obs:
            self._normalizer.see(self.core.envs.obs)
            self.core.policy.tensors = self.core.policy.tensors | self._normalizer.tensors()

    @property
    def _normalizes(self) -> bool:
        return self.settings.normalize_obs or self.settings.normalize_reward

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays, facts = self.core.arrays(), self.core.facts()
        if self._n_step.n > 1:
            arrays |= prefixed("n_step.", self._n_step.arrays())
        if self._normalizes:
            arrays |= prefixed("normalizer.", self._normalizer.arrays())
        return arrays, facts | {"replay_rows": self.replay.added}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> list[int]:
        lost = self.core.restore(arrays, facts)
        if self._n_step.n > 1:
            self._n_step.restore(below("n_step.", arrays))
        if self._normalizes:
            self._normalizer.restore(below("normalizer.", arrays))
            self.core.policy.tensors = self.core.policy.tensors | self._normalizer.tensors()
        self.forget(lost)
        return lost

    def forget(self, envs: list[int]) -> None:
        self._n_step.forget(envs)
        self._normalizer.returns[envs] = 0.0
