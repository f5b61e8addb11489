"""Training and evaluation: the loops that turn an algorithm and environments into a policy.

The off-policy loop, one vector step:

    dispatch the update (asynchronous, behind the one before; batches drawn from replay as it is now)
    wait for the update before it and take over its parameters
    act with them, in NumPy (runtime.py), while the new update runs
    step the environments, add to replay

so that the environments always act with parameters one update old, deterministically, however fast either
side is, and the numerics never wait for Python. Metrics leave the device only when they are logged.

The on-policy loop, one vector step: act, step the environments, add to the rollout, with observations and
rewards normalised as they come; when the rollout is full, learn from it and wait. A rollout that the run's
end cuts short is not learned from.
"""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geoact import algorithms, backend, checkpoints, environments, runs
from geoact.algorithms.record import Algorithm, State
from geoact.checkpoints import Checkpointer, Snapshot
from geoact.config import GACConfig, OffPolicyConfig, PPOConfig, RunConfig
from geoact.environments import EnvFactory, Environments
from geoact.errors import FileFormatError, InputError, TrainingFailed
from geoact.normalization import Normalizer
from geoact.replay import Replay, row_width
from geoact.rollout import RolloutBuffer
from geoact.runs import Lock, Recorder, Run, RunState, because
from geoact.runtime import Policy, PolicySpec, Tensors

Row = dict[str, float]
Callback = Callable[[Row], bool | None]
"""Sees each log point; returning False stops the training."""


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of evaluation episodes."""

    returns: np.ndarray
    lengths: np.ndarray

    def row(self) -> Row:
        return {
            "eval/return_mean": float(self.returns.mean()),
            "eval/return_std": float(self.returns.std()),
            "eval/length_mean": float(self.lengths.mean()),
        }


def evaluate(
    policy: Policy, factory: EnvFactory, episodes: int, seed: int = 0, stochastic: bool = False
) -> Evaluation:
    """Play episodes on fresh environments, the i-th from seed `seed + i`."""
    envs = [factory() for _ in range(episodes)]
    try:
        return play(policy, envs, seed, stochastic)
    finally:
        for env in envs:
            env.close()


def play(policy: Policy, envs: list[gym.Env], seed: int = 0, stochastic: bool = False) -> Evaluation:
    """One episode in each environment, all at once, so that the policy acts on batches."""
    rng = np.random.default_rng(seed) if stochastic else None
    obs = [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]
    if np.shape(obs[0]) != (policy.spec.obs_dim,):
        raise InputError(
            f"the policy was trained on observations of {policy.spec.obs_dim} numbers, "
            f"the environment gives {np.shape(obs[0])}"
        )
    returns, lengths = np.zeros(len(envs)), np.zeros(len(envs), np.int64)
    active = list(range(len(envs)))
    while active:
        actions = policy(np.asarray([obs[i] for i in active], np.float32), rng)
        going = []
        for i, action in zip(active, actions):
            dtype = envs[i].action_space.dtype
            obs[i], reward, terminated, truncated, _ = envs[i].step(action.astype(dtype))
            returns[i] += float(reward)
            lengths[i] += 1
            if not (terminated or truncated):
                going.append(i)
        active = going
    return Evaluation(returns, lengths)


class CompiledUpdate:
    """An algorithm's update, jitted, with the state that it changes.

    The state is kept as a plain list of arrays, which JAX takes and gives back (donated) without walking
    through modules at every step. The policy's tensors come back as one fresh array, of which NumPy views act
    while the next update already runs; the metrics as another, read only when logged. Noise comes from JAX's
    `rbg` generator, which costs less than the default inside a compiled program.
    """

    def __init__(self, algorithm: Algorithm, state: State, seed: int):
        self._leaves, self._structure = jax.tree.flatten(state)
        self._names: list[str] = []

        def step(
            leaves: list[jax.Array], data: Any, count: jax.Array
        ) -> tuple[list[jax.Array], jax.Array, jax.Array]:
            key = jax.random.fold_in(jax.random.key(seed, impl="rbg"), count)
            state, metrics = algorithm.update(jax.tree.unflatten(self._structure, leaves), data, key)
            self._names = sorted(metrics)  # learned while tracing, once
            return (
                jax.tree.leaves(state),
                _ravel(algorithm.policy(state)),
                jnp.stack([metrics[name] for name in self._names]),
            )

        self._step = jax.jit(step, donate_argnums=0)
        self._layout = {name: tensor.shape for name, tensor in algorithm.policy(state).items()}
        self._policy = algorithm.policy
        self._vector: jax.Array | None = None
        self._vector_before: jax.Array | None = None
        self._metrics: jax.Array | None = None
        self._restored: Row = {}

    @property
    def state(self) -> State:
        """All that learns, as the algorithm knows it."""
        return jax.tree.unflatten(self._structure, self._leaves)

    @state.setter
    def state(self, state: State) -> None:
        self._leaves = jax.tree.leaves(state)

    def dispatch(self, data: Any, count: int) -> None:
        """Start update number `count` as soon as the one before is done, and return at once.

        `data` is read until then: it must not change before the next update has been dispatched and
        `tensors_before` has returned.
        """
        self._vector_before = self._vector
        self._leaves, self._vector, self._metrics = self._step(self._leaves, data, np.uint32(count))

    def restore(self, state: State, metrics: Row) -> None:
        """As if the last update had given this."""
        self.state = state
        self._vector, self._metrics, self._restored = _ravel(self._policy(state)), None, metrics

    def tensors_before(self) -> Tensors | None:
        """Wait for the update before the last and view its policy, if there was one."""
        return None if self._vector_before is None else self._view(self._vector_before)

    def tensors(self) -> Tensors | None:
        """Wait for the last update and view its policy, if there was one."""
        return None if self._vector is None else self._view(self._vector)

    def _view(self, vector: jax.Array) -> Tensors:
        flat = np.asarray(vector)
        tensors, start = {}, 0
        for name, shape in self._layout.items():
            size = math.prod(shape)
            tensors[name] = flat[start : start + size].reshape(shape)
            start += size
        return tensors

    def metrics(self) -> Row:
        """The metrics of the last update, if there was one."""
        if self._metrics is None:
            return self._restored
        return dict(zip(self._names, np.asarray(self._metrics).tolist()))


def _ravel(tensors: dict[str, jax.Array]) -> jax.Array:
    return jnp.concatenate([tensor.ravel() for tensor in tensors.values()])


def policy_spec(config: RunConfig, envs: Environments) -> PolicySpec:
    """What the run's policy is."""
    return PolicySpec(
        kind=config.settings.kind,
        head=config.settings.head(),
        obs_dim=envs.obs_dim,
        action_low=tuple(envs.low.tolist()),
        action_high=tuple(envs.high.tolist()),
        algorithm=config.algorithm,
        env=config.env,
        about={"seed": config.seed},
    )


class Training:
    """One run in progress: all that changes while it trains."""

    def __init__(self, config: RunConfig, factory: EnvFactory, run: Run | None = None):
        backend.use_compilation_cache()
        self.factory = factory
        self.run = run
        self.envs = Environments(config.env, factory, config.num_envs, config.seed, config.vectorization)
        settings = config.settings.resolve(
            config.env, self.envs.action_dim, config.timesteps, config.num_envs
        )
        self.config = config = RunConfig(**{**vars(config), "settings": settings})
        self.algorithm = algorithms.build(settings, self.envs.obs_dim, self.envs.action_dim)
        self.rng = np.random.default_rng([config.seed, 1])
        state = jax.jit(self.algorithm.init)(jax.random.key(config.seed))
        tensors = {name: np.array(tensor) for name, tensor in self.algorithm.policy(state).items()}
        if isinstance(settings, PPOConfig):
            self._prepare_on_policy(settings)
        else:
            self._prepare_off_policy(settings)
        tensors |= self.normalizer.tensors() if self.normalizer is not None else {}
        self.policy = Policy(policy_spec(config, self.envs), tensors)
        self.update = CompiledUpdate(self.algorithm, state, config.seed)
        self.vector_steps = 0
        self.updates = 0
        self.best = -math.inf
        self.elapsed = 0.0
        self.episodes: list[tuple[float, int]] = []
        """Episodes that ended since the last log point."""
        self._mark = (0.0, 0)
        self._eval_envs: list[gym.Env] = []
        self.lock: Lock | None = None
        self.checkpointer: Checkpointer | None = None
        self.checkpoint_seconds = 0.0
        """Time spent on checkpoints."""
        self.not_exact: str | None = None
        """Why this run is no longer what it would have been without an interruption."""
        self._last_checkpoint = (time.monotonic(), 0)
        self._metrics_size: Callable[[], int] = lambda: 0

    replay: Replay
    """Off-policy: what is learned from."""
    rollout: RolloutBuffer
    """On-policy: what is learned from."""
    normalizer: Normalizer | None = None
    """On-policy: statistics of observations and rewards."""

    @property
    def ring(self) -> Replay | None:
        """The replay, where there is one."""
        return None if isinstance(self.config.settings, PPOConfig) else self.replay

    def _prepare_off_policy(self, settings: OffPolicyConfig) -> None:
        """Replay and the batches drawn from it."""
        envs = self.envs
        self.replay = Replay(settings.buffer_size, envs.obs_dim, envs.action_dim)
        width = row_width(envs.obs_dim, envs.action_dim)
        self._batches = np.empty((2, settings.updates_per_step, settings.batch_size, width), np.float32)

    def _prepare_on_policy(self, settings: PPOConfig) -> None:
        """The rollout and what normalises it."""
        envs = self.envs
        self.rollout = RolloutBuffer(
            settings.rollout_steps(envs.count), envs.count, envs.obs_dim, envs.action_dim
        )
        self.normalizer = Normalizer(
            envs.count, envs.obs_dim, settings.gamma, settings.normalize_obs, settings.normalize_reward
        )
        self.normalizer.see(envs.obs)

    def _rollout_data(self, learning_rate: float) -> Any:
        from geoact.algorithms.ppo import Rollout

        return Rollout(**self.rollout.arrays, learning_rate=np.float32(learning_rate))  # type: ignore[arg-type]

    @property
    def timesteps(self) -> int:
        """Transitions collected."""
        return self.vector_steps * self.config.num_envs

    def extend(self, timesteps: int) -> None:
        """Ask for this many transitions more."""
        self.config = RunConfig(**{**vars(self.config), "timesteps": self.timesteps + timesteps})

    def step_off_policy(self) -> None:
        """One vector step: random while warming up, then learning."""
        config, settings = self.config, self.config.settings
        assert not isinstance(settings, PPOConfig)
        # Once begun it goes on, also when a run is extended and a fifth of it becomes more.
        learning = self.updates > 0 or self.vector_steps >= max(
            1, min(settings.learning_starts, config.vector_steps // 5)
        )
        if learning:
            batches = self._batches[self.vector_steps % 2]  # the other one may still be read
            self.update.dispatch(self.replay.sample(self.rng, batches), self.updates)
            self.policy.tensors = self.update.tensors_before() or self.policy.tensors
            raw = self.policy.raw(self.envs.obs, self.policy.noise(self.rng, config.num_envs))
        else:
            raw = self.rng.uniform(-1.0, 1.0, (config.num_envs, self.envs.action_dim)).astype(np.float32)
        executed = np.clip(raw, -1.0, 1.0)
        step = self.envs.step(executed)
        seen = raw if isinstance(settings, GACConfig) and settings.critic_action == "raw" else executed
        self.replay.add(step.obs, seen, step.reward, step.terminated, step.next_obs)
        self.episodes += step.episodes
        self.vector_steps += 1
        if learning:
            self.updates += settings.updates_per_step

    def step_on_policy(self) -> None:
        """One vector step, and learning where it completes a rollout."""
        config, settings, normalizer = self.config, self.config.settings, self.normalizer
        assert isinstance(settings, PPOConfig) and normalizer is not None
        raw = self.policy.raw(self.envs.obs, self.policy.noise(self.rng, config.num_envs))
        obs = normalizer.obs(self.envs.obs)  # as the policy saw it
        step = self.envs.step(np.clip(raw, -1.0, 1.0))
        normalizer.see(self.envs.obs)
        reward = normalizer.reward(step.reward, step.terminated | step.truncated)
        self.rollout.add(obs, raw, reward, step.terminated, step.truncated, normalizer.obs(step.next_obs))
        self.episodes += step.episodes
        self.vector_steps += 1
        tensors = self.policy.tensors
        if self.rollout.full:
            # The rate falls from its full value at the first rollout to 1/n of it at the last of n.
            rollouts = max(1, config.vector_steps // self.rollout.steps)
            done = self.vector_steps // self.rollout.steps - 1
            data = self._rollout_data(settings.learning_rate * (1.0 - done / rollouts))
            self.update.dispatch(data, self.updates)
            self.updates += settings.epochs * settings.minibatches
            tensors = self.update.tensors() or tensors
        self.policy.tensors = tensors | normalizer.tensors()

    def catch_up(self) -> None:
        """Wait for the last update and take over its parameters."""
        self.policy.tensors = self.policy.tensors | (self.update.tensors() or {})

    def loop(self, stop: Callable[[], bool], emit: Callable[[Row], bool]) -> bool:
        """Collect and learn until the run is complete (True) or asked to stop (False)."""
        config, total = self.config, self.config.vector_steps
        step = self.step_on_policy if isinstance(config.settings, PPOConfig) else self.step_off_policy
        started = time.perf_counter() - self.elapsed
        while self.vector_steps < total:
            step()
            asked = stop()
            evaluating = due(self.vector_steps, config.evaluations, total)
            logging = evaluating or due(self.vector_steps, config.log_points, total)
            if asked or logging:
                self.catch_up()
            self.elapsed = time.perf_counter() - started
            if logging:
                row = self._row()
                if evaluating:
                    row |= self._evaluate()
                    started = time.perf_counter() - self.elapsed
                if not emit(row):
                    return False
            if asked:
                return False
            self.checkpoint_if_due()
        return True

    def capture(self) -> Snapshot:
        """Everything that changes while the run trains, between two vector steps; the replay is apart."""
        env_arrays, env_facts = self.envs.state()
        arrays = {f"state.{name}": array for name, array in checkpoints.flatten(self.update.state).items()}
        arrays |= {f"environments.{name}": array for name, array in env_arrays.items()}
        if self.normalizer is not None:
            arrays |= {f"normalizer.{name}": array for name, array in self.normalizer.arrays().items()}
            arrays |= {f"rollout.{name}": a[: self.rollout.filled] for name, a in self.rollout.arrays.items()}
        facts = {
            "transitions": self.timesteps,
            "vector_steps": self.vector_steps,
            "updates": self.updates,
            "best": self.best if math.isfinite(self.best) else None,
            "elapsed": self.elapsed,
            "checkpoint_seconds": self.checkpoint_seconds,
            "episodes": self.episodes,
            "mark": self._mark,
            "metrics": self.update.metrics(),
            "generator": self.rng.bit_generator.state,
            "environments": env_facts,
            "not_exact": self.not_exact,
        }
        return Snapshot(arrays, facts)

    def restore(self, snapshot: Snapshot) -> None:
        """Back to what was captured (the replay is already there)."""
        arrays, facts = snapshot.arrays, snapshot.facts
        try:
            state = checkpoints.unflatten(self.update.state, _below("state.", arrays))
            self.update.restore(state, dict(facts["metrics"]))
            self.catch_up()
            if self.normalizer is not None:
                self.normalizer.restore(_below("normalizer.", arrays))
                self.rollout.restore(_below("rollout.", arrays))
                self.policy.tensors = self.policy.tensors | self.normalizer.tensors()
            self.rng.bit_generator.state = facts["generator"]
            self.vector_steps, self.updates = int(facts["vector_steps"]), int(facts["updates"])
            self.best = -math.inf if facts["best"] is None else float(facts["best"])
            self.elapsed = float(facts["elapsed"])
            self.checkpoint_seconds = float(facts["checkpoint_seconds"])
            self.episodes = [(float(r), int(n)) for r, n in facts["episodes"]]
            self._mark = float(facts["mark"][0]), int(facts["mark"][1])
            self.not_exact = facts["not_exact"]
            lost = self.envs.restore(_below("environments.", arrays), facts["environments"])
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileFormatError(
                f"the checkpoint does not fit this run: {type(error).__name__} {error}"
            ) from None
        if lost:
            if self.normalizer is not None:
                self.normalizer.returns[lost] = 0.0
            self.not_exact = (
                f"{len(lost)} of {self.envs.count} environments did not reproduce their episode and began "
                "a new one"
            )
        self._last_checkpoint = (time.monotonic(), self.timesteps)

    def checkpoint_if_due(self) -> None:
        """Save when the time has come; a full disk costs this checkpoint, not the run."""
        if self.checkpointer is None or self.timesteps == self._last_checkpoint[1]:
            return
        config, (then, before) = self.config, self._last_checkpoint
        if config.checkpoint_steps is not None:
            if self.timesteps - before < config.checkpoint_steps:
                return
        elif not 0 < 60 * config.checkpoint_minutes <= time.monotonic() - then:
            return
        try:
            self.checkpoint()
        except OSError as error:
            self._last_checkpoint = (time.monotonic(), self.timesteps)
            print(
                f"geoact: no checkpoint at {self.timesteps:,}: {because(error)}; training goes on and tries again "
                f"later, {self._fallback()}",
                file=sys.stderr,
                flush=True,
            )

    def _fallback(self) -> str:
        newest = self.checkpointer.newest if self.checkpointer is not None else None
        return "there is none before it" if newest is None else f"the one at {newest:,} is intact"

    def checkpoint(self) -> None:
        """Save now. Refuses a state that is not finite."""
        if self.checkpointer is None:
            return
        started = time.perf_counter()
        self._require_sane(self.update.metrics())
        snapshot = self.capture()
        snapshot.facts["metrics_size"] = self._metrics_size()
        self.checkpointer.write(self.timesteps, snapshot, self.ring)
        self._last_checkpoint = (time.monotonic(), self.timesteps)
        self.checkpoint_seconds += time.perf_counter() - started

    def _row(self) -> Row:
        """Metrics since the last log point; stops the run where they say that learning has broken."""
        row: Row = {"step": self.timesteps, "updates": self.updates}
        if self.episodes:
            returns, lengths = zip(*self.episodes)
            row |= {"charts/episodic_return": float(np.mean(returns))}
            row |= {"charts/episodic_length": float(np.mean(lengths)), "charts/episodes": len(returns)}
        then, before = self._mark
        row["charts/SPS"] = (self.timesteps - before) / max(self.elapsed - then, 1e-9)
        row["time/elapsed"] = self.elapsed
        if self.checkpointer is not None:
            row["time/checkpoints"] = self.checkpoint_seconds
        metrics = self.update.metrics()
        self._require_sane(metrics)
        self.episodes, self._mark = [], (self.elapsed, self.timesteps)
        return row | metrics

    def _require_sane(self, metrics: Row) -> None:
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise TrainingFailed(
                    f"{name} became {value} at update {self.updates}: the last good policy is kept"
                )
        gamma = self.config.settings.gamma
        # No policy can earn more than the largest reward at every step; a hundredfold leaves room for bonuses
        # and early overestimation.
        bound = 100.0 * (1.0 + self.envs.largest_reward) / (1.0 - min(gamma, 0.9999))
        value = metrics.get("losses/value", 0.0)
        if abs(value) > bound:
            cause = ""
            if isinstance(self.config.settings, GACConfig) and "policy/kappa" in metrics:
                cause = f" (mean kappa {metrics['policy/kappa']:.3g})"
                if (
                    self.config.settings.concentration == "free"
                    and self.config.settings.exploration == "kappa"
                ):
                    cause += "; a free kappa makes -kappa a bonus without bound: use --concentration softplus"
            raise TrainingFailed(
                f"diverged: the mean value is {value:.3g} at update {self.updates}, and the rewards seen allow at "
                f"most {bound / 100:.3g}{cause}"
            )

    def _evaluate(self) -> Row:
        """Evaluate, keep the policy, and the best one apart."""
        if not self._eval_envs:
            self._eval_envs = [self.factory() for _ in range(self.config.eval_episodes)]
        row = play(self.policy, self._eval_envs).row()
        best = row["eval/return_mean"] > self.best
        self.best = max(self.best, row["eval/return_mean"])
        if self.run is not None:
            self.keep_policy(row, best)
        return row

    def keep_policy(self, evaluation: Row, best: bool) -> None:
        assert self.run is not None
        spec = self.policy.spec
        about = spec.about | {"timesteps": self.timesteps} | evaluation
        spec = PolicySpec(**{**vars(spec), "about": about})
        self.run.save_policy(Policy(spec, self.policy.tensors), best)

    def close(self) -> None:
        self.envs.close()
        for env in self._eval_envs:
            env.close()
        if self.lock is not None:
            self.lock.release()


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def due(step: int, points: int, total: int) -> bool:
    """Whether one of `points` evenly spaced marks lies at this step (the last one at the end)."""
    return step * points // total != (step - 1) * points // total


def train(training: Training, callback: Callback | None = None) -> bool:
    """Run to the end, record everything, and leave a truthful status behind. True if it was completed."""
    run, config = training.run, training.config
    if run is None:
        with StopSignal() as stop:
            return training.loop(stop, lambda row: callback is None or callback(row) is not False)

    def status(state: RunState, reason: str | None = None) -> None:
        run.set_status(state, training.timesteps, config.timesteps, reason, training.not_exact)

    def emit(row: Row) -> bool:
        recorder.write(row)
        status("running")
        return callback is None or callback(row) is not False

    recorder = Recorder(run, training.timesteps + 1 if training.timesteps else 0)
    training.checkpointer = training.checkpointer or Checkpointer(run.path)
    training._metrics_size = recorder.sync
    try:
        status("running")
        with StopSignal() as stop:
            complete = training.loop(stop, emit)
            training.checkpoint()
        recorder.close()
        status("finished" if complete else "stopped")
        if complete and not config.keep_checkpoints:
            checkpoints.delete(run.path)
        return complete
    except BaseException as error:
        with contextlib.suppress(OSError):
            recorder.close()
        with contextlib.suppress(OSError):  # the disk may be full: then the status stays as it was
            interrupted = isinstance(error, KeyboardInterrupt)
            status(
                "stopped" if interrupted else "failed",
                None if interrupted else str(error) or type(error).__name__,
            )
        if isinstance(error, OSError) and error.errno is not None:
            raise TrainingFailed(
                f"cannot write to {error.filename or run.path}: {because(error)}; of the checkpoints "
                f"{training._fallback()}: put it right, then geoact resume {run.path}"
            ) from None
        raise


class StopSignal:
    """Ctrl-C and SIGTERM become a question the loop asks between steps; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self._asked = False
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = True

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def start(config: RunConfig, factory: EnvFactory, runs_dir: Path | None) -> Training:
    """A training, with its run directory if one is wanted; everything that can be refused is refused here."""
    training = Training(config, factory)
    if runs_dir is not None:
        create_run(training, runs_dir)
    return training


def create_run(training: Training, runs_dir: Path) -> Run:
    """Give a training a run directory of its own."""
    training.run = runs.create(runs_dir, training.config)
    training.lock = training.run.lock()
    return training.run


def resume(
    path: Path | str,
    timesteps: int | None = None,
    factory: EnvFactory | None = None,
    say: Callable[[str], None] = print,
) -> Training:
    """A training that goes on where the newest whole checkpoint of a run is, or from the start if there is none.

    `timesteps`: the run's new total, to extend it. `factory` makes the environment where the run's name for it
    is not an id. `say` gets a line for everything that is not as one would wish.
    """
    run = runs.open_run(path)
    config = run.config()
    if timesteps is not None:
        if timesteps < config.timesteps:
            raise InputError(
                f"{run.path} is a run of {config.timesteps:,} transitions: --timesteps can only make it longer, "
                f"got {timesteps:,}"
            )
        config = RunConfig(**{**vars(config), "timesteps": timesteps})
    lock = run.lock()
    training = None
    try:
        checkpoints.sweep(run.path)
        training = Training(config, factory or environments.factory(config.env), run)
        loaded = checkpoints.load_newest(run.path, training.ring, say)
        size = 0
        if loaded is not None:
            training.restore(loaded.snapshot)
            size = int(loaded.snapshot.facts.get("metrics_size", 0))
        elif run.status().get("state") == "finished":
            raise InputError(
                f"{run.path} is finished and its checkpoints were not kept: it cannot be extended"
            )
        _note_versions(run, training)
        if not run.truncate_metrics(size):
            training.not_exact = "rows of metrics.jsonl were missing"
        if training.not_exact:
            say(f"note: going on, but not exactly: {training.not_exact}")
        training.checkpointer = Checkpointer(run.path, loaded.kept if loaded is not None else None)
        training.checkpointer.prune()
        if timesteps is not None:
            run.change_timesteps(training.config)
        training.lock = lock
        return training
    except BaseException:
        lock.release()
        if training is not None:
            training.close()
        raise


def _note_versions(run: Run, training: Training) -> None:
    """Other library versions may round otherwise."""
    now = runs.library_versions()
    changed = [
        f"{name} {was} -> {now.get(name)}" for name, was in run.libraries().items() if now.get(name) != was
    ]
    if changed:
        training.not_exact = f"the run was begun with other versions ({', '.join(changed)})"
