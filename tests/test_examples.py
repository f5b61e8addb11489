"""The examples run as they say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_own_environment_is_trained_on_and_played():
    assert "from the dock at the end" in run("examples/own_environment.py", "1200")


def test_own_environment_by_name(tmp_path):
    out = run(
        *("-m", "geoact.cli", "train", "examples.own_environment:Docking-v0", "--timesteps", "400"),
        *("--evaluations", "1", "--eval-episodes", "1", "--runs-dir", str(tmp_path)),
    )
    assert "run: " in out


@pytest.mark.slow
def test_own_environment_is_learned():
    """Standing still earns about -77 from that start; docking at once would earn about -13."""
    out = run("examples/own_environment.py")
    assert float(out.rpartition("return ")[2].split(",")[0]) > -30, out
