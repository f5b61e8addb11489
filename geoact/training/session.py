"""A run from its start to its end: learning, evaluations, metrics, checkpoints, status, signals.

`Session` is one run in progress. Everything that learns is its learner's (off_policy.py, on_policy.py); the
session decides when to log, evaluate and save, and leaves a truthful status behind, however the run ends:

    completed            finished, with its last policy and checkpoint
    asked to stop        stopped, saved at the step it was at
    an error             failed with the reason, saved if the state is still sane
    killed               what the newest checkpoint has; `resume` goes on from there
"""

import contextlib
import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from geoact import environments
from geoact.config import RunConfig
from geoact.environments import EnvFactory, Environments
from geoact.errors import FileFormatError, InputError, TrainingFailed
from geoact.runtime import Policy
from geoact.storage import checkpoints, runs
from geoact.storage.checkpoints import Checkpointer, Snapshot
from geoact.storage.recorder import Recorder
from geoact.storage.runs import Run, RunState, because
from geoact.training import backend
from geoact.training.callbacks import Callback, CallbackLike, Callbacks
from geoact.training.evaluation import UNWATCHED, Stopped, Watch, play
from geoact.training.guards import require_sane
from geoact.training.learner import Learner, make_core
from geoact.training.off_policy import OffPolicyLearner
from geoact.training.on_policy import OnPolicyLearner
from geoact.training.progress import Row
from geoact.training.signals import StopSignal
from geoact.training.update import VALUE

LEARNERS = {"off-policy": OffPolicyLearner, "on-policy": OnPolicyLearner}
FIRST_CHECKPOINT = 45.0
"""Seconds until the first checkpoint, at the latest: a run that has just begun is not lost either."""


def make_learner(config: RunConfig, envs: Environments) -> Learner:
    """The learner of the mode that the algorithm declares."""
    core = make_core(config, envs)
    return LEARNERS[core.algorithm.mode](core)


class Session:
    """One run in progress."""

    def __init__(
        self,
        config: RunConfig,
        factory: EnvFactory,
        open_run: Callable[[RunConfig], Run] | None = None,
        eval_factory: EnvFactory | None = None,
    ):
        """`open_run` gives the run's directory once all else is ready, for the configuration with every
        automatic choice made; it is locked for as long as the session lives. Without it nothing is written.
        """
        with contextlib.ExitStack() as opened:  # whatever fails below closes what is already open
            backend.use_compilation_cache()
            envs = Environments(config.env, factory, config.num_envs, config.seed, config.vectorization)
            opened.callback(envs.close)
            settings = config.settings.resolve(config.env, envs.action_dim, config.timesteps, config.num_envs)
            self.config = dataclasses.replace(config, settings=settings)
            self.learner = make_learner(self.config, envs)
            self._factory, self._eval_factory = factory, eval_factory or factory
            self._eval_env: gym.Env | None = None
            self.best = -math.inf
            self.elapsed = 0.0
            self.checkpoint_seconds = 0.0
            self.not_exact: str | None = None
            """Why this run is no longer what it would have been without an interruption."""
            self._mark = (0.0, 0)
            """Time and transitions at the last log point; one that was cut short is not yet made."""
            self._saved = (time.monotonic(), 0)
            """Time and transitions of the last checkpoint."""
            self._stepping = False
            """Whether a step is half made."""
            self._policy_at: int | None = None
            """Transitions behind the policy that was last written."""
            self.run = None if open_run is None else open_run(self.config)
            if self.run is not None:
                opened.callback(self.run.lock().release)
            self.checkpointer = None if self.run is None else Checkpointer(self.run.path)
            self.stopped_by: int | None = None
            """The signal that ended the last training, if one did."""
            self.watch: Watch = UNWATCHED
            """Hears how far an evaluation is."""
            self._opened, self._open = opened.pop_all(), True

    @property
    def timesteps(self) -> int:
        """Transitions collected."""
        return self.learner.core.timesteps

    @property
    def updates(self) -> int:
        """Gradient updates made."""
        return self.learner.core.updates

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        return self.learner.core.policy

    @property
    def saved_at(self) -> int:
        """Transitions that the newest checkpoint has; 0 where there is none."""
        return (self.checkpointer.newest if self.checkpointer is not None else None) or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of environments and of the run's lock; what was learned stays."""
        if self._eval_env is not None:
            self._eval_env.close()
            self._eval_env = None
        self._opened.close()
        self._open = False

    def reopen(self) -> None:
        """Environments and lock again, after `close`; open episodes are played again from their seeds."""
        if self._open:
            return
        config, core = self.config, self.learner.core
        arrays, facts = core.envs.state()
        with contextlib.ExitStack() as opened:
            if self.run is not None:
                opened.callback(self.run.lock().release)
            envs = Environments(config.env, self._factory, config.num_envs, config.seed, config.vectorization)
            opened.callback(envs.close)
            lost = envs.restore(arrays, facts)
            core.envs = envs
            self.learner.forget(lost)
            self._note_lost(lost)
            self._opened, self._open = opened.pop_all(), True

    def change_total(self, timesteps: int) -> None:
        """Ask for another total of transitions, also in the run's directory."""
        self.config = dataclasses.replace(self.config, timesteps=timesteps)
        self.learner.core.config = self.config
        if self.run is not None:
            self.run.change_config(self.config)

    def train(self, callback: CallbackLike | None = None) -> bool:
        """Run to the end, record everything, and leave a truthful status behind. True if it was completed."""
        callbacks, complete = Callbacks(callback), False
        try:
            complete = self._train(callbacks)
            return complete
        finally:
            callbacks.on_end(self, complete)

    def _train(self, callback: Callback) -> bool:
        recorder = None
        try:
            callback.on_start(self)
            with StopSignal() as stop:
                if self.run is not None:
                    recorder = Recorder(self.run, self.timesteps + 1 if self.timesteps else 0)
                    self._status("running")
                complete = self._loop(stop, recorder, callback)
                self.stopped_by = stop.number
                self._save(recorder)
                self._tell_checkpoint(callback)
            if recorder is not None:
                recorder.close()
            self._status("finished" if complete else "stopped")
            if complete and self.run is not None and not self.config.keep_checkpoints:
                checkpoints.delete(self.run.path)
            return complete
        except BaseException as error:
            self._end_by_error(error, recorder)
            if isinstance(error, OSError) and error.errno is not None and self.run is not None:
                raise TrainingFailed(
                    f"cannot write to {error.filename or self.run.path}: {because(error)}; of the checkpoints "
                    f"{self._newest()}: put it right, then geoact resume {self.run.path}"
                ) from None
            raise

    def _loop(self, stop: StopSignal, recorder: Recorder | None, callback: Callback) -> bool:
        """Learn, log, evaluate and save until the run is complete (True) or asked to stop (False)."""
        core, config, total = self.learner.core, self.config, self.config.vector_steps
        started = time.perf_counter() - self.elapsed
        while True:
            evaluating = due(core.vector_steps, config.evaluations, total)
            logging = evaluating or due(core.vector_steps, config.log_points, total)
            if logging and self._mark[1] != self.timesteps:
                core.catch_up()
                self._require_sane()
                evaluation: Row = {}
                if evaluating:
                    try:
                        evaluation = self._evaluate(stop)
                    except Stopped:
                        return False  # this log point is made when the run goes on
                    started = time.perf_counter() - self.elapsed  # evaluations do not count
                row = self._row() | evaluation
                if recorder is not None:
                    recorder.write(row)
                    self._status("running")
                wanted = callback.on_log(self, row) is not False
                if (evaluation and callback.on_evaluation(self, row) is False) or not wanted:
                    return False
            if stop():
                return False
            if core.vector_steps >= total:
                return True
            if self._checkpoint_if_due(recorder) and not self._tell_checkpoint(callback):
                return False
            self._stepping = True
            self.learner.step()
            self._stepping = False
            self.elapsed = time.perf_counter() - started

    def _require_sane(self) -> None:
        """Stop the run where metrics or the policy say that learning has broken."""
        core = self.learner.core
        require_sane(core.algorithm, core.update.metrics(), core.envs.largest_reward, self.updates)
        for name, tensor in self.policy.tensors.items():
            if not np.isfinite(tensor).all():
                raise TrainingFailed(
                    f"the policy's {name} has a non-finite number in it at update {self.updates}: the last good "
                    "policy is kept"
                )

    def _row(self) -> Row:
        """Metrics since the last log point."""
        core = self.learner.core
        row: Row = {"step": self.timesteps, "updates": self.updates}
        if core.episodes:
            returns, lengths = zip(*core.episodes)
            row |= {"charts/episodic_return": float(np.mean(returns))}
            row |= {"charts/episodic_length": float(np.mean(lengths)), "charts/episodes": len(returns)}
        then, before = self._mark
        row["charts/SPS"] = (self.timesteps - before) / max(self.elapsed - then, 1e-9)
        row["time/elapsed"] = self.elapsed
        if self.checkpointer is not None:
            row["time/checkpoints"] = self.checkpoint_seconds
        core.episodes, self._mark = [], (self.elapsed, self.timesteps)
        return row | {name: value for name, value in core.update.metrics().items() if name != VALUE}

    def _evaluate(self, stop: StopSignal) -> Row:
        """Evaluate, keep the policy, and the best one apart."""
        config = self.config
        if self._eval_env is None:
            (self._eval_env,) = environments.several(
                self._eval_factory, 1, config.env, apart_from=self.learner.core.envs.made
            )
        played = play(
            self.policy,
            [self._eval_env],
            config.eval_episodes,
            max_steps=config.eval_steps,
            stop=stop,
            watch=self.watch,
        )
        row = played.row()
        self._keep_policy(row, best=row["eval/return_mean"] > self.best)
        self.best = max(self.best, row["eval/return_mean"])
        return row

    def _keep_policy(self, evaluation: Row, best: bool = False) -> None:
        if self.run is not None:
            self.run.save_policy(self.policy_with(evaluation), best)
            self._policy_at = self.timesteps

    def policy_with(self, evaluation: Row) -> Policy:
        """The policy as it is now, with what is known about it."""
        spec = self.policy.spec
        about = spec.about | {"timesteps": self.timesteps} | evaluation
        return Policy(dataclasses.replace(spec, about=about), self.policy.tensors)

    def _save(self, recorder: Recorder | None) -> None:
        """The last policy and a checkpoint: what an end leaves behind, whichever it is."""
        self.learner.core.catch_up()
        self._require_sane()
        if self._policy_at != self.timesteps:
            self._keep_policy({})
        self._checkpoint(recorder)

    def _end_by_error(self, error: BaseException, recorder: Recorder | None) -> None:
        """Save what is sane and say what happened; the disk may be full, then files stay as they were."""
        interrupted = isinstance(error, KeyboardInterrupt)
        if not isinstance(error, OSError):
            before = self.not_exact
            if self._stepping:  # its noise is drawn and perhaps its update, nothing else
                self.not_exact = (
                    before or f"the run was ended in the middle of a step by {type(error).__name__}"
                )
            self._stepping = False
            try:
                self._save(recorder)
            except (TrainingFailed, OSError, InputError):
                self.not_exact = before
        with contextlib.suppress(OSError):
            if recorder is not None:
                recorder.close()
        with contextlib.suppress(OSError):
            reason = None if interrupted else str(error) or type(error).__name__
            self._status("stopped" if interrupted else "failed", reason)

    def _status(self, state: RunState, reason: str | None = None) -> None:
        if self.run is not None:
            self.run.set_status(state, self.timesteps, self.config.timesteps, reason, self.not_exact)

    def _tell_checkpoint(self, callback: Callback) -> bool:
        """Whether to go on, after a checkpoint."""
        if self.checkpointer is None:
            return True
        return callback.on_checkpoint(self, self.checkpointer.folder(self.timesteps)) is not False

    def _checkpoint_if_due(self, recorder: Recorder | None) -> bool:
        """Save when the time has come, and say so; a full disk costs this checkpoint, not the run."""
        config, (then, before) = self.config, self._saved
        if self.checkpointer is None or self.timesteps == before:
            return False
        if config.checkpoint_steps is not None:
            if self.timesteps - before < config.checkpoint_steps:
                return False
        else:
            wait = 60.0 * config.checkpoint_minutes
            if self.checkpointer.newest is None:
                wait = min(wait, FIRST_CHECKPOINT)
            if not 0.0 < wait <= time.monotonic() - then:
                return False
        try:
            self._checkpoint(recorder)
            return True
        except OSError as error:
            self._saved = (time.monotonic(), self.timesteps)
            with contextlib.suppress(OSError):  # nobody may be there to read it
                print(
                    f"geoact: no checkpoint at {self.timesteps:,}: {because(error)}; training goes on and tries "
                    f"again later, {self._newest()}",
                    file=sys.stderr,
                    flush=True,
                )
            return False

    def _newest(self) -> str:
        newest = self.checkpointer.newest if self.checkpointer is not None else None
        return "there is none before it" if newest is None else f"the one at {newest:,} is intact"

    def _checkpoint(self, recorder: Recorder | None) -> None:
        """Save now. Refuses a state that is not finite."""
        if self.checkpointer is None:
            return
        started = time.perf_counter()
        self._require_sane()
        snapshot = self.capture()
        snapshot.facts["metrics_size"] = recorder.sync() if recorder is not None else 0
        self.checkpointer.write(self.timesteps, snapshot, self.learner.replay)
        self._saved = (time.monotonic(), self.timesteps)
        self.checkpoint_seconds += time.perf_counter() - started

    def capture(self) -> Snapshot:
        """Everything that changes while the run trains, between two vector steps; the replay is apart."""
        arrays, facts = self.learner.state()
        facts |= {
            "best": self.best if math.isfinite(self.best) else None,
            "elapsed": self.elapsed,
            "checkpoint_seconds": self.checkpoint_seconds,
            "mark": self._mark,
            "not_exact": self.not_exact,
        }
        return Snapshot(arrays, facts)

    def restore(self, snapshot: Snapshot) -> None:
        """Back to what was captured (the replay is already there)."""
        facts = snapshot.facts
        try:
            lost = self.learner.restore(snapshot.arrays, facts)
            self.best = -math.inf if facts["best"] is None else float(facts["best"])
            self.elapsed = float(facts["elapsed"])
            self.checkpoint_seconds = float(facts["checkpoint_seconds"])
            self._mark = float(facts["mark"][0]), int(facts["mark"][1])
            self.not_exact = facts["not_exact"]
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileFormatError(
                f"the checkpoint does not fit this run: {type(error).__name__} {error}"
            ) from None
        self._note_lost(lost)
        self._saved = (time.monotonic(), self.timesteps)

    def _note_lost(self, envs: list[int]) -> None:
        if envs:
            self.not_exact = (
                f"{len(envs)} of {self.config.num_envs} environments did not reproduce their episode and began "
                "a new one"
            )


def due(step: int, points: int, total: int) -> bool:
    """Whether one of `points` evenly spaced marks lies at this step (the last one at the end)."""
    return step * points // total != (step - 1) * points // total


def start(
    config: RunConfig, factory: EnvFactory, runs_dir: Path | None, eval_factory: EnvFactory | None = None
) -> Session:
    """A new run, with its directory if one is wanted, made once nothing is left that could be refused."""
    create = None if runs_dir is None else functools.partial(runs.create, runs_dir)
    return Session(config, factory, create, eval_factory)


def resume(
    path: Path | str,
    timesteps: int | None = None,
    factory: EnvFactory | None = None,
    say: Callable[[str], None] = print,
    eval_factory: EnvFactory | None = None,
    accept_loss: bool = False,
    env: tuple[str, str] | None = None,
) -> Session:
    """A session that goes on where the newest whole checkpoint of a run is, or from the start if there is none.

    `timesteps`: the run's new total, to extend it. `factory` makes the environment where the run's name for it
    is not an id. `say` gets a line for everything that is not as one would wish. `accept_loss`: go on, not exactly,
    where rows of the replay are damaged in every checkpoint. `env`: name and description (as in `RunConfig`) of what
    `factory` makes; where it is not what the run was begun on, the run goes on as one on the new environment.
    """
    run = runs.open_run(path)
    config = run.config()
    begun_on = config.env_given or config.env
    if env is not None:
        config = dataclasses.replace(config, env=env[0], env_given=env[1])
    if config.env_given and factory is None:
        raise InputError(
            f"{run.path} was trained on {config.env_given}, which cannot be made from its name: go on in Python, "
            f"geoact.resume({str(run.path)!r}, env=...).learn()"
        )
    if timesteps is not None and timesteps < config.timesteps:
        raise InputError(
            f"{run.path} is a run of {config.timesteps:,} transitions: --timesteps can only make it longer, "
            f"got {timesteps:,}"
        )
    if timesteps is not None:
        config = dataclasses.replace(config, timesteps=timesteps)
    session = Session(config, factory or environments.factory(config.env), lambda _: run, eval_factory)
    try:
        checkpoints.sweep(run.path)
        loaded = checkpoints.load_newest(run.path, session.learner.replay, say, accept_loss)
        if loaded is not None:
            session.restore(loaded.snapshot)
        elif run.status().get("state") == "finished":
            raise InputError(
                f"{run.path} is finished and its checkpoints were not kept: it cannot be extended"
            )
        session.not_exact = _other_versions(run) or session.not_exact
        if loaded is not None and loaded.missing:
            session.not_exact = loaded.missing
        size = int(loaded.snapshot.facts.get("metrics_size", 0)) if loaded is not None else 0
        if not run.truncate_metrics(size):
            session.not_exact = "rows of metrics.jsonl were missing"
        if session.not_exact:
            say(f"note: going on, but not exactly: {session.not_exact}")
        if loaded is not None:
            session.checkpointer = Checkpointer(run.path, loaded.kept, loaded.damaged)
        assert session.checkpointer is not None
        session.checkpointer.prune()
        goes_on_with = config.env_given or config.env
        if goes_on_with != begun_on:
            say(f"note: the run was begun on {begun_on}, and goes on with {goes_on_with}")
        if timesteps is not None or goes_on_with != begun_on:
            session.change_total(config.timesteps)
        return session
    except BaseException:
        session.close()
        raise


def _other_versions(run: Run) -> str | None:
    """Other library versions may round otherwise."""
    now: dict[str, Any] = runs.library_versions()
    changed = [
        f"{name} {was} -> {now.get(name)}" for name, was in run.libraries().items() if now.get(name) != was
    ]
    return f"the run was begun with other versions ({', '.join(changed)})" if changed else None
