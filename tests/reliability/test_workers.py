"""Worker processes that die or stop: named, and nothing is left hanging."""

import os
import signal
import time

import numpy as np
import pytest

from geoact import environments
from geoact.environments import Environments
from geoact.environments.workers import Workers
from geoact.errors import TrainingFailed

ACTION = np.zeros((2, 2), np.float32)


def start(env: str = "toys:Toy-v0", patience: float = 60.0) -> tuple[Environments, Workers]:
    envs = Environments(env, environments.factory(env), 2, 0, "async", patience=patience)
    assert isinstance(envs._vector, Workers)
    return envs, envs._vector


@pytest.mark.parametrize("where", ["step", pytest.param("restore", marks=pytest.mark.slow)])
def test_trust_12_a_stopped_worker_is_named_and_ended(where):
    envs, workers = start(patience=2.0)
    for _ in range(5):
        envs.step(ACTION)
    state = envs.state()
    stuck = workers.processes[1]
    os.kill(stuck.pid, signal.SIGSTOP)
    started = time.monotonic()
    sentence = rf"environment worker 1 \(process {stuck.pid}\) of toys:Toy-v0 gave no answer for 2 s"
    with pytest.raises(TrainingFailed, match=sentence):
        envs.step(ACTION) if where == "step" else envs.restore(*state)
    assert 1.5 < time.monotonic() - started < 30
    assert not any(process.is_alive() for process in workers.processes)
    if where == "step":  # what a checkpoint would hold: the state before the step
        after = envs.state()
        assert after[1] == state[1]
        for name, array in state[0].items():
            np.testing.assert_array_equal(after[0][name], array)
    envs.close()


@pytest.mark.slow
def test_trust_12_a_slow_worker_is_waited_for():
    envs, workers = start(patience=20.0)
    pid = workers.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    # Goes on by itself while the step waits for it.
    child = os.fork()
    if not child:
        time.sleep(2.5)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    started = time.monotonic()
    envs.step(ACTION)
    assert time.monotonic() - started > 2
    os.waitpid(child, 0)
    envs.close()
    assert not any(process.is_alive() for process in workers.processes)


@pytest.mark.slow
def test_a_worker_that_dies_is_named():
    envs, workers = start("toys:Mortal-v0")
    with pytest.raises(TrainingFailed, match=r"environment worker \d of toys:Mortal-v0 died"):  # noqa: PT012
        for _ in range(100):
            envs.step(ACTION)
    assert not any(process.is_alive() for process in workers.processes)
