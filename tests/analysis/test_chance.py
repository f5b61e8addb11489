"""What random actions earn: on an environment with a known answer, and the table that the package holds."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import geoact
from geoact.analysis import chance
from geoact.experiments.catalogue import DMCONTROL, MUJOCO, ExperimentTask
from geoact.experiments.reference import random_returns, reference


class SumOfAction(gymnasium.Env[np.ndarray, np.ndarray]):
    """Three steps, each paying its action, which lies between 1 and 3."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(1.0, 3.0, (1,))

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), float(action[0]), False, self.steps == 3, {}


gymnasium.register("SumOfAction-v0", f"{__name__}:SumOfAction")


def test_random_actions_fill_the_box(tmp_path: Path) -> None:
    found = chance.returns("SumOfAction-v0", 2_000, 0)
    assert found.mean() == pytest.approx(6.0, abs=4 / np.sqrt(2_000))  # three times the middle; deviation 1
    assert found.std() == pytest.approx(1.0, abs=0.08)  # three times 2^2 / 12
    assert found.min() > 3.0 and found.max() < 9.0
    assert np.array_equal(chance.returns("SumOfAction-v0", 3, 1), found[1:4])  # an episode is its seed's
    task = ExperimentTask("SumOfAction-v0", 3, "sum", 1)
    paths = chance.run(tmp_path, tasks=(task,), episodes=3)
    assert [path.name for path in paths] == ["chance.md", "chance.csv"]
    assert "| sum | SumOfAction-v0 |" in paths[0].read_text()


def test_the_package_holds_the_committed_table() -> None:
    committed = Path(__file__).parents[2] / "results" / "analysis" / "chance.csv"
    held = Path(str(geoact.__file__)).parent / "experiments" / "chance.csv"
    assert held.read_bytes() == committed.read_bytes()


def test_every_task_of_the_paper_has_two_ends() -> None:
    names = {task.name for task in MUJOCO + DMCONTROL}
    assert set(random_returns()) == names
    for name in names:
        ends = reference(name)
        assert ends is not None and ends[0] < ends[1]
    assert reference("HalfCheetah-v5") is None
