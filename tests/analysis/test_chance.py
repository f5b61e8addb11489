"""What random actions earn, on an environment with a known answer."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from geoact.analysis import chance
from geoact.experiments.catalogue import ExperimentTask


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
