"""A run that is interrupted and resumed, with everything on that can be chosen, ends as one that was not."""

import dataclasses
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from geoact import runtime
from geoact.config import AlgorithmConfig, CriticConfig, GACConfig, RunConfig, SACConfig, TD3Config
from geoact.policies import NetworkConfig
from geoact.storage.runs import Run
from geoact.training import resuming
from geoact.training.progress import Row
from tests.training.run_cases import OPTIONS, complete, config, folders, rows_of, run_of
from tests.training_cases import fingerprint, run_config, start

_CRITIC = CriticConfig(hidden_sizes=(8,), layer_norm=True, dropout=0.1)


_ALL: dict[str, Any] = {
    "actor": NetworkConfig((8,), "silu", True),
    "batch_size": 8,
    "buffer_size": 150,
    "learning_starts": 5,
    "n_step": 3,
    "normalize_obs": True,
    "policy_delay": 2,
    "practice_share": 0.4,
    "practice_steps": 7,
    "actor_lr_halving": 10,
    "critic_lr_halving": 10,
    "cool_down": 0.5,
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
        with resuming.resume(run.path, say=said.append) as session:
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
    from tests.training.test_resuming import everything
    from tests.training_cases import start

    with start(everything(sys.argv[1]), Path(sys.argv[2])) as session:
        session.train(lambda row: os.kill(os.getpid(), signal.SIGKILL) if row["step"] == 141 else None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", list(EVERYTHING))
def test_a_run_with_everything_on_survives_a_kill(algorithm, tmp_path):
    """Killed six transitions behind its newest checkpoint."""
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


def test_a_finished_run_is_complete_at_once(tmp_path):
    with start(config(40), tmp_path) as session:
        assert session.train()
    before = rows_of(run_of(session))
    complete(run_of(session))
    assert rows_of(run_of(session)) == before
