"""Environments in processes of their own; what stopped and dying ones do is tested with reliability."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from geoact import environments
from geoact.environments.vector import InProcess
from geoact.environments.workers import Workers

COUNTER = environments.factory("tests.probes:Counter-v0")


def test_workers_give_what_one_process_gives_and_end_when_closed():
    workers, alone = Workers("Counter", COUNTER, 2, 60.0), InProcess("Counter", COUNTER, 2)
    try:
        assert workers.single_action_space == alone.single_action_space
        mask = np.array([True, True])
        seeds: list[int | None] = [3, 4]
        np.testing.assert_array_equal(workers.reset(seeds, mask), alone.reset(seeds, mask))
        action = np.zeros((2, 2), np.float32)
        for ours, theirs in zip(workers.step(action), alone.step(action), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        some = workers.step_some({1: action[1]})
        obs, reward, ended = some[1]
        expected = alone.step(action)
        np.testing.assert_array_equal(obs, expected[0][1])
        assert (reward, ended) == (expected[1][1], expected[2][1] or expected[3][1])
    finally:
        processes = workers.processes
        workers.close()
        workers.close()  # twice is once
        alone.close()
    assert not any(process.is_alive() for process in processes)


def test_a_script_without_a_main_guard_is_told_what_it_lacks(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import geoact\n"
        "options = geoact.RunOptions(num_envs=2, vectorization='async')\n"
        "geoact.GAC('Pendulum-v1', options=options).learn(10)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert 'must train below if __name__ == "__main__":' in done.stderr.splitlines()[-1]
