"""The whole way, as a user goes it: sweep, kill -9 in the middle, continue, every table, figure and the report."""

import subprocess
import sys
from pathlib import Path

import pytest

from geoact import cli
from geoact.report.paper_tables import FROM_RUNS
from geoact.storage import runs
from tests.experiments.test_local import progressed, wait_for, workers


@pytest.mark.slow
def test_two_tasks_of_table1(tmp_path: Path) -> None:
    out = tmp_path / "sweeps" / "table1"
    command = [sys.executable, "-m", "geoact.cli", "sweep", "table1", "--budget", "2400", "--seeds", "2"]
    command += ["--tasks", "Hopper-v4", "HalfCheetah-v4", "--algorithms", "gac", "ppo", "--jobs", "2"]
    command += ["--out", str(out)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_for(lambda: progressed(out), 300)
    first.kill()
    first.wait()
    wait_for(lambda: not workers(out), 120)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 finished of 8" in done.stdout
    for run in runs.find_runs(out):
        steps = [row["step"] for row in run.metrics()]
        assert steps == sorted(set(steps)) and steps[-1] >= 2400

    where = ["--runs", str(tmp_path / "sweeps"), "--out", str(tmp_path / "paper")]
    for name in FROM_RUNS:
        assert cli.main(["paper", name, *where]) == 0
    text = (tmp_path / "paper" / "table1.md").read_text()
    # no episode of HalfCheetah ends in 300 vector steps
    assert text.count("(n=2)") == 6 and text.count("2 without training return") == 2
    assert "no runs" in text and "| 2,400 | 300 |" in text
    page = tmp_path / "report.html"
    assert cli.main(["report", "--runs", str(tmp_path / "sweeps"), "--out", str(page)]) == 0
    assert "Hopper-v4" in page.read_text()
