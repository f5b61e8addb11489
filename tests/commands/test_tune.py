"""`geoact tune`, as a user runs it: killed and continued, and on Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geoact import cli
from geoact.experiments import run_file

pytest.importorskip("optuna", reason="needs the extra 'tune'")


def test_bad_input_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for argv, message in (
        (["Pendulm-v1"], "unknown environment 'Pendulm-v1'"),
        (["Pendulum-v1", "--trials", "0"], "trials must be greater than 0"),
        (["Pendulum-v1", "--algorithm", "sca"], "did you mean sac"),
        (["Pendulum-v1", "--algorithm", "ppo", "--timesteps", "100"], "PPO learns from rollouts"),
    ):
        assert cli.main(["tune", *argv, "--runs-dir", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err


def command(out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "geoact", "tune", "Pendulum-v1", "--algorithm", "sac", "--trials", "4"),
        *("--timesteps", "600", "--evaluations", "3", "--eval-episodes", "1", "--confirm", "1"),
        *("--jobs", "2", "--runs-dir", str(out), *more),
    ]


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_and_ends(tmp_path: Path):
    out = tmp_path / "out"
    process = subprocess.Popen(command(out), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("trial_0000"):
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)
    done = subprocess.run(command(out), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "trials are there already" in done.stdout or "4 of 4" in done.stdout
    data = json.loads((out / "tune.json").read_text())
    assert len(data["trials"]) == 4
    found = "no better configuration than the default was found" in done.stdout
    assert found != (out / "best.toml").exists()
    if not found:
        assert run_file.read(out / "best.toml").config().env == "Pendulum-v1"
    assert (out / "history.png").exists()


@pytest.mark.slow
def test_a_search_on_ray(tmp_path: Path):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    out = tmp_path / "out"
    done = subprocess.run(
        command(out, "--executor", "ray", "--storage", str(tmp_path / "storage")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads((out / "tune.json").read_text())["trials"]) == 4
    assert (out / ".trials" / "trial_0000" / "run.json").exists()
