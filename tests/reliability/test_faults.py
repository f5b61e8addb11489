"""What goes wrong around a training: bad numbers, dead workers, full disks, signals. Each is named, none hangs."""

import errno
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geoact import environments
from geoact.errors import TrainingFailed
from geoact.storage import checkpoints, files
from geoact.training import guards, resuming
from geoact.training import session as sessions
from geoact.training.off_policy import OffPolicyLearner
from geoact.training.session import Session

from . import harness

LONG = ("--timesteps", "1000000", "--log-points", "100000")


def start(folder: Path, env: str = "toys:Toy-v0", **more: Any) -> Session:
    options: dict[str, Any] = {"timesteps": 800, "checkpoint_steps": 80} | more
    config = harness.config(env=env, **options)
    return sessions.start(config, environments.factory(env), folder)


@pytest.mark.parametrize(
    ("poison", "sentence"),
    [
        ("obs-reset", r"non-finite observation \(environment \d, reset"),
        ("obs-step", r"non-finite observation \(environment \d, step"),
        ("obs-truncation", r"non-finite observation \(environment \d, step"),
        ("reward-step", r"non-finite reward \(environment \d, step"),
        ("reward-truncation", r"non-finite reward \(environment \d, step"),
    ],
)
def test_a_bad_number_from_the_environment_never_reaches_replay(poison, sentence, tmp_path):
    if poison == "obs-reset":  # refused before there is a run
        with pytest.raises(TrainingFailed, match=sentence):
            start(tmp_path, f"toys:Poison-{poison}-v0")
        return
    session = start(tmp_path, f"toys:Poison-{poison}-v0")
    with pytest.raises(TrainingFailed, match=sentence):
        session.train()
    session.close()
    replay = learner_of(session).replay
    assert len(replay) > 0 and np.isfinite(replay.rows[: len(replay)]).all()
    assert session.run is not None and session.run.status()["state"] == "failed"


def test_a_bad_parameter_never_reaches_a_checkpoint(tmp_path):
    """Parameters that no metric shows (the target network's) turn bad between two checkpoints."""
    session = start(tmp_path)
    assert session.run is not None

    def spoil(row):
        if row["step"] >= 400:
            update = session.learner.core.update
            target = jax.tree.map(lambda x: x * jnp.float32(jnp.nan), update.state.target)
            update.restore(update.state._replace(target=target), update.metrics())

    with pytest.raises(TrainingFailed, match=r"non-finite|became nan"):
        session.train(spoil)
    session.close()
    assert session.run.status()["state"] == "failed"
    for folder in checkpoints.checkpoint_folders(session.run.path):
        arrays = checkpoints.verify(folder)[0].arrays
        assert all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")


def test_a_bad_loss_stops_the_run_by_name(tmp_path):
    with start(tmp_path) as session:
        algorithm = session.learner.core.algorithm
    with pytest.raises(TrainingFailed, match=r"losses/qf_loss became nan at update 7"):
        guards.require_sane(algorithm, {"value": 0.0, "losses/qf_loss": float("nan")}, 1.0, 7)


def test_a_full_disk_costs_checkpoints_but_not_the_run(tmp_path, monkeypatch, capsys):
    session = start(tmp_path, timesteps=400)
    assert session.run is not None
    real, full = files.write_bytes, []

    def write_bytes(path: Path, data: bytes) -> None:
        if ".step_" in str(path) and session.timesteps < 300:
            full.append(path)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, data)

    monkeypatch.setattr(files, "write_bytes", write_bytes)
    assert session.train()
    session.close()
    said = capsys.readouterr().err
    assert full and "no checkpoint at 80: the disk is full; training goes on" in said
    assert session.run.state() == "finished"
    assert [f.name for f in checkpoints.checkpoint_folders(session.run.path)][-1] == "step_000000000400"
    assert list(session.run.path.rglob(".*")) == []


def test_a_disk_that_is_full_at_the_end_is_one_clear_failure(tmp_path, monkeypatch):
    session = start(tmp_path, timesteps=200)
    real = files.write_bytes

    def write_bytes(path: Path, data: bytes) -> None:
        if session.timesteps >= 200:
            raise OSError(errno.EDQUOT, "Disk quota exceeded", str(path))
        real(path, data)

    monkeypatch.setattr(files, "write_bytes", write_bytes)
    with pytest.raises(TrainingFailed, match=r"the disk is full; .*the one at 160 is intact.*geoact resume"):
        session.train()
    session.close()


@pytest.mark.slow
def test_a_dead_worker_is_named_within_seconds_and_leaves_no_orphans(tmp_path):
    session = start(tmp_path, "toys:Mortal-v0", vectorization="async", num_envs=2)
    workers = list(session.learner.core.envs._vector.processes)  # pyright: ignore[reportAttributeAccessIssue]
    started = time.monotonic()
    with pytest.raises(TrainingFailed, match=r"environment worker \d of toys:Mortal-v0 died"):
        session.train()
    session.close()
    assert time.monotonic() - started < 30
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_trust_09_a_signal_is_a_checkpoint_and_then_the_end(number, tmp_path):
    command = harness.train_command(tmp_path, "gac", "toys:Toy-v0", *LONG)
    process = harness.begin(command)
    run = harness.wait_for_run(tmp_path, process)
    harness.wait_for_step(run, process, 1)
    process.send_signal(number)
    assert harness.wait_for_end(process) == 130
    assert run.state() == "stopped"
    folder = checkpoints.checkpoint_folders(run.path)[-1]
    assert int(folder.name.removeprefix("step_")) == run.status()["timesteps"] > 0


@pytest.mark.slow
def test_trust_09_a_closed_terminal_asks_every_process_and_takes_no_more_words(tmp_path):
    """SIGHUP reaches the environments' workers, too, and all that is printed is an error."""
    more = (*LONG, "--vectorization", "async", "--num-envs", "2")
    with open("/dev/full", "w") as nowhere:
        process = subprocess.Popen(
            harness.train_command(tmp_path, "gac", "toys:Toy-v0", *more),
            env=harness.environment(),
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
    run = harness.wait_for_run(tmp_path, process)
    harness.wait_for_step(run, process, 1)
    os.killpg(process.pid, signal.SIGHUP)
    assert harness.wait_for_end(process) == 130
    status = run.status()
    assert status["state"] == "stopped" and "exact" not in status
    folder = checkpoints.checkpoint_folders(run.path)[-1]
    assert int(folder.name.removeprefix("step_")) == status["timesteps"] > 0


@pytest.mark.slow
def test_trust_08_a_reader_that_leaves_does_not_end_the_run(tmp_path):
    """`geoact train ... | head -1`: it trains to its end, with everything written."""
    command = harness.train_command(tmp_path, "gac", "toys:Toy-v0", "--timesteps", "2000")
    process = subprocess.Popen(
        command, env=harness.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    assert "return" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(600) == 0
    process.stderr.close()
    run = harness.only_run(tmp_path)
    assert run.status() == {"state": "finished", "timesteps": 2000, "total": 2000}
    assert checkpoints.checkpoint_folders(run.path)[-1].name.endswith("2000")


@pytest.mark.slow
def test_trust_12_a_stopped_worker_ends_the_run_with_a_checkpoint(tmp_path):
    session = start(tmp_path, vectorization="async", num_envs=2)
    assert session.run is not None
    workers: Any = session.learner.core.envs._vector
    workers.patience = 2.0

    def freeze(row):
        if row["step"] >= 400:
            os.kill(workers.processes[1].pid, signal.SIGSTOP)

    with pytest.raises(
        TrainingFailed, match=r"environment worker 1 \(process \d+\) of toys:Toy-v0 gave no answer"
    ):
        session.train(freeze)
    session.close()
    status = session.run.status()
    assert status["state"] == "failed" and "worker 1" in status["reason"] and status["timesteps"] >= 400
    newest = checkpoints.checkpoint_folders(session.run.path)[-1]
    assert int(newest.name.removeprefix("step_")) == status["timesteps"]
    with resuming.resume(session.run.path, say=lambda line: None) as again:
        assert again.train()
    assert session.run.status()["timesteps"] == 800


@pytest.mark.slow
def test_trust_13_a_run_whose_checkpoints_share_a_damaged_segment_goes_on_when_asked(tmp_path):
    with start(tmp_path, timesteps=1000, checkpoint_steps=200) as session:
        session.train(lambda row: row["step"] < 900)
    run = session.run
    assert run is not None
    one, other = (checkpoints.read_manifest(f)["replay"] for f in checkpoints.checkpoint_folders(run.path))
    shared = next(segment for segment in one if segment in other)
    (path,) = (
        p for p in (run.path / "replay").iterdir() if p.name.startswith(f"rows_{shared['first']:012}_")
    )
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    refused = harness.run_to_end(harness.geoact("resume", str(run.path)))
    assert refused.returncode == 2 and path.name in refused.stderr and "--accept-loss" in refused.stderr
    resumed = harness.run_to_end(harness.geoact("resume", str(run.path), "--accept-loss"))
    assert resumed.returncode == 0, resumed.stderr
    assert "going on, but not exactly" in resumed.stdout and path.name in resumed.stdout
    status = run.status()
    assert status["state"] == "finished" and status["exact"] is False and "are lost" in status["not_exact"]


@pytest.mark.slow
def test_memory_is_flat_once_the_buffer_is_full(tmp_path):
    """A million transitions through replay, environments, updates and checkpoints."""
    config = harness.config(timesteps=5_000_000, evaluations=0, num_envs=50)
    session = sessions.start(config, environments.factory(config.env), tmp_path)
    learner = learner_of(session)
    assert session.checkpointing is not None
    checkpointer = checkpoints.Checkpointer(tmp_path / "soak")
    sizes: list[int] = []
    for number in range(20_000):
        learner.step()
        if number % 1000 == 999:
            checkpointer.write(session.timesteps, session.checkpointing.capture(), learner.replay)
            sizes.append(resident())
    session.close()
    assert session.timesteps == 1_000_000 and session.updates > 10_000
    print(
        f"soak: 1,000,000 transitions, {session.updates:,} updates, resident memory {sizes[4] / 1e6:.1f} MB -> "
        f"{sizes[-1] / 1e6:.1f} MB"
    )
    assert sizes[-1] - sizes[4] < 4e6
    files_left = [p for p in (tmp_path / "soak").rglob("*") if p.is_file()]
    assert len(files_left) < 30


def learner_of(session: Session) -> OffPolicyLearner:
    assert isinstance(session.learner, OffPolicyLearner)
    return session.learner


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
