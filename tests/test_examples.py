"""The examples run as they say."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples import own_environment
from geoact import cli

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_own_environment_is_trained_on_and_played(capsys):
    own_environment.main(400)
    assert "from the dock at the end" in capsys.readouterr().out


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "quickstart.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    (first,) = [cell for cell in notebook.cells if "TIMESTEPS = " in cell.source]
    first.source = first.source.replace("1_000", "240")
    done = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = "".join(str(output) for cell in done.cells for output in cell.get("outputs", []))
    assert "<progress value='1.000'" in shown, "progress in a notebook"
    assert "learned from 240 transitions" in shown and "image/png" in shown


def test_own_environment_by_name(tmp_path, capsys):
    small = ["--actor.hidden-sizes", "8", "--critic.hidden-sizes", "8", "--threads", "1"]
    small += ["--timesteps", "80", "--evaluations", "1", "--eval-episodes", "1", "--runs-dir", str(tmp_path)]
    assert cli.main(["train", "examples.own_environment:Docking-v0", *small]) == 0
    assert "run: " in capsys.readouterr().out


@pytest.mark.slow
def test_own_environment_is_learned_by_the_script():
    """Standing still earns about -77 from that start; docking at once would earn about -13."""
    out = run("examples/own_environment.py")
    assert float(out.rpartition("return ")[2].split(",")[0]) > -30, out
