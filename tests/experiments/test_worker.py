"""One run of a sweep in a process of its own: its exit code says what became of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from geoact.config import GACConfig, RunConfig
from geoact.errors import STOPPED, TrainingFailed
from geoact.experiments import worker
from geoact.storage.runs import Run, create_at


@pytest.fixture
def run(tmp_path: Path) -> Run:
    config = RunConfig(env="tests.probes:Reach-v0", algorithm="gac", settings=GACConfig(), timesteps=100)
    return create_at(tmp_path / "run", config)


class Outcome:
    """A session that ends as it is told to."""

    def __init__(self, ending: bool | Exception):
        self.ending = ending

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def train(self) -> bool:
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending


@pytest.mark.parametrize(("ending", "code"), [(True, 0), (False, STOPPED), (TrainingFailed("diverged"), 1)])
def test_the_exit_code(ending, code, run, monkeypatch, capsys):
    monkeypatch.setattr("geoact.training.resuming.resume", lambda path: Outcome(ending))
    assert worker.work(run.path) == code
    assert capsys.readouterr().err == ("diverged\n" if code == 1 else "")


def test_nothing_is_done_twice(run, monkeypatch, capsys):
    run.set_status("finished", 100, 100)
    monkeypatch.setattr("geoact.training.resuming.resume", lambda path: pytest.fail("it is finished"))
    assert worker.work(run.path) == 0
    assert worker.work(run.path / "none") == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_former_worker_is_waited_for(run, monkeypatch):
    looks: list[float] = []
    monkeypatch.setattr(worker.time, "sleep", looks.append)
    states = iter([True, True, False])
    monkeypatch.setattr(Run, "locked", lambda self: next(states))
    worker.wait_for_the_former(run)
    assert looks == [0.2, 0.2]


def test_an_orphan_ends_at_once():
    """The parent that it is told of is not the one that it has."""
    command = [sys.executable, "-m", "geoact.experiments.worker", "nowhere", "any", str(os.getpid() + 1)]
    assert subprocess.run(command, capture_output=True).returncode == STOPPED
