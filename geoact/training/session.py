"""A run from its start to its end: learning, log points, evaluations.

`Session` is one run in progress. Everything that learns is its learner's (off_policy.py, on_policy.py); the
session decides when to log, evaluate and save. Checkpoints are in checkpointing.py, what the run leaves behind,
however it ends, in keeping.py, and going on with it later in resuming.py.
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import gymnasium as gym

from geoact import environments
from geoact.config import RunConfig
from geoact.environments import EnvFactory, Environments
from geoact.runtime import Policy
from geoact.storage import runs
from geoact.storage.recorder import Recorder
from geoact.storage.runs import Run
from geoact.training import backend
from geoact.training.callbacks import Callback, CallbackLike, Callbacks
from geoact.training.checkpointing import Checkpointing
from geoact.training.evaluation import UNWATCHED, Stopped, Watch, play
from geoact.training.keeping import Keeper
from geoact.training.learner import Learner, make_core
from geoact.training.off_policy import OffPolicyLearner
from geoact.training.on_policy import OnPolicyLearner
from geoact.training.progress import Row
from geoact.training.signals import StopSignal
from geoact.training.tally import Tally

LEARNERS = {"off-policy": OffPolicyLearner, "on-policy": OnPolicyLearner}


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
            backend.set_up_jax()
            envs = _environments(config, factory)
            opened.callback(envs.close)
            settings = config.settings.resolve(config.env, envs.action_dim, config.timesteps, config.num_envs)
            self.learner = make_learner(dataclasses.replace(config, settings=settings), envs)
            self._factory, self._eval_factory = factory, eval_factory or factory
            self._eval_env: gym.Env | None = None
            self.run = None if open_run is None else open_run(self.config)
            if self.run is not None:
                opened.callback(self.run.lock().release)
            self.tally = Tally()
            self.checkpointing = (
                None if self.run is None else Checkpointing(self.run.path, self.learner, self.tally)
            )
            self._keeper = Keeper(self.run, self.learner.core, self.tally, self.checkpointing)
            self.stopped_by: int | None = None
            """The signal that ended the last training, if one did."""
            self.watch: Watch = UNWATCHED
            """Hears how far an evaluation is."""
            self._opened, self._open = opened.pop_all(), True

    @property
    def config(self) -> RunConfig:
        """The run's configuration, with every automatic choice made."""
        return self.learner.core.config

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
        return (self.checkpointing.newest if self.checkpointing is not None else None) or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of environments and of the run's lock; what was learned stays."""
        self._eval_env, self._open = None, False
        self._opened.close()

    def reopen(self) -> None:
        """Environments and lock again, after `close`; open episodes are played again from their seeds."""
        if self._open:
            return
        with contextlib.ExitStack() as opened:
            if self.run is not None:
                opened.callback(self.run.lock().release)
            envs = _environments(self.config, self._factory)
            opened.callback(envs.close)
            lost = self.learner.core.take_over(envs)
            self.learner.forget(lost)
            self.tally.note_lost(lost, envs.count)
            self._opened, self._open = opened.pop_all(), True

    def change_total(self, timesteps: int) -> None:
        """Ask for another total of transitions, also in the run's directory."""
        self.learner.core.change_total(timesteps)
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
                self._keeper.status("running")
                complete = self._loop(stop, recorder, callback)
                self.stopped_by = stop.number
                self._keeper.save(recorder)
                self._tell_checkpoint(callback)
            if recorder is not None:
                recorder.close()
            self._keeper.end(complete)
            return complete
        except BaseException as error:
            self._keeper.end_by_error(error, recorder)
            raise

    def _loop(self, stop: StopSignal, recorder: Recorder | None, callback: Callback) -> bool:
        """Learn, log, evaluate and save until the run is complete (True) or asked to stop (False)."""
        core, tally, config, total = self.learner.core, self.tally, self.config, self.config.vector_steps
        started = time.perf_counter() - tally.elapsed
        while True:
            evaluating = due(core.vector_steps, config.evaluations, total)
            logging = evaluating or due(core.vector_steps, config.log_points, total)
            if logging and tally.mark[1] != core.timesteps:
                core.catch_up()
                core.require_sane()
                evaluation: Row = {}
                if evaluating:
                    try:
                        evaluation = self._evaluate(stop)
                    except Stopped:
                        return False  # this log point is made when the run goes on
                    started = time.perf_counter() - tally.elapsed  # evaluations do not count
                row = tally.row(core, checkpoints=self.checkpointing is not None) | evaluation
                if recorder is not None:
                    recorder.write(row)
                    self._keeper.status("running")
                wanted = callback.on_log(self, row) is not False
                if (evaluation and callback.on_evaluation(self, row) is False) or not wanted:
                    return False
            if stop():
                return False
            if core.vector_steps >= total:
                return True
            saved = self.checkpointing is not None and self.checkpointing.write_if_due(recorder)
            if saved and not self._tell_checkpoint(callback):
                return False
            tally.stepping = True
            self.learner.step()
            tally.stepping = False
            tally.elapsed = time.perf_counter() - started

    def _evaluate(self, stop: StopSignal) -> Row:
        """Evaluate, keep the policy, and the best one apart."""
        config, envs = self.config, self.learner.core.envs
        if self._eval_env is None:
            (self._eval_env,) = environments.several(self._eval_factory, 1, config.env, apart_from=envs.made)
            self._opened.callback(self._eval_env.close)
        played = play(
            self.policy,
            [self._eval_env],
            config.eval_episodes,
            max_steps=config.eval_steps,
            stop=stop,
            watch=self.watch,
        )
        row = played.row()
        self._keeper.policy(row, best=row["eval/return_mean"] > self.tally.best)
        self.tally.best = max(self.tally.best, row["eval/return_mean"])
        return row

    def _tell_checkpoint(self, callback: Callback) -> bool:
        """Whether to go on, after a checkpoint."""
        if self.checkpointing is None:
            return True
        return callback.on_checkpoint(self, self.checkpointing.folder) is not False


def _environments(config: RunConfig, factory: EnvFactory) -> Environments:
    """The environments that the run learns in."""
    return Environments(
        config.env,
        factory,
        config.num_envs,
        config.seed,
        config.vectorization,
        practice=config.settings.practice(config.num_envs),
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
