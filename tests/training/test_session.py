"""A run from its start to its end: what it leaves behind, however it ends."""

import dataclasses
import json
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

from geoact import environments, runtime
from geoact.config import AlgorithmConfig, CriticConfig, GACConfig, RunConfig, SACConfig, TD3Config
from geoact.errors import InputError, TrainingFailed
from geoact.policies import NetworkConfig
from geoact.storage import checkpoints
from geoact.storage.runs import CLOCK_KEYS, Run
from geoact.training import session as sessions
from geoact.training.progress import Row
from geoact.training.session import Session, due
from tests.probes import Counter, Endless
from tests.training_cases import CRITIC, TINY, fingerprint, run_config, start

SETTINGS = SACConfig(actor=TINY, critic=CRITIC, batch_size=8, buffer_size=500, learning_starts=5)
OPTIONS: dict[str, Any] = {"num_envs": 2, "evaluations": 2, "eval_episodes": 2, "log_points": 6}


def config(timesteps: int = 120, env: str = "Counter", **options: Any) -> RunConfig:
    return run_config("sac", SETTINGS, timesteps, env, **(OPTIONS | options))


def run_of(session: Session) -> Run:
    assert session.run is not None
    return session.run


def rows_of(run: Run) -> list[Row]:
    return [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in run.metrics()]


def folders(run: Run) -> list[int]:
    """The steps of the checkpoints."""
    return [int(f.name.removeprefix("step_")) for f in checkpoints.checkpoint_folders(run.path)]


def complete(run: Run, factory: Any = None) -> Session:
    """Go on with a run to its end."""
    with sessions.resume(run.path, factory=factory, say=lambda line: None) as session:
        assert session.train()
    return session


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run in one piece, and its fingerprint."""
    with start(config(), tmp_path_factory.mktemp("whole")) as session:
        assert session.train()
    return run_of(session), fingerprint(session)


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


def test_checkpoints_can_be_left_out(tmp_path):
    with start(config(40, evaluations=0, keep_checkpoints=False), tmp_path) as session:
        assert session.train()
    assert folders(run_of(session)) == []
    with pytest.raises(InputError, match="its checkpoints were not kept"):
        sessions.resume(run_of(session).path)


@pytest.mark.parametrize(("first", "minutes", "expected"), [(1e-9, 5.0, 2), (1e9, 5.0, 40), (1e-9, 0.0, 40)])
def test_trust_09_the_first_checkpoint_does_not_wait_for_the_usual_interval(
    first, minutes, expected, tmp_path, monkeypatch
):
    assert sessions.FIRST_CHECKPOINT <= 60.0
    monkeypatch.setattr(sessions, "FIRST_CHECKPOINT", first)
    written: list[int] = []
    with start(config(40, evaluations=0, checkpoint_minutes=minutes), tmp_path) as session:
        assert session.checkpointer is not None
        plain = session.checkpointer.write

        def write(step: int, *arguments: Any) -> None:
            written.append(step)
            plain(step, *arguments)

        session.checkpointer.write = write  # type: ignore[method-assign]
        assert session.train()
    assert written[0] == expected
    assert written[-1] == 40 and len(written) == (2 if expected == 2 else 1)  # then the interval, and the end


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


def test_a_policy_that_is_not_finite_is_named_though_all_metrics_are(tmp_path):
    with start(config(), tmp_path) as session:
        session.learner.core.policy.tensors["mean.bias"] = np.full(2, np.nan, np.float32)
        with pytest.raises(TrainingFailed, match=r"the policy's mean\.bias has a non-finite number"):
            session._require_sane()


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
    from tests.training.test_session import config
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
    assert session.not_exact is None


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
        assert session.not_exact is not None and "2 of 2 environments did not reproduce" in session.not_exact
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


def test_a_finished_run_is_complete_at_once(tmp_path):
    with start(config(40), tmp_path) as session:
        assert session.train()
    before = rows_of(run_of(session))
    complete(run_of(session))
    assert rows_of(run_of(session)) == before


# Exact resume of everything that can be chosen

_CRITIC = CriticConfig(hidden_sizes=(8,), layer_norm=True, dropout=0.1)
_ALL: dict[str, Any] = {
    "actor": NetworkConfig((8,), "silu", True),
    "batch_size": 8,
    "buffer_size": 150,
    "learning_starts": 5,
    "n_step": 3,
    "normalize_obs": True,
    "policy_delay": 2,
}
EVERYTHING: dict[str, AlgorithmConfig] = {
    "gac": GACConfig(**_ALL, critic=_CRITIC, exploration="entropy", scale="learned", weight_decay=1e-3),
    "sac": SACConfig(
        **_ALL, critic=dataclasses.replace(_CRITIC, count=3, target_subset=2, actor_value="mean")
    ),
    "td3": TD3Config(**_ALL, critic=dataclasses.replace(_CRITIC, actor_value="one")),
}


def everything(algorithm: str) -> RunConfig:
    options: dict[str, Any] = OPTIONS | {"num_envs": 3, "log_points": 12, "checkpoint_steps": 45}
    return run_config(algorithm, EVERYTHING[algorithm], 240, **options)


def end_of(run: Run) -> tuple[bytes, bytes, list[Row], dict[str, Any]]:
    files = [(run.path / name / "policy.safetensors").read_bytes() for name in ("policy", "best")]
    return files[0], files[1], rows_of(run), run.status()


@pytest.mark.parametrize(
    "algorithm", ["gac", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sac", "td3"))]
)
def test_a_run_with_everything_on_resumes_exactly(algorithm, tmp_path):
    wanted = everything(algorithm)
    with start(wanted, tmp_path / "whole") as control:
        assert control.train()
    with start(wanted, tmp_path / "pieces") as session:
        assert not session.train(lambda row: row["step"] < 80)
    run = run_of(session)
    for stop_at in (160, 1000):
        said: list[str] = []
        with sessions.resume(run.path, say=said.append) as session:
            session.train(lambda row: row["step"] < stop_at)  # noqa: B023
        assert said == []
    assert fingerprint(session) == fingerprint(control)
    assert end_of(run) == end_of(run_of(control))
    assert {"obs_mean", "obs_std"} <= runtime.load(run.path).tensors.keys()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from geoact.training import backend
    backend.set_threads(1)
    from tests.training.test_session import everything
    from tests.training_cases import start

    with start(everything(sys.argv[1]), Path(sys.argv[2])) as session:
        session.train(lambda row: os.kill(os.getpid(), signal.SIGKILL) if row["step"] == 140 else None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", list(EVERYTHING))
def test_a_run_with_everything_on_survives_a_kill(algorithm, tmp_path):
    """Killed five steps behind its newest checkpoint."""
    with start(everything(algorithm), tmp_path / "whole") as control:
        assert control.train()
    command = [sys.executable, "-c", textwrap.dedent(KILLED), algorithm, str(tmp_path / "killed")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (folder,) = (tmp_path / "killed").iterdir()
    run = Run(folder)
    assert run.state() == "interrupted" and folders(run)[-1] == 135
    session = complete(run)
    assert fingerprint(session) == fingerprint(control)
    assert end_of(run) == end_of(run_of(control))


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    with start(config(40), tmp_path) as session:
        assert session.train()
    path = run_of(session).path / "run.json"
    data = json.loads(path.read_text())
    data["config"]["settings"]["critic"]["count"] = 3
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"no array .*members\.2"):
        sessions.resume(path.parent, say=lambda line: None)
    assert not run_of(session).locked()
