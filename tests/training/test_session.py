"""A run from its start to its end: when it logs and evaluates, what it opens and closes."""

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoact import environments, runtime
from geoact.config import RunConfig
from geoact.errors import InputError, TrainingFailed
from geoact.storage.runs import Run
from geoact.training import session as sessions
from geoact.training.progress import Row
from geoact.training.session import Session, due
from tests.probes import Counter, Endless
from tests.training.run_cases import SETTINGS, complete, config, folders, rows_of, run_of
from tests.training_cases import fingerprint, start

# Schedule


@pytest.mark.parametrize(("points", "total"), [(5, 100), (20, 30_000), (7, 10), (3, 3), (200, 16)])
def test_marks_are_evenly_spaced_and_the_last_is_at_the_end(points, total):
    marks = [step for step in range(1, total + 1) if due(step, points, total)]
    assert len(marks) == min(points, total)
    assert marks[-1] == total
    assert np.ptp(np.diff([0, *marks])) <= 1


def test_a_callback_can_stop_the_training():
    seen: list[Row] = []

    def stop_at_second(row: Row) -> bool:
        seen.append(row)
        return len(seen) < 2

    with start(config()) as session:
        assert not session.train(stop_at_second)
    assert session.timesteps == 40 and [row["step"] for row in seen] == [20, 40]


# Evaluations


class Interrupting(Counter):
    """Somebody presses Ctrl-C in a step of the n-th evaluation episode."""

    episode, at = 0, 0

    def reset(self, **given: Any) -> Any:
        Interrupting.episode += 1
        return super().reset(**given)

    def step(self, action: np.ndarray) -> Any:
        if Interrupting.episode == Interrupting.at:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(action)


@pytest.mark.parametrize(("at", "step"), [(1, 60), (2, 60), (3, 120)])
def test_trust_11_a_request_to_stop_inside_an_evaluation_ends_it_and_it_is_played_when_the_run_goes_on(
    at, step, tmp_path, whole
):
    """Two evaluations of two episodes: in the first, between them, and in the very last step of the run."""
    Interrupting.episode, Interrupting.at = 0, at
    factory = environments.factory(config().env)
    with sessions.start(config(), factory, tmp_path, eval_factory=Interrupting) as session:
        assert not session.train()
    run = run_of(session)
    assert Interrupting.episode == at  # nothing was played behind the request
    assert run.status() == {"state": "stopped", "timesteps": step, "total": 120}
    assert all(row["step"] < step for row in run.metrics())
    again = complete(run)
    assert run.status() == {"state": "finished", "timesteps": 120, "total": 120}
    assert rows_of(run) == rows_of(whole[0]) and fingerprint(again) == whole[1]
    for name in ("policy", "best"):
        path = Path(name, "policy.safetensors")
        assert (run.path / path).read_bytes() == (whole[0].path / path).read_bytes()


def test_trust_11_an_environment_without_end_is_cut(tmp_path):
    with start(config(20, "Endless", eval_steps=7), tmp_path) as session:
        assert session.train()
    rows = [row for row in run_of(session).metrics() if "eval/return_mean" in row]
    assert [(row["eval/cut"], row["eval/length_mean"]) for row in rows] == [(2.0, 7.0)] * 2


class BrokenLater(Endless):
    def step(self, action: np.ndarray) -> Any:
        self.count += 1
        return np.full(2, np.nan if self.count == 3 else 0.0, np.float32), 0.0, False, False, {}


def test_trust_17_a_nan_in_an_evaluation_is_named_and_the_run_kept(tmp_path):
    factory = environments.factory("tests.probes:Endless-v0")
    wanted = config(40, "Endless")
    with (
        sessions.start(wanted, factory, tmp_path, eval_factory=BrokenLater) as session,
        pytest.raises(
            TrainingFailed,
            match=r"tests.probes:Endless-v0 gave a non-finite observation \(evaluation, step\)",
        ),
    ):
        session.train()
    run = run_of(session)
    assert run.status()["state"] == "failed" and "non-finite observation" in run.status()["reason"]
    assert folders(run) == [20] and runtime.load(run.path).spec.about["timesteps"] == 20


def test_evaluations_have_an_environment_of_their_own(tmp_path):
    made: list[str] = []

    def factory(name: str) -> Callable[[], Any]:
        def make() -> Any:
            made.append(name)
            return environments.make("tests.probes:Counter-v0")

        return make

    with sessions.start(config(), factory("train"), tmp_path, eval_factory=factory("eval")) as session:
        assert session.train()
    assert sorted(made) == ["eval", "train", "train"]


# Open and closed


def test_nothing_stays_open(tmp_path):
    closed: list[str] = []

    class Watched(Counter):
        def close(self) -> None:
            closed.append("environment")

    with sessions.start(config(40), Watched, tmp_path) as session:
        assert run_of(session).locked()
        assert session.train()
    assert not run_of(session).locked()
    assert len(closed) == 3  # two to train in, one to evaluate in
    session.close()  # again is nothing


def test_whatever_fails_at_the_start_closes_what_was_open(tmp_path):
    closed: list[int] = []

    class Watched(Counter):
        def close(self) -> None:
            closed.append(1)

    def refuse(config: RunConfig) -> Run:
        raise InputError("no room")

    with pytest.raises(InputError, match="no room"):
        Session(config(), Watched, refuse)
    assert len(closed) == 2
    with start(config(), tmp_path) as held, pytest.raises(InputError, match="another process"):
        Session(config(), Watched, lambda _: run_of(held))
    assert len(closed) == 4


def test_closed_and_opened_again_it_goes_on_exactly(tmp_path, whole):
    with start(config(), tmp_path) as session:
        assert not session.train(lambda row: row["step"] < 60)
    session.reopen()
    assert not session.train(lambda row: row["step"] < 80)
    session.close()
    session.reopen()
    session.reopen()  # again is nothing
    with session:
        assert session.train()
    assert fingerprint(session) == whole[1]
    assert rows_of(run_of(session)) == rows_of(whole[0])
    assert session.tally.not_exact is None


class Forgetful(Counter):
    """Episodes that no seed reproduces."""

    def reset(self, **given: Any) -> Any:
        super().reset(**given)
        self.tag = int.from_bytes(os.urandom(4), "little") % 1000 * 5 + 4  # of five steps
        self.length = 5
        return self.observe(), {}


def test_an_episode_that_is_lost_between_is_told(tmp_path):
    wanted = dataclasses.replace(config(120), settings=dataclasses.replace(SETTINGS, n_step=3))
    with sessions.start(wanted, Forgetful, tmp_path) as session:
        session.train(lambda row: row["step"] < 40)
    session.reopen()
    with session:
        assert (
            session.tally.not_exact is not None
            and "2 of 2 environments did not reproduce" in session.tally.not_exact
        )
        session.train()
    status = run_of(session).status()
    assert status["state"] == "finished" and status["exact"] is False
    replay = session.learner.replay
    assert replay is not None
    rows = replay.numbered(0, replay.added)
    np.testing.assert_array_equal(rows[:, 0], rows[:, 6])  # nothing reaches from one episode into another


def test_trust_02_another_total_is_written_down(tmp_path):
    with start(config(40), tmp_path) as session:
        assert session.train()
        session.change_total(80)
        assert run_of(session).config().timesteps == 80
        assert session.train()
    assert run_of(session).status() == {"state": "finished", "timesteps": 80, "total": 80}
