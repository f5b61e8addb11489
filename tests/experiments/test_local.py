"""The local sweep: what is there is kept, what is broken is refused; the slow tests kill for real."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geoact import cli
from geoact.errors import InputError
from geoact.experiments import local, plan, sweep_file
from geoact.storage import runs

SWEEP = """seeds = [0, 1]
checkpoint_minutes = 0.02
[tasks]
"Pendulum-v1" = 500
[variants.gac]
algorithm = "gac"
batch_size = 32
actor = { hidden_sizes = [16, 16] }
critic = { hidden_sizes = [16, 16] }
"""


@pytest.fixture
def planned(tmp_path: Path) -> list[plan.PlannedRun]:
    path = tmp_path / "mine.toml"
    path.write_text(SWEEP)
    return plan.plan(sweep_file.read(path))


def test_inspect_sorts_runs_by_what_became_of_them(planned: list[plan.PlannedRun], tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = planned
    runs.create_at(out / first.name, first.config).set_status("finished", 4000, 4000)
    assert [job.state for job in local.inspect(planned, out)] == ["finished", "waiting"]
    runs.create_at(out / second.name, second.config).set_status("failed", 8, 4000, "it diverged")
    jobs = local.inspect(planned, out)
    assert [(job.state, job.reason) for job in jobs] == [("finished", ""), ("failed", "it diverged")]
    assert [job.state for job in local.inspect(planned, out, retry_failed=True)] == ["finished", "waiting"]
    runs.Run(out / second.name).set_status("running", 8, 4000)  # its worker was killed
    assert local.inspect(planned, out)[1].state == "waiting"


def test_a_folder_with_another_run_is_refused(planned: list[plan.PlannedRun], tmp_path: Path) -> None:
    other = dataclasses.replace(planned[0].config, eval_episodes=3)
    runs.create_at(tmp_path / planned[0].name, other)
    with pytest.raises(InputError, match="another configuration"):
        local.inspect(planned, tmp_path)


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    with (
        local.held(tmp_path),
        pytest.raises(InputError, match="another sweep is running"),
        local.held(tmp_path),
    ):
        pass


def test_dry_run_and_bad_input_start_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(SWEEP)
    assert cli.main(["sweep", str(path), "--dry-run", "--out", str(out)]) == 0
    assert "Pendulum-v1__gac__s1__4000t" in capsys.readouterr().out
    path.write_text(SWEEP.replace("Pendulum-v1", "Pendulm-v1"))
    for argv, message in (
        (["sweep", "tabel1"], "unknown experiment 'tabel1': did you mean table1"),
        (["sweep", str(path), "--out", str(out)], "unknown environment 'Pendulm-v1'"),
        (["sweep", "table1", "--budget", "lots"], "budget must be"),
        (["sweep", "table1", "--tasks", "Chess-v1"], "has no task"),
    ):
        assert cli.main(argv) == 2
        assert message in capsys.readouterr().err
    assert not out.exists()


def sweep(path: Path, out: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "geoact.cli", "sweep", str(path), "--out", str(out), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def workers(out: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"geoact.experiments.worker" in words and any(str(out).encode() in word for word in words):
                found.append(int(entry.name))
    return found


def wait_for(condition, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def progressed(out: Path) -> bool:
    return any(json.loads(path.read_text())["timesteps"] > 0 for path in out.glob("*/status.json"))


@pytest.mark.slow
def test_killed_workers_a_killed_sweep_and_a_stopped_one_all_end_the_same(tmp_path: Path) -> None:
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(SWEEP.replace("500", "5_000"))

    parent = sweep(path, out)  # a worker dies: it is started again
    wait_for(lambda: progressed(out))
    os.kill(workers(out)[0], signal.SIGKILL)
    assert parent.stdout is not None
    wait_for(lambda: "was ended by signal SIGKILL: starting it again" in parent.stdout.readline())  # type: ignore[union-attr]
    wait_for(lambda: len(workers(out)) == 2)

    parent.kill()  # the sweep dies: its workers end too
    parent.wait()
    wait_for(lambda: not workers(out))
    assert any(run.status()["state"] != "finished" for run in runs.find_runs(out))

    parent = sweep(path, out)  # Ctrl-C: everything ends in order
    wait_for(lambda: len(workers(out)) == 2)
    time.sleep(2.0)
    parent.send_signal(signal.SIGINT)
    said, _ = parent.communicate(timeout=120)
    assert parent.returncode == 130 and "the same command again continues it" in said
    assert not workers(out)

    parent = sweep(path, out)
    said, _ = parent.communicate(timeout=600)
    assert parent.returncode == 0, said
    finished = list(runs.find_runs(out))
    assert [run.path.name for run in finished] == [
        "Pendulum-v1__gac__s0__40000t",
        "Pendulum-v1__gac__s1__40000t",
    ]
    for run in finished:
        assert run.status()["state"] == "finished"
        steps = [row["step"] for row in run.metrics()]
        assert steps == sorted(set(steps)) and steps[-1] == 40_000  # none lost, none doubled
        assert (run.policy_path / "policy.json").exists()
