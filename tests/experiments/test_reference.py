from pathlib import Path

import geoact
from geoact.experiments.catalogue import DMCONTROL, MUJOCO
from geoact.experiments.reference import random_returns, reference


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
