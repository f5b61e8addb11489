# pyright: reportMissingImports=false
"""Who is measured: one class per library, each with the operations that the cases ask for.

All train SAC (geoact GAC too) with the same sizes on the same environments, made by geoact's own factory. Each
imports its library when it is made: a process has only what its contestant needs.
"""

import dataclasses
import itertools
import math
import tempfile
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from benchmarks.cases import Spec
from benchmarks.flops import update_products
from geoact import environments

Operation = Callable[[int], object]
"""Do it this many times, and do not return before all of it is done."""

Transitions = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""obs, action, reward, terminated, next obs: a row for each environment."""

ROLLOUT, MINIBATCH, EPOCHS = 2048, 64, 10


class OffPolicy(Protocol):
    """What every off-policy contestant can do."""

    def __init__(self, spec: Spec) -> None: ...
    def add(self, rows: Transitions) -> None:
        """Put a transition of each environment into the replay, as the library does."""
        ...

    def vector_steps(self, count: int) -> None:
        """Act, step the environments, store, learn: the library's own loop."""
        ...

    def updates(self, count: int) -> None:
        """Learn from one prepared batch, again and again."""
        ...

    def predict(self, obs: np.ndarray) -> object:
        """The deterministic action."""
        ...


class Geoact:
    """SAC or GAC, as `geoact train` runs them (without evaluations and checkpoints)."""

    def __init__(self, spec: Spec):
        from geoact.config import CriticConfig, NetworkConfig, OffPolicyConfig, RunConfig, defaults
        from geoact.training.off_policy import OffPolicyLearner
        from geoact.training.session import Session

        algorithm = "gac" if spec.contestant == "geoact-gac" else "sac"
        settings = defaults(algorithm)
        assert isinstance(settings, OffPolicyConfig)
        settings = dataclasses.replace(
            settings,
            batch_size=spec.batch,
            actor=NetworkConfig((spec.width,) * 2),
            critic=CriticConfig(hidden_sizes=(spec.width,) * 2),
            updates_per_step=spec.updates,
            buffer_size=spec.buffer,
            learning_starts=0,
        )
        config = RunConfig(
            env=spec.env,
            algorithm=algorithm,
            settings=settings,
            timesteps=spec.envs,
            num_envs=spec.envs,
            evaluations=0,
            log_points=1,
        )
        self.algorithm = algorithm
        self.session = Session(config, environments.factory(spec.env))
        assert isinstance(self.session.learner, OffPolicyLearner)
        self.learner = self.session.learner

    def add(self, rows: Transitions) -> None:
        self.learner.replay.add(*rows)

    def vector_steps(self, count: int) -> None:
        import jax

        session = self.session
        session.change_total(session.timesteps + count * session.config.num_envs)
        session.train()
        jax.block_until_ready(self.learner.core.update.state)

    def updates(self, count: int) -> None:
        import jax

        core = self.learner.core
        batches = self.learner._sample()
        for _ in range(count):
            core.update.dispatch(batches, core.updates)
            core.update.tensors_before()  # waits for the update before, as the training loop does
            core.updates += 1
        jax.block_until_ready(core.update.state)

    def predict(self, obs: np.ndarray) -> object:
        return self.agent.predict(obs)

    @property
    def agent(self) -> Any:
        """A policy of this run as a user has it later: saved, and loaded again."""
        if not hasattr(self, "_agent"):
            import geoact

            with tempfile.TemporaryDirectory() as folder:
                self._agent = geoact.load(self.session.policy.save(folder))
        return self._agent


class Peer:
    """SAC of Stable-Baselines3 or SBX, set up as the baseline comparison does it."""

    def __init__(self, spec: Spec):
        import torch
        from stable_baselines3.common.vec_env import DummyVecEnv

        from benchmarks import peers

        torch.set_num_threads(len(spec.cores))
        settings = peers.sac_settings(ROLLOUT) | {
            "batch_size": spec.batch,
            "buffer_size": spec.buffer,
            "gradient_steps": spec.updates,
            "learning_starts": 0,
            "policy_kwargs": {"net_arch": [spec.width, spec.width]},
        }
        # No Monitor around the environments, which the libraries' own helpers would add: it costs a little.
        envs = DummyVecEnv(makers(spec))
        self.model: Any = peers.sac_model(spec.contestant, envs, settings, seed=0)
        self.spec = spec
        self.infos: list[dict[str, Any]] = [{} for _ in range(spec.envs)]

    def add(self, rows: Transitions) -> None:
        obs, action, reward, terminated, next_obs = rows
        self.model.replay_buffer.add(obs, next_obs, action, reward, terminated, self.infos)

    def vector_steps(self, count: int) -> None:
        """`learn` is a loop of `collect_rollouts` (one vector step, train_freq 1) and `train`.

        Going on is not resetting, and without an interval nothing is logged. SBX reads its losses at every
        update, so that nothing is left running when it returns.
        """
        self.model.learn(count * self.spec.envs, reset_num_timesteps=False, log_interval=None)

    def updates(self, count: int) -> None:
        buffer = self.model.replay_buffer
        batch = buffer.sample(self.spec.batch)
        buffer.sample = lambda *_, **__: (
            batch
        )  # `train` samples: here it finds a batch prepared, as geoact does
        if not hasattr(self.model, "_logger"):
            self.model._setup_learn(0)  # makes the logger that `train` writes to
        for _ in range(count):
            self.model.train(gradient_steps=1, batch_size=self.spec.batch)
        del buffer.sample

    def predict(self, obs: np.ndarray) -> object:
        return self.model.predict(obs, deterministic=True)


class Torch:
    """CleanRL's SAC loop in plain PyTorch (torch_loop.py)."""

    def __init__(self, spec: Spec):
        import torch

        from benchmarks.torch_loop import SACLoop

        torch.set_num_threads(len(spec.cores))
        self.loop = SACLoop(makers(spec), spec.batch, spec.width, spec.updates, spec.buffer)

    def add(self, rows: Transitions) -> None:
        self.loop.add(*rows)

    def vector_steps(self, count: int) -> None:
        for _ in range(count):
            self.loop.vector_step()

    def updates(self, count: int) -> None:
        rows = self.loop.sample()
        for _ in range(count):
            self.loop.update(rows)

    def predict(self, obs: np.ndarray) -> object:
        raise NotImplementedError("CleanRL has no predict")


OFF_POLICY: dict[str, type[OffPolicy]] = {
    "geoact": Geoact,
    "geoact-gac": Geoact,
    "sb3": Peer,
    "sbx": Peer,
    "torch": Torch,
}


def makers(spec: Spec) -> list[Callable[[], gym.Env]]:
    return [environments.factory(spec.env)] * spec.envs


def sizes(spec: Spec) -> tuple[int, int]:
    """Sizes of the observation and the action."""
    env = environments.make(spec.env)
    obs, action = env.observation_space.shape, env.action_space.shape
    env.close()
    assert obs is not None and action is not None
    return obs[0], action[0]


def operation(spec: Spec) -> Operation:
    """What a spec measures, ready to run: built, filled and compiled."""
    if spec.what == "products":
        run = products(spec)
    elif spec.what == "rollout":
        run = rollouts(spec)
    else:
        contestant = OFF_POLICY[spec.contestant](spec)
        fill(contestant, spec)
        if spec.what == "predict":
            obs_dim, _ = sizes(spec)
            shape = (obs_dim,) if spec.observations == 1 else (spec.observations, obs_dim)
            obs = np.random.default_rng(0).standard_normal(shape)  # float64, as the environment gives it
            run = _repeat(lambda: contestant.predict(obs))
        else:
            run = contestant.updates if spec.what == "update" else contestant.vector_steps
    run(2)
    return run


def fill(contestant: OffPolicy, spec: Spec) -> None:
    """Random transitions, added as the loop adds them: one of each environment at a time."""
    obs_dim, action_dim = sizes(spec)
    rng = np.random.default_rng(0)
    shape = (100, spec.envs)
    obs = rng.standard_normal((*shape, obs_dim), np.float32)
    action = rng.uniform(-1, 1, (*shape, action_dim)).astype(np.float32)
    reward, terminated = rng.standard_normal(shape, np.float32), rng.random(shape) < 0.01
    for i in range(math.ceil(spec.filled / spec.envs)):
        t, after = i % 100, (i + 1) % 100
        contestant.add((obs[t], action[t], reward[t], terminated[t], obs[after]))


def rollouts(spec: Spec) -> Operation:
    """PPO: collect 2,048 transitions and learn from them, 10 epochs of minibatches of 64."""
    if spec.contestant == "geoact":
        from geoact.config import PPOConfig, RunConfig
        from geoact.training.session import Session

        settings = PPOConfig(rollout=ROLLOUT, minibatches=ROLLOUT // MINIBATCH, epochs=EPOCHS)
        config = RunConfig(
            env=spec.env,
            algorithm="ppo",
            settings=settings,
            timesteps=ROLLOUT,
            num_envs=spec.envs,
            evaluations=0,
            log_points=1,
        )
        session = Session(config, environments.factory(spec.env))

        def run(count: int) -> None:
            if session.timesteps:
                session.change_total(session.timesteps + count * ROLLOUT)
            session.train()

        return run
    import torch

    torch.set_num_threads(len(spec.cores))
    if spec.contestant == "torch":
        from benchmarks.torch_loop import PPOLoop

        loop = PPOLoop(makers(spec), ROLLOUT, MINIBATCH, EPOCHS)
        return _repeat(loop.rollout)
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from benchmarks import peers

    envs = VecNormalize(DummyVecEnv(makers(spec)), norm_obs=True, norm_reward=True, gamma=0.99)
    # The rate falls over the run: of a long one this is the beginning.
    model: Any = peers.ppo_model(envs, peers.ppo_settings(), timesteps=10**6, seed=0)
    return lambda count: model.learn(count * ROLLOUT, reset_num_timesteps=False, log_interval=None)


def products(spec: Spec) -> Operation:
    """The matrix products of one SAC update and nothing else: the roofline, by three libraries.

    Each shape has several operands that the products cycle over, so that no tile is hot all the time; every
    product of a pass has another pair, because XLA computes the same thing only once.
    """
    rng = np.random.default_rng(0)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for (m, k, n), times in update_products("sac", *sizes(spec), spec.width, spec.batch).items():
        several = math.ceil(math.sqrt(times))
        left = [rng.standard_normal((m, k), np.float32) for _ in range(several)]
        right = [rng.standard_normal((k, n), np.float32) for _ in range(several)]
        pairs += itertools.islice(itertools.product(left, right), times)
    if spec.contestant == "numpy":
        outs = [np.empty((a.shape[0], b.shape[1]), np.float32) for a, b in pairs]

        def run_numpy() -> None:
            for (a, b), out in zip(pairs, outs):
                np.matmul(a, b, out=out)

        return _repeat(run_numpy)
    if spec.contestant == "torch":
        import torch

        torch.set_num_threads(len(spec.cores))
        tensors = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in pairs]
        results = [torch.empty(a.shape[0], b.shape[1]) for a, b in tensors]

        def run_torch() -> None:
            for (a, b), out in zip(tensors, results):
                torch.mm(a, b, out=out)

        return _repeat(run_torch)
    import jax

    operands = jax.device_put(pairs)
    multiply = jax.jit(lambda pairs: [a @ b for a, b in pairs])
    return _repeat(lambda: jax.block_until_ready(multiply(operands)))


def _repeat(once: Callable[[], object]) -> Operation:
    def run(count: int) -> None:
        for _ in range(count):
            once()

    return run
