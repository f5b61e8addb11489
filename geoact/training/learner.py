"""What a learner is: environments, a policy and an update that turns steps into a better policy.

A learner owns `step` (one vector step: act, step the environments, learn), `state` and `restore`. There are
two, for the two modes that an algorithm declares: off_policy.py and on_policy.py. What they have in common
is `Core`, which both hold.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from geoact import algorithms
from geoact.algorithms.record import Algorithm
from geoact.config import NORMALIZED_BOUND, RunConfig
from geoact.environments import Environments
from geoact.errors import InputError
from geoact.runtime import Policy, PolicySpec
from geoact.storage import checkpoints
from geoact.storage.checkpoints import Arrays, Ring
from geoact.training.guards import require_finite, require_sane
from geoact.training.update import CompiledUpdate


@dataclass
class Core:
    """What every learner holds: all that changes while it learns, besides what it learns from."""

    config: RunConfig
    envs: Environments
    algorithm: Algorithm
    update: CompiledUpdate
    policy: Policy
    rng: np.random.Generator
    vector_steps: int = 0
    updates: int = 0
    episodes: list[tuple[float, int]] = field(default_factory=list)
    """(return, length) of the episodes that ended since the last log point."""

    @property
    def timesteps(self) -> int:
        """Transitions collected."""
        return self.vector_steps * self.envs.count

    def catch_up(self) -> None:
        """Wait for the last update and take over its parameters."""
        self.policy.tensors = self.policy.tensors | (self.update.tensors() or {})

    def policy_with(self, facts: dict[str, float]) -> Policy:
        """The policy as it is now, with what is known about it."""
        spec = self.policy.spec
        about = spec.about | {"timesteps": self.timesteps} | facts
        return Policy(dataclasses.replace(spec, about=about), self.policy.tensors)

    def require_sane(self) -> None:
        """Stop the run where metrics or the policy say that learning has broken."""
        require_sane(self.algorithm, self.update.metrics(), self.envs.largest_reward, self.updates)
        require_finite(self.policy.tensors, self.updates)

    def change_total(self, timesteps: int) -> None:
        """Learn for another total of transitions; rates that cool down do so at the new end."""
        config = self.config
        settings = config.settings.resolve(config.env, self.envs.action_dim, timesteps, config.num_envs)
        self.config = dataclasses.replace(config, timesteps=timesteps, settings=settings)
        if settings != config.settings:
            state, metrics = self.update.state, self.update.metrics()
            self.algorithm = algorithms.build(
                config.algorithm, settings, self.envs.obs_dim, self.envs.action_dim
            )
            self.update = CompiledUpdate(self.algorithm, state, config.seed)
            self.update.restore(state, metrics)

    def take_over(self, envs: Environments) -> list[int]:
        """Go on in other environments, where open episodes are played again from their seeds.

        Gives those that began a new episode instead, which the learner has to `forget`.
        """
        lost = envs.restore(*self.envs.state())
        self.envs = envs
        return lost

    def arrays(self) -> Arrays:
        """The arrays of a checkpoint."""
        return prefixed("state.", checkpoints.flatten(self.update.state)) | prefixed(
            "environments.", self.envs.state()[0]
        )

    def facts(self) -> dict[str, Any]:
        """The plain data of a checkpoint."""
        return {
            "transitions": self.timesteps,
            "vector_steps": self.vector_steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "metrics": self.update.metrics(),
            "generator": self.rng.bit_generator.state,
            "environments": self.envs.state()[1],
            "action_limits": [self.envs.low.tolist(), self.envs.high.tolist()],
        }

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> list[int]:
        """Back to a checkpoint; gives the environments whose episode could not be played again."""
        limits = [self.envs.low.tolist(), self.envs.high.tolist()]
        if facts.get("action_limits", limits) != limits:
            raise InputError(
                f"the run was begun with the action limits {facts['action_limits']}, this environment has {limits}: "
                "go on with the environment that it was begun with, geoact.resume(path, env=...)"
            )
        state = checkpoints.unflatten(self.update.state, below("state.", arrays))
        self.update.restore(state, dict(facts["metrics"]))
        self.catch_up()
        self.rng.bit_generator.state = facts["generator"]
        self.vector_steps, self.updates = int(facts["vector_steps"]), int(facts["updates"])
        self.episodes = [(float(r), int(n)) for r, n in facts["episodes"]]
        return self.envs.restore(below("environments.", arrays), facts["environments"])


class Learner(Protocol):
    """What the run needs of a learner."""

    core: Core

    @property
    def replay(self) -> Ring | None:
        """Transitions kept to learn from, which checkpoints store apart; on-policy there are none."""
        ...

    def step(self) -> None:
        """One vector step: act, step the environments, learn."""
        ...

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Everything that changes, between two steps, besides the replay: arrays and plain data."""
        ...

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> list[int]:
        """Back to a state (the replay is already there); gives the environments that began a new episode."""
        ...

    def forget(self, envs: list[int]) -> None:
        """What was open in these environments will not be continued: they began a new episode."""
        ...


def make_core(config: RunConfig, envs: Environments) -> Core:
    """A policy and an update at their start, for a resolved configuration."""
    algorithm = algorithms.build(config.algorithm, config.settings, envs.obs_dim, envs.action_dim)
    state = jax.jit(algorithm.init)(jax.random.key(config.seed))
    tensors = {name: np.array(tensor) for name, tensor in algorithm.policy(state).items()}
    return Core(
        config=config,
        envs=envs,
        algorithm=algorithm,
        update=CompiledUpdate(algorithm, state, config.seed),
        policy=Policy(policy_spec(config, envs), tensors),
        rng=np.random.default_rng([config.seed, 1]),
    )


def policy_spec(config: RunConfig, envs: Environments) -> PolicySpec:
    """What the run's policy is."""
    settings = config.settings
    return PolicySpec(
        kind=settings.kind,
        head=settings.head(),
        network=settings.actor,
        obs_dim=envs.obs_dim,
        action_low=tuple(envs.low.tolist()),
        action_high=tuple(envs.high.tolist()),
        algorithm=config.algorithm,
        env=config.env,
        obs_clip=NORMALIZED_BOUND if settings.normalize_obs else None,
        about={"seed": config.seed} | ({"env_given": config.env_given} if config.env_given else {}),
    )


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def below(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
