"""The paper's numbers as data: what everything that compares with them relies on."""

import math

from geoact.experiments.catalogue import EXPERIMENTS
from geoact.experiments.paper_numbers import paper_numbers


def test_every_entry_of_a_table_of_returns_is_a_mean_and_a_deviation():
    numbers = paper_numbers()
    for key in ("table1_mujoco", "table2_dmcontrol"):
        entries = [e for row in numbers[key].values() if isinstance(row, dict) for e in row.values()]
        assert len(entries) >= 24
        for mean, deviation in (entry for entry in entries if isinstance(entry, list)):
            assert math.isfinite(mean) and deviation >= 0


def test_every_experiment_finds_its_numbers():
    numbers = paper_numbers()
    assert {e.paper for e in EXPERIMENTS.values() if e.paper is not None} <= set(numbers)
    assert paper_numbers() is not numbers  # nobody can change them for the others
