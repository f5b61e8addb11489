"""The twelve tasks: sizes as published, time limits as truncations, and (slow) every algorithm on every task."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from geoact import environments
from geoact.config import REGISTRY
from geoact.environments import Environments
from geoact.environments.tasks import DM_CONTROL, GYMNASIUM, PAPER
from geoact.errors import InputError


@pytest.mark.parametrize("task", GYMNASIUM + DM_CONTROL, ids=lambda task: task.name)
def test_sizes_are_as_listed(task, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = environments.make(task.name)
    obs, _ = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == (task.obs_dim,)
    assert env.action_space.shape == (task.action_dim,)
    env.close()
    assert capfd.readouterr().err == ""


def test_there_are_twelve():
    assert len(PAPER) == 12


@pytest.mark.parametrize("name", ["walker-run", "dm_control/walker-run", "dm_control/walker-run-v0"])
def test_dm_control_names(name):
    assert environments.registered(name) == "dm_control/walker-run-v0"


def test_an_unknown_dm_control_task_is_explained():
    with pytest.raises(InputError, match="did you mean walker-run"):
        environments.make("walker-rum")


def test_pusher_v4_is_answered_with_advice():
    with pytest.raises(InputError, match=r"Pusher-v4 needs MuJoCo 2.*use Pusher-v5.*heavier"):
        environments.make("Pusher-v4")


def test_dm_control_ends_by_truncation_after_1000_steps():
    envs = Environments("walker-walk", environments.factory("walker-walk"), 2, 0)
    assert envs.low.dtype == np.float64
    for number in range(1, 1001):
        step = envs.step(np.zeros((2, 6), np.float32))
        assert step.obs.dtype == step.next_obs.dtype == np.float32
        assert not step.terminated.any()
        assert step.truncated.all() == (number == 1000)
        assert [length for _, length in step.episodes] == ([1000, 1000] if number == 1000 else [])
    envs.close()


def test_dm_control_episodes_can_be_played_again():
    def play() -> np.ndarray:
        envs = Environments("fish-upright", environments.factory("fish-upright"), 1, 5)
        seen = [envs.step(np.full((1, 5), 0.3, np.float32)).next_obs for _ in range(20)]
        envs.close()
        return np.asarray(seen)

    np.testing.assert_array_equal(play(), play())


def test_dm_control_is_imported_only_when_asked_for():
    code = (
        "import sys; from geoact import environments; environments.make('Hopper-v4'); "
        "print([m for m in ('dm_control', 'shimmy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "geoact.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def test_envs_lists_them():
    done = command("envs")
    assert done.returncode == 0 and done.stderr == ""
    assert "dm_control/quadruped-run       78 observations   12 actions" in done.stdout
    own = command("envs", "tests.probes:Nested-v0")
    assert own.stdout.split() == ["tests.probes:Nested-v0", "4", "observations", "2", "actions"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", REGISTRY)
@pytest.mark.parametrize("task", PAPER, ids=lambda task: task.name)
def test_every_task_trains_with_every_algorithm(task, algorithm, tmp_path):
    done = command(
        *("train", task.name, "--algorithm", algorithm, "--timesteps", "10000", "--threads", "1"),
        *("--evaluations", "1", "--eval-episodes", "1", "--runs-dir", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
