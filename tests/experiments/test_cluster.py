"""The Ray executor on a real local cluster of several nodes, with workers and a node killed in the middle."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from geoact.experiments import cluster, local, plan, sweep_file
from geoact.storage import runs
from geoact.storage.runs import CLOCK_KEYS
from tests.experiments.test_local import wait_for

SWEEP = """seeds = [0, 1, 2]
evaluations = 2
eval_episodes = 1
checkpoint_minutes = 0.02
[tasks]
"Pendulum-v1" = 2_000
[variants.gac]
algorithm = "gac"
batch_size = 32
actor = { hidden_sizes = [16, 16] }
critic = { hidden_sizes = [16, 16] }
"""


def test_a_live_directory_is_copied_whole(tmp_path: Path) -> None:
    source = tmp_path / "run"
    source.mkdir()
    (source / "keep.json").write_text("{}")
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            (source / f"step_{number}").mkdir()
            (source / f"step_{number}" / "data").write_text("x")
            for old in range(max(0, number - 2), number - 1):
                (source / f"step_{old}" / "data").unlink()
                (source / f"step_{old}").rmdir()
            number += 1
            time.sleep(0.002)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for attempt in range(20):
            copy = cluster.copy_live(source, tmp_path / f"copy{attempt}")
            assert (copy / "keep.json").exists()
    finally:
        stop.set()
        thread.join()


def trial_workers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"geoact.experiments.worker" in words and any(b"/geoact-" in word for word in words):
            found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_killed_workers_and_a_lost_node_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray: Any = pytest.importorskip("ray", reason="needs the extra 'ray'")
    cluster_utils: Any = pytest.importorskip("ray.cluster_utils")
    path = tmp_path / "mine.toml"
    path.write_text(SWEEP)
    planned = plan.plan(sweep_file.read(path))

    monkeypatch.setenv("RAY_worker_niceness", "0")  # a busy machine would let the workers starve
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = nodes.add_node(num_cpus=1)
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    happened: list[str] = []

    def disturb() -> None:
        wait_for(lambda: len(trial_workers()) >= 2, 300)
        time.sleep(3)
        os.kill(trial_workers()[0], signal.SIGKILL)
        happened.append("a worker was killed")
        time.sleep(5)
        nodes.remove_node(lost, allow_graceful=False)
        happened.append("a node was lost")

    thread = threading.Thread(target=disturb)
    try:
        thread.start()
        jobs = local.inspect(planned, tmp_path / "ray")
        (tmp_path / "ray").mkdir()
        cluster.run(jobs, tmp_path / "ray", None, str(tmp_path / "storage"), every=1.0)
        thread.join()
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert happened == ["a worker was killed", "a node was lost"]
    assert [job.state for job in jobs] == ["finished"] * 3

    here = local.inspect(planned, tmp_path / "here")
    (tmp_path / "here").mkdir()
    assert local.LocalSweep(here, 2).run(lambda sweep: None)
    for run in planned:
        remote, near = (_rows(tmp_path / place / run.name) for place in ("ray", "here"))
        assert remote == near
    names = sorted(run.path.name for run in runs.find_runs(tmp_path / "ray"))
    assert names == sorted(run.name for run in planned)


def _rows(path: Path) -> list[dict[str, float]]:
    return [
        {key: value for key, value in row.items() if key not in CLOCK_KEYS}
        for row in runs.Run(path).metrics()
    ]
