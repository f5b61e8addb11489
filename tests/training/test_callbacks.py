"""Callbacks are told of everything, in order, and can stop a run; the built-in ones do what they say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import geoact
from geoact import runtime
from geoact.config import RunOptions, SACConfig
from geoact.training.callbacks import Callback, Callbacks
from geoact.training.progress import Row
from geoact.training.session import Session
from tests.training_cases import CRITIC, TINY

SAC = SACConfig(actor=TINY, critic=CRITIC, batch_size=8, buffer_size=500, learning_starts=5)
OPTIONS = RunOptions(timesteps=120, num_envs=2, evaluations=3, eval_episodes=1, log_points=6)
COUNTER = "tests.probes:Counter-v0"


class Witness(Callback):
    """Writes down what it is told, and stops where it should."""

    def __init__(self, stop: str = ""):
        self.seen: list[str] = []
        self._stop = stop

    def _note(self, what: str) -> bool:
        self.seen.append(what)
        return what != self._stop

    def on_start(self, session: Session) -> None:
        self._note(f"start {session.timesteps}")

    def on_log(self, session: Session, row: Row) -> bool:
        return self._note(f"log {row['step']}")

    def on_evaluation(self, session: Session, row: Row) -> bool:
        assert "eval/return_mean" in row
        return self._note(f"evaluation {session.timesteps}")

    def on_checkpoint(self, session: Session, path: Path) -> bool:
        assert (path / "manifest.json").is_file()
        return self._note(f"checkpoint {session.timesteps}")

    def on_end(self, session: Session, complete: bool) -> None:
        self._note(f"end {complete}")


class Scores(Callback):
    """Pretends that evaluations gave these returns: told before the others, in the row they share."""

    def __init__(self, *scores: float):
        self._scores = iter(scores)

    def on_log(self, session: Session, row: Row) -> None:
        if "eval/return_mean" in row:
            row["eval/return_mean"] = next(self._scores)


def agent(folder: Path | None = None, **options: Any) -> geoact.Agent:
    return geoact.SAC(COUNTER, SAC, options=replace(OPTIONS, **options), runs_dir=folder)


def test_everything_is_told_in_order(tmp_path):
    witness, rows = Witness(), list[float]()
    learned = agent(tmp_path, checkpoint_steps=80)
    learned.learn(callback=[witness, lambda row: rows.append(row["step"])])
    assert witness.seen == [
        *(
            "start 0",
            "log 20",
            "log 40",
            "evaluation 40",
            "log 60",
            "log 80",
            "evaluation 80",
            "checkpoint 80",
        ),
        *("log 100", "log 120", "evaluation 120", "checkpoint 120", "end True"),
    ]
    assert rows == [20, 40, 60, 80, 100, 120] and learned.completed


@pytest.mark.parametrize("where", ["log 40", "evaluation 40", "checkpoint 60"])
def test_any_of_them_stops_the_run_and_all_are_told(tmp_path, where):
    first, second = Witness(stop=where), Witness()
    learned = agent(tmp_path, checkpoint_steps=60)
    learned.learn(callback=[first, second])
    assert not learned.completed and first.seen == second.seen
    assert where in first.seen and first.seen[-1] == "end False"
    assert not any(int(what.split()[1]) > 60 for what in first.seen[:-1])


def test_the_end_is_told_after_an_error_too(tmp_path):
    witness = Witness()

    def fail(row: Row) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        agent(tmp_path).learn(callback=[witness, fail])
    assert witness.seen[-1] == "end False"


def test_stop_at_a_return():
    witness = Witness()
    agent().learn(callback=[Scores(1, 5, 9), geoact.StopAtReturn(5), witness])
    assert witness.seen[-2:] == ["evaluation 80", "end False"]


@pytest.mark.parametrize(
    ("options", "scores", "stopped_at"),
    [
        ({"evaluations": 1}, (3, 3, 9), 80),
        ({"evaluations": 2}, (3, 2, 3), 120),
        ({"evaluations": 1, "at_least": 1.0}, (3, 3.5, 9), 80),
        ({"evaluations": 1, "after": 100}, (3, 2, 2), 120),
    ],
)
def test_stop_without_improvement(options, scores, stopped_at):
    witness = Witness()
    agent().learn(callback=[Scores(*scores), geoact.StopWithoutImprovement(**options), witness])
    assert witness.seen[-2:] == [f"evaluation {stopped_at}", "end False"]


def test_save_best_keeps_the_best_policy(tmp_path):
    best = geoact.SaveBest(tmp_path / "best")
    agent().learn(callback=[Scores(1, 7, 3), best])
    about = runtime.load(tmp_path / "best").spec.about
    assert best.best == 7 and about["eval/return_mean"] == 7 and about["timesteps"] == 80


def test_progress_writes_lines_in_a_pipe(capsys):
    agent().learn(callback=geoact.Progress())
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("      120 (100%)") and "evaluation" in lines[-1]


@pytest.mark.parametrize(
    "made", [geoact.StopAtReturn(1), geoact.StopWithoutImprovement(), geoact.SaveBest("x")]
)
def test_without_evaluations_what_needs_them_is_refused(made):
    with pytest.raises(geoact.InputError, match="looks at evaluations, and this run has none"):
        agent(evaluations=0).learn(callback=made)


def test_what_is_no_callback_is_refused():
    for wrong, words in ((7, "got 7"), (geoact.Progress, "make one, Progress"), ([print, "x"], "got 'x'")):
        with pytest.raises(geoact.InputError, match=words):
            Callbacks(wrong)  # type: ignore[arg-type]
    with pytest.raises(geoact.InputError, match="greater than 0"):
        geoact.StopWithoutImprovement(0)
