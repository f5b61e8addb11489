"""The facade in the ecosystem's habit: `GAC(env).learn(steps).predict(obs)`, `save`, `load`, `resume`.

An agent made with an environment can learn; one that was loaded from a policy can act, and one that was loaded from
a run can do both. Nothing stays open between calls of `learn`: no environment, no process, no lock.
"""

import dataclasses
import functools
import html
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import gymnasium as gym
import numpy as np

from geoact import environments, runtime
from geoact.config import REGISTRY, AlgorithmConfig, RunConfig, RunOptions, entry, family, option_values
from geoact.environments import EnvFactory
from geoact.errors import InputError
from geoact.runtime import Policy
from geoact.storage import checkpoints, runs
from geoact.training import resuming
from geoact.training import session as sessions
from geoact.training.callbacks import CallbackLike, Callbacks, Progress
from geoact.training.evaluation import Evaluation, evaluate
from geoact.training.session import Session

EnvSource = str | Callable[[], gym.Env] | gym.Env
"""An environment's id, a function that makes one, or an environment."""


class Agent:
    """A policy that can act, save itself and, given an environment, learn."""

    algorithm: ClassVar[str]
    """Its name in the registry; `geoact.GAC`, `geoact.SAC` ... each have theirs."""

    def __init__(
        self,
        env: EnvSource,
        config: AlgorithmConfig | None = None,
        *,
        options: RunOptions | None = None,
        seed: int | None = None,
        num_envs: int | None = None,
        runs_dir: Path | str | None = None,
        eval_env: EnvSource | None = None,
    ):
        """An untrained agent.

        `env` is an environment's id, or a function that makes one (called once per environment), or an
        environment (then only that one is stepped; without `eval_env`, evaluations are left out). `options` has
        everything else that a run can be told, `seed` and `num_envs` are short for two of them. `runs_dir`: where to
        keep a run directory with metrics, checkpoints and policies; nothing is written without it. `eval_env`: where
        evaluations are played, if not in environments like those of training.
        """
        options = options or RunOptions()
        if isinstance(env, gym.Env):
            # There is one environment and it must not be disturbed in the middle of an episode.
            options = dataclasses.replace(options, num_envs=1, vectorization="sync")
        if seed is not None:
            options = dataclasses.replace(options, seed=seed)
        if num_envs is not None and not isinstance(env, gym.Env):
            options = dataclasses.replace(options, num_envs=num_envs)
        source = _source(env)
        self._factory: EnvFactory | None = source.make
        self._eval_factory = source.make_fresh if eval_env is None else _source(eval_env).make
        """What makes an environment for evaluations; None where there is no fresh one to be had."""
        if self._eval_factory is None:
            options = dataclasses.replace(options, evaluations=0)
        self._config = RunConfig(
            env=source.name,
            env_given=source.given,
            algorithm=self.algorithm,
            settings=config if config is not None else entry(self.algorithm).config,
            **option_values(options),
        )
        self._runs_dir = Path(runs_dir) if runs_dir is not None else None
        self._session: Session | None = None
        self._run: Path | None = None
        self._accept_loss = False
        self._rng = np.random.default_rng(options.seed)
        self._policy: Policy | None = None
        self._space: gym.Space[Any] | None = None
        self._trusted = True
        """Whether the environment's name may import a module: not where it was read from a file of anyone's."""
        self._given: tuple[str, str] | None = None
        """Name and description of the environment that a run is to go on with, where it is not the run's own."""
        self.completed = False
        """Whether the last `learn` collected all that it was asked for; False where a callback stopped it."""

    @classmethod
    def of_policy(
        cls, policy: Policy, env: EnvSource | None = None, eval_env: EnvSource | None = None
    ) -> Self:
        """An agent that acts."""
        agent = cls(env if env is not None else policy.spec.env, eval_env=eval_env)
        agent._policy = policy
        # A file may come from anyone: a name that would import a module is refused when it is used.
        agent._trusted = env is not None or eval_env is not None
        if policy.spec.about.get("env_given") and env is None and eval_env is None:
            agent._eval_factory = None  # its name does not make it
        return agent

    @classmethod
    def of_run(
        cls,
        run: runs.Run,
        policy: Policy | None,
        env: EnvSource | None = None,
        eval_env: EnvSource | None = None,
        accept_loss: bool = False,
        trust: bool = True,
    ) -> Self:
        """An agent that acts as far as the run has got, and goes on with it where it has checkpoints."""
        config = run.config()
        agent = cls(env if env is not None else config.env, config.settings, eval_env=eval_env)
        if env is not None:
            agent._given = agent._config.env, agent._config.env_given
        agent._config, agent._policy, agent._accept_loss = config, policy, accept_loss
        agent._trusted = trust or env is not None or eval_env is not None
        if config.env_given and env is None:
            agent._factory = None  # its name does not make it
            if eval_env is None:
                agent._eval_factory = None
        if checkpoints.checkpoint_folders(run.path) or policy is None:
            agent._run = run.path
        return agent

    @property
    def policy(self) -> Policy:
        """What acts."""
        if self._policy is None:
            raise InputError("this agent has not learned yet: call learn first, or geoact.load a trained one")
        return self._policy

    @property
    def run_path(self) -> Path | None:
        """The run's directory, where there is one."""
        return self._run

    def learn(
        self,
        timesteps: int | None = None,
        callback: CallbackLike | None = None,
        progress_bar: bool = False,
        *,
        total_timesteps: int | None = None,
    ) -> Self:
        """Train for this many transitions (again: for that many more).

        Without a number: for as many as the options say, or, after `resume`, for what the run has left.
        `callback`: a `geoact.Callback`, a function of each log point's metrics that stops the run by returning False,
        or several of them. `total_timesteps` is another name of `timesteps`. Ctrl-C, SIGTERM and a closed terminal save
        what there is and raise KeyboardInterrupt.
        """
        if timesteps is not None and total_timesteps is not None and timesteps != total_timesteps:
            raise InputError(
                f"timesteps and total_timesteps are two names of one number, got {timesteps:,} and {total_timesteps:,}"
            )
        timesteps = timesteps if timesteps is not None else total_timesteps
        self.completed = False
        callbacks = Callbacks(callback).all  # refused before anything is opened
        session = self._ready(timesteps)
        try:
            self.completed = session.train([Progress(), *callbacks] if progress_bar else callbacks)
        finally:
            self._policy = session.policy
            session.close()
        if session.stopped_by is not None:
            kept = "everything is saved" if session.run is not None else "what was learned is in the agent"
            raise KeyboardInterrupt(f"stopped at {session.timesteps:,} transitions, {kept}")
        return self

    def _ready(self, timesteps: int | None) -> Session:
        """A session with its environments open, that wants this many transitions more."""
        if self._session is None and self._run is not None:
            session = self._session = resuming.resume(
                self._run,
                factory=self._factory,
                eval_factory=self._eval_factory,
                accept_loss=self._accept_loss,
                env=self._given,
            )
        elif self._session is None:
            if self._policy is not None:
                raise InputError(
                    "a loaded or copied policy can act but not go on learning: its critics were not saved with it; "
                    "geoact.load or geoact.resume its run instead (runs_dir= keeps one)"
                )
            config = self._config
            if timesteps is not None:
                config = dataclasses.replace(config, timesteps=timesteps)
            assert self._factory is not None
            self._session = sessions.start(config, self._factory, self._runs_dir, self._eval_factory)
            self._run = None if self._session.run is None else self._session.run.path
            return self._session
        else:
            session = self._session
            session.reopen()
        if timesteps is not None:
            session.change_total(session.timesteps + timesteps)
        return session

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or many, within the environment's limits, and `state` as it came."""
        if isinstance(obs, Mapping):
            obs = environments.flatten_observation(self._obs_space(), obs)
        return self.policy(obs, None if deterministic else self._rng), state

    def _obs_space(self) -> gym.Space[Any]:
        """The environment's own space of observations, before they were flattened."""
        if self._space is None:
            env = self._fresh()()
            inner = env.env if isinstance(env, gym.wrappers.FlattenObservation) else env
            self._space = inner.observation_space
            env.close()
        return self._space

    def evaluate(self, episodes: int = 10, seed: int = 0, stochastic: bool = False) -> Evaluation:
        """Play episodes on a fresh environment, of the kind that evaluations in training are played on."""
        max_steps = self._config.eval_steps
        return evaluate(self.policy, self._fresh(), episodes, seed, stochastic, max_steps)

    def _fresh(self) -> EnvFactory:
        if self._eval_factory is None:
            raise InputError(
                "this needs a fresh environment: make the agent with an id or a function, or with eval_env="
            )
        return self._eval_factory if self._trusted else environments.factory(self._config.env, trust=False)

    def save(self, path: Path | str) -> Path:
        """Write the policy (policy.json and policy.safetensors) into a folder."""
        return self.policy.save(path)

    def close(self) -> None:
        """Forget what was learned from; the policy stays."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle and copy: what acts, and where its run is; what it learns from stays with the original.

        The copy of an agent with a run directory can go on with the run, as one that `geoact.load` gives.
        """
        if isinstance(self._factory, _Lend) or isinstance(self._eval_factory, _Lend):
            raise InputError(
                "an agent that was made with an environment object cannot be copied or pickled: make it with an id or "
                "a function, or save() its policy and geoact.load that"
            )
        state = self.__dict__ | {"_session": None, "_space": None}
        # The classes of variants (gac-scale) have no name of their own to be found by.
        if type(self) is _agent_class(self.algorithm):
            return _blank, (self.algorithm,), state
        return object.__new__, (type(self),), state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._config.env}: {self._facts()['state']}>"

    def _repr_html_(self) -> str:
        """For notebooks: what it is and how far it has got."""
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table>{cells}</table>"

    def _facts(self) -> dict[str, str]:
        config, session = self._config, self._session
        facts = {"algorithm": entry(config.algorithm).title, "environment": config.env}
        if session is not None:
            facts["state"] = f"learned from {session.timesteps:,} transitions"
        else:
            facts["state"] = "has not learned yet" if self._policy is None else "can act"
        if session is not None and math.isfinite(session.tally.best):
            facts["best evaluation"] = f"{session.tally.best:,.1f}"
        if self._run is not None:
            facts["run"] = str(self._run)
        return facts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclasses.dataclass(frozen=True)
class _Source:
    """An environment's name, a function that makes it fit to be learned in, and what it is if the name is no id."""

    name: str
    make: EnvFactory
    make_fresh: EnvFactory | None
    given: str = ""


def _source(env: EnvSource) -> _Source:
    if isinstance(env, str):
        make = environments.factory(env)
        return _Source(env, make, make)
    if isinstance(env, gym.Env):
        what = environments.describe(env)
        name = what.id or type(env.unwrapped).__name__
        borrowed = _Borrowed(environments.checked(env, name))
        if what.rebuildable:
            return _Source(name, _Lend(borrowed), environments.factory(name))
        return _Source(name, _Lend(borrowed), None, str(what))
    name = getattr(env, "__name__", type(env).__name__)
    make = functools.partial(_make_checked, env, name)
    return _Source(name, make, make, f"what the function {name} makes")


def _blank(algorithm: str) -> Agent:
    agent = _agent_class(algorithm)
    return agent.__new__(agent)


def _make_checked(make: Callable[[], gym.Env], name: str) -> gym.Env:
    return environments.checked(make(), name)


class _Borrowed(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that belongs to the caller, who also closes it."""

    def close(self) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class _Lend:
    """Makes no environment but gives the one that there is."""

    env: _Borrowed

    def __call__(self) -> gym.Env:
        return self.env


def agent_class(name: str) -> type[Agent]:
    """The class of an algorithm's agents: `geoact.GAC` is that of gac."""
    return _agent_class(_first_of(name))


def _first_of(name: str) -> str:
    """The algorithm that a class of agents is named after: the first of those that share its name."""
    for algorithm, found in REGISTRY.items():
        if found.agent == name:
            return algorithm
    raise AttributeError(f"no algorithm has an agent called {name}")


@functools.cache
def _agent_class(algorithm: str) -> type[Agent]:
    found = entry(algorithm)
    namespace = {"algorithm": algorithm, "__doc__": f"{found.title}.", "__module__": "geoact"}
    # A variant of an algorithm is an agent of that algorithm too: gac-scale's and gac-fast's are geoact.GACs.
    first = family(algorithm)[0]
    base = Agent if first == algorithm else _agent_class(first)
    return cast(type[Agent], type(found.agent, (base,), namespace))


def load(path: Path | str, env: EnvSource | None = None, eval_env: EnvSource | None = None) -> Agent:
    """An agent from a policy folder, which acts, or from a run directory, which can also go on learning.

    `env`: the environment, where the name that the files have for it is not an id. `eval_env`: where evaluations
    are played, if not in environments like those of training.
    """
    policy = runtime.load(path)
    if (Path(path) / "run.json").is_file():
        run = runs.open_run(path)
        return _agent_class(run.config().algorithm).of_run(run, policy, env, eval_env, trust=False)
    return _agent_class(policy.spec.algorithm).of_policy(policy, env, eval_env)


def resume(
    path: Path | str,
    env: EnvSource | None = None,
    eval_env: EnvSource | None = None,
    *,
    accept_loss: bool = False,
) -> Agent:
    """An agent that goes on with a run, exactly where its newest checkpoint is: `geoact.resume(path).learn()`.

    `env` and `eval_env` as for `load`. `accept_loss`: go on, not exactly, where rows of the replay are damaged in
    every checkpoint.
    """
    run = runs.open_run(path)
    with_policy = (run.policy_path / "policy.json").is_file()
    policy = runtime.load(run.path) if with_policy else None
    return _agent_class(run.config().algorithm).of_run(run, policy, env, eval_env, accept_loss)
