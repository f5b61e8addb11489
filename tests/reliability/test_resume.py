"""A run that is interrupted and resumed ends exactly as one that was not."""

import signal
from dataclasses import fields
from pathlib import Path

import pytest

from geoact import environments
from geoact.config import OffPolicyConfig, defaults
from geoact.errors import InputError
from geoact.storage.runs import Run
from geoact.training import resuming
from geoact.training import session as sessions

from . import harness

ALGORITHMS = [
    *("td3", "ppo"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gac", "sac", "gac+", "sac+", "td3+")),
]


@pytest.mark.parametrize("name", [name for name in harness.SETTINGS if name.endswith("+")])
def test_the_settings_with_a_plus_have_every_ingredient(name):
    """What is said of them is said of every option of the learners: none of them is at its default."""
    settings = harness.config(name).settings
    plain = defaults(name.rstrip("+"))
    same = {f.name for f in fields(OffPolicyConfig) if getattr(settings, f.name) == getattr(plain, f.name)}
    assert same == {"gamma", "actor_lr", "critic_lr", "planned_updates"}


def train_to(folder: Path, config, stop_at: int | None = None) -> Run:
    """A run in this process, stopped at a log point if asked."""
    session = sessions.start(config, environments.factory(config.env), folder)
    assert session.run is not None
    session.train(lambda row: stop_at is None or row["step"] < stop_at)
    session.close()
    return session.run


def go_on(run: Run, timesteps: int | None = None, stop_at: int | None = None) -> list[str]:
    said: list[str] = []
    session = resuming.resume(run.path, timesteps, say=said.append)
    session.train(lambda row: stop_at is None or row["step"] < stop_at)
    session.close()
    return said


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stopped_and_resumed_run_ends_like_one_in_one_piece(algorithm, tmp_path):
    config = harness.config(algorithm, timesteps=1000, checkpoint_steps=200)
    whole = train_to(tmp_path / "whole", config)
    pieces = train_to(tmp_path / "pieces", config, stop_at=150)
    assert pieces.state() == "stopped"
    assert go_on(pieces, stop_at=600) == []
    assert go_on(pieces) == []
    assert pieces.status() == {"state": "finished", "timesteps": 1000, "total": 1000}
    assert harness.metrics(pieces) == harness.metrics(whole)
    assert harness.fingerprint(pieces) == harness.fingerprint(whole)


def test_a_finished_run_can_be_extended_and_only_forward(tmp_path):
    run = train_to(tmp_path, harness.config(timesteps=600))
    with pytest.raises(InputError, match="only make it longer"):
        resuming.resume(run.path, 500)
    go_on(run, timesteps=1000)
    assert run.status() == {"state": "finished", "timesteps": 1000, "total": 1000}
    assert run.config().timesteps == 1000
    steps = [row["step"] for row in run.metrics()]
    assert steps == sorted(set(steps)) and steps[-1] == 1000


def test_an_environment_that_does_not_reproduce_is_said_once_and_marked(tmp_path):
    run = train_to(tmp_path, harness.config(env="toys:Forgetful-v0", timesteps=600), stop_at=300)
    (line,) = go_on(run)
    assert "not exactly" in line and "4 of 4 environments did not reproduce" in line
    status = run.status()
    assert status["state"] == "finished" and status["exact"] is False and "reproduce" in status["not_exact"]


@pytest.mark.slow
def test_a_run_of_async_environments_resumes_exactly(tmp_path):
    """Two worker processes each; their episodes are played again inside them."""
    config = harness.config(timesteps=300, num_envs=2, vectorization="async", evaluations=1, log_points=6)
    whole = train_to(tmp_path / "whole", config)
    pieces = train_to(tmp_path / "pieces", config, stop_at=100)
    assert go_on(pieces) == []
    assert harness.fingerprint(pieces) == harness.fingerprint(whole)


def test_killed_between_and_resumed_by_command(tmp_path):
    """SIGKILL after the second checkpoint of a real process, then `geoact resume`: one thread, so exact."""
    more = ("--timesteps", "2000", "--checkpoint-steps", "200")
    control = harness.run_to_end(harness.train_command(tmp_path / "control", "gac", "toys:Toy-v0", *more))
    assert control.returncode == 0, control.stderr
    process = harness.begin(harness.train_command(tmp_path / "killed", "gac", "toys:Toy-v0", *more))
    run = harness.wait_for_run(tmp_path / "killed", process)
    harness.wait_for_step(run, process, 500)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run.state() == "interrupted"  # the lock of a dead process holds nothing
    resumed = harness.run_to_end(harness.geoact("resume", str(run.path)))
    assert resumed.returncode == 0, resumed.stderr
    whole = harness.only_run(tmp_path / "control")
    assert harness.metrics(run) == harness.metrics(whole)
    assert harness.fingerprint(run) == harness.fingerprint(whole)
    again = harness.run_to_end(harness.geoact("resume", str(run.path)))
    assert again.returncode == 0 and "is finished" in again.stdout


def test_a_second_process_is_refused(tmp_path):
    run = train_to(tmp_path, harness.config(timesteps=200))
    lock = run.lock()
    with pytest.raises(InputError, match="being trained by another process"):
        resuming.resume(run.path, 400)
    lock.release()
    go_on(run, timesteps=400)
