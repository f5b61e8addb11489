"""What a run leaves behind, however it ends."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import runtime
from geoact.errors import InputError, TrainingFailed
from geoact.storage.runs import Run
from geoact.training import session as sessions
from geoact.training.progress import Row
from tests.probes import Counter
from tests.training.run_cases import complete, config, folders, rows_of, run_of
from tests.training_cases import fingerprint, start


def test_a_finished_run_has_everything(whole):
    run, _ = whole
    assert run.status() == {"state": "finished", "timesteps": 120, "total": 120}
    assert folders(run)[-1] == 120
    policy = runtime.load(run.path)
    assert policy.spec.about["timesteps"] == 120 and "eval/return_mean" in policy.spec.about
    assert run.metrics()[-1]["step"] == 120
    assert list(run.path.rglob(".*")) == []


def test_trust_14_without_evaluations_there_is_a_policy_all_the_same(tmp_path):
    with start(config(40, evaluations=0), tmp_path) as session:
        assert session.train()
    run = run_of(session)
    policy = runtime.load(run.path)
    np.testing.assert_array_equal(policy(np.ones(2)), session.policy(np.ones(2)))
    assert policy.spec.about["timesteps"] == 40 and not run.best_path.exists()
    assert run.status()["state"] == "finished"


def test_trust_14_what_is_said_of_a_run_without_a_policy_is_true(tmp_path):
    with (
        start(config(), tmp_path) as session,
        pytest.raises(InputError, match="no policy yet: it writes one at"),
    ):
        runtime.load(run_of(session).path)


# Errors in the middle


class Raising(Counter):
    """Raises in its fortieth step, of all episodes together."""

    made = 0

    def step(self, action: np.ndarray) -> Any:
        Raising.made += 1
        if Raising.made == 40:
            raise RuntimeError("the simulator broke")
        return super().step(action)


def fail_at(step: int) -> Callable[[Row], None]:
    def callback(row: Row) -> None:
        if row["step"] >= step:
            raise ZeroDivisionError("an error of the user's own")

    return callback


def test_trust_08_an_error_in_a_callback_leaves_all_that_was_learned(tmp_path, whole):
    with start(config(), tmp_path) as session, pytest.raises(ZeroDivisionError):
        session.train(fail_at(60))
    run = run_of(session)
    status = run.status()
    assert (status["state"], status["timesteps"]) == ("failed", 60)
    assert status["reason"] == "an error of the user's own" and "exact" not in status
    assert folders(run)[-1] == 60
    np.testing.assert_array_equal(runtime.load(run.path)(np.ones(2)), session.policy(np.ones(2)))
    assert run.metrics()[-1]["step"] == 60
    again = complete(run)
    assert run.status() == {"state": "finished", "timesteps": 120, "total": 120}
    assert fingerprint(again) == whole[1]  # nothing was half made: it ends as the run in one piece


def test_trust_08_an_error_in_the_environment_leaves_all_that_was_learned(tmp_path):
    Raising.made = 0
    with (
        sessions.start(config(), Raising, tmp_path) as session,
        pytest.raises(Exception, match="simulator broke"),
    ):
        session.train()
    run = run_of(session)
    status = run.status()
    assert status["state"] == "failed" and "simulator broke" in status["reason"]
    assert 0 < status["timesteps"] < 60
    assert folders(run)[-1] == status["timesteps"]
    policy = runtime.load(run.path)
    assert policy.spec.about["timesteps"] == status["timesteps"]
    assert status["exact"] is False and "in the middle of a step" in status["not_exact"]
    Raising.made = 1000
    complete(run, Raising)
    assert run.status()["state"] == "finished" and run.metrics()[-1]["step"] == 120


def test_a_broken_policy_never_replaces_the_last_good_one(tmp_path):
    """Its parameters become NaN behind a log point: the file stays the last one that could act."""
    with start(config(), tmp_path) as session:
        core = session.learner.core

        def spoil(row: Row) -> None:
            if row["step"] == 80:
                actor = jax.tree.map(lambda x: x * jnp.float32(jnp.nan), core.update.state.actor)
                core.update._leaves = jax.tree.leaves(core.update.state._replace(actor=actor))

        with pytest.raises(TrainingFailed, match=r"non-finite|became nan"):
            session.train(spoil)
    run = run_of(session)
    policy = runtime.load(run.path)  # refuses what is not finite
    assert policy.spec.about["timesteps"] == 60
    assert run.status()["state"] == "failed"
    assert all(step <= 80 for step in folders(run))


def test_values_that_run_away_stop_the_run(tmp_path):
    with start(config(), tmp_path) as session:
        core = session.learner.core

        def shrink(row: Row) -> None:
            if row["step"] >= 40:
                core.algorithm = dataclasses.replace(core.algorithm, value_bound=lambda largest: 1e-12)

        with pytest.raises(TrainingFailed, match="diverged: the mean value is"):
            session.train(shrink)
    run = run_of(session)
    assert run.status()["state"] == "failed" and run.status()["reason"].startswith("diverged")
    assert not run.policy_path.exists()  # there was no evaluation before it


# Signals


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_trust_09_a_signal_stops_the_run_with_everything_saved(name, tmp_path, whole):
    number = getattr(signal, name)
    with start(config(), tmp_path) as session:
        assert not session.train(lambda row: os.kill(os.getpid(), number) if row["step"] == 40 else None)
    run = run_of(session)
    assert session.stopped_by == number
    assert run.status() == {"state": "stopped", "timesteps": 40, "total": 120}
    assert folders(run) == [40] and runtime.load(run.path).spec.about["timesteps"] == 40
    again = complete(run)
    assert fingerprint(again) == whole[1] and rows_of(run) == rows_of(whole[0])


class TwiceInterrupted(Counter):
    """Somebody presses Ctrl-C twice in the fortieth step of all episodes together."""

    made = 0

    def step(self, action: np.ndarray) -> Any:
        TwiceInterrupted.made += 1
        if TwiceInterrupted.made == 40:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return super().step(action)


def test_trust_09_a_second_interrupt_saves_too(tmp_path):
    TwiceInterrupted.made = 0
    with sessions.start(config(), TwiceInterrupted, tmp_path) as session, pytest.raises(KeyboardInterrupt):
        session.train()
    run = run_of(session)
    status = run.status()
    assert status["state"] == "stopped" and 30 <= status["timesteps"] < 60
    assert folders(run)[-1] == status["timesteps"] == session.saved_at
    complete(run, Counter)
    assert run.status()["state"] == "finished" and run.metrics()[-1]["step"] == 120


SCRIPT = """
    import sys
    from pathlib import Path
    from geoact.training import backend
    backend.set_threads(1)
    from tests.training.run_cases import config
    from tests.training_cases import start

    with start(config(10_000_000, log_points=1_000_000, evaluations=0), Path(sys.argv[1])) as session:
        assert session.run is not None
        print(session.run.path, flush=True)
        complete = session.train(lambda row: print(int(row["step"]), flush=True))
        print("complete" if complete else "stopped", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_trust_09_a_signal_from_outside(name, tmp_path):
    """A closed terminal, and a system that shuts down."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run = Run(Path(process.stdout.readline().strip()))
    while int(process.stdout.readline()) < 30:
        pass
    process.send_signal(getattr(signal, name))
    rest = process.stdout.read().split()
    assert process.wait(60) == 0 and rest[-1] == "stopped"
    status = run.status()
    assert status["state"] == "stopped" and folders(run) == [status["timesteps"]]
    assert runtime.load(run.path).spec.about["timesteps"] == status["timesteps"]
    assert not run.locked()
