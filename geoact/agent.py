"""The facade in the ecosystem's habit: `GAC(env).learn(steps).predict(obs)`, `save`, `load`.

An agent made with an environment can learn; one that was loaded can act.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np

from geoact import environments, runtime
from geoact.config import AlgorithmConfig, GACConfig, PPOConfig, RunConfig, SACConfig, TD3Config
from geoact.errors import InputError
from geoact.runtime import Policy
from geoact.training import Callback, Evaluation, Training, evaluate, start, train


class Agent:
    """A policy that can act, save itself and, given an environment, learn."""

    algorithm: ClassVar[str] = ""
    config_type: ClassVar[type] = GACConfig

    def __init__(
        self,
        env: str | Callable[[], gym.Env] | gym.Env,
        config: AlgorithmConfig | None = None,
        *,
        seed: int = 0,
        num_envs: int = 8,
        runs_dir: Path | str | None = None,
    ):
        """An untrained agent.

        `env` is an environment's id, or a function that makes one (called once per environment), or an
        environment (then only that one is stepped, and evaluations are left out). `runs_dir`: where to keep a
        run directory with metrics and policies; nothing is written without it.
        """
        if config is not None and not isinstance(config, self.config_type):
            raise InputError(
                f"{type(self).__name__} takes a {self.config_type.__name__}, got {type(config).__name__}"
            )
        self._env = env
        self._config = config if config is not None else self.config_type()
        self._seed, self._num_envs = seed, num_envs
        self._runs_dir = Path(runs_dir) if runs_dir is not None else None
        self._training: Training | None = None
        self._rng = np.random.default_rng(seed)
        self.policy: Policy | None = None

    @classmethod
    def _from_policy(cls, policy: Policy) -> Self:
        agent = cls(policy.spec.env)
        agent.policy = policy
        return agent

    def learn(self, timesteps: int, callback: Callback | None = None, progress_bar: bool = False) -> Self:
        """Train for this many transitions (again: for that many more). A callback that returns False stops it."""
        if self._training is None:
            if self.policy is not None:
                raise InputError(
                    "a loaded policy can act but not go on learning: its critics were not saved with it"
                )
            self._training = self._start(timesteps)
        else:
            self._training.extend(timesteps)
        if progress_bar:
            from geoact.progress import Progress

            with Progress(self._training.config) as progress:
                train(self._training, progress.wrap(callback))
        else:
            train(self._training, callback)
        self.policy = self._training.policy
        return self

    def _start(self, timesteps: int) -> Training:
        env, num_envs, evaluations = self._env, self._num_envs, 20
        if isinstance(env, str):
            name, factory = env, environments.factory(env)
        elif isinstance(env, gym.Env):
            # There is one environment and it must not be disturbed in the middle of an episode.
            name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
            single = environments.checked(env, name)
            factory, num_envs, evaluations = (lambda: single), 1, 0
        else:
            name = getattr(env, "__name__", type(env).__name__)
            make = env

            def factory() -> gym.Env:
                return environments.checked(make(), name)

        config = RunConfig(
            env=name,
            algorithm=self.algorithm,
            settings=self._config,
            timesteps=timesteps,
            seed=self._seed,
            num_envs=num_envs,
            evaluations=evaluations,
        )
        return start(config, factory, self._runs_dir)

    def predict(
        self,
        obs: np.ndarray,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or many, within the environment's limits, and `state` as it came."""
        if self.policy is None:
            raise InputError("this agent has not learned yet: call learn first, or geoact.load a trained one")
        return self.policy(obs, None if deterministic else self._rng), state

    def evaluate(self, episodes: int = 10, seed: int = 0, stochastic: bool = False) -> Evaluation:
        """Play episodes on fresh environments of the kind it was made with."""
        if self.policy is None:
            raise InputError("this agent has not learned yet: call learn first, or geoact.load a trained one")
        if isinstance(self._env, gym.Env):
            raise InputError("evaluation needs fresh environments: make the agent with an id or a function")
        factory = environments.factory(self._env) if isinstance(self._env, str) else self._env
        return evaluate(self.policy, factory, episodes, seed, stochastic)

    def save(self, path: Path | str) -> Path:
        """Write the policy (policy.json and policy.safetensors) into a folder."""
        if self.policy is None:
            raise InputError("this agent has not learned yet: there is nothing to save")
        return self.policy.save(path)


class GAC(Agent):
    """Geometric Action Control."""

    algorithm = "gac"
    config_type = GACConfig


class SAC(Agent):
    """Soft Actor-Critic."""

    algorithm = "sac"
    config_type = SACConfig


class TD3(Agent):
    """Twin Delayed DDPG."""

    algorithm = "td3"
    config_type = TD3Config


class PPO(Agent):
    """Proximal Policy Optimization."""

    algorithm = "ppo"
    config_type = PPOConfig


AGENTS: dict[str, type[Agent]] = {"gac": GAC, "gac-scale": GAC, "sac": SAC, "td3": TD3, "ppo": PPO}


def load(path: Path | str) -> Agent:
    """An agent that acts, from a policy folder or a run directory."""
    policy = runtime.load(path)
    return AGENTS.get(policy.spec.algorithm, GAC)._from_policy(policy)
