"""Runs that were written before metrics had CleanRL's names are read by the present ones."""

import json
from pathlib import Path

import pytest

from geoact.config import RunConfig, defaults
from geoact.storage import runs

OLD = {"step": 8, "losses/critic": 1.0, "losses/actor": 2.0, "losses/value": 3.0, "policy/kappa": 5.0}


@pytest.mark.parametrize(
    ("algorithm", "critic", "value"),
    [("gac", "losses/qf_loss", "losses/qf_values"), ("ppo", "losses/value_loss", "losses/values")],
)
def test_old_names_are_read_as_new_ones(tmp_path: Path, algorithm: str, critic: str, value: str) -> None:
    config = RunConfig(env="Hopper-v5", algorithm=algorithm, settings=defaults(algorithm), timesteps=4_000)
    run = runs.create_at(tmp_path / "run", config)
    (run.path / "metrics.jsonl").write_text(json.dumps(OLD | {"policy/alpha": 4.0}) + "\n")
    expected = {"step": 8, critic: 1.0, "losses/actor_loss": 2.0, value: 3.0}
    assert run.metrics() == [expected | {"policy/kappa": 5.0, "losses/alpha": 4.0}]


def test_new_names_stay(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 8, "losses/qf_loss": 1.0}\n')
    assert runs.Run(tmp_path).metrics() == [{"step": 8, "losses/qf_loss": 1.0}]  # without any run.json


def test_the_two_deviations_of_a_scale_have_a_name_each(tmp_path: Path) -> None:
    """Version 0.1 had it over dimensions and states; later rows, which have every dimension, over dimensions."""
    old = {"step": 8, "policy/scale_std": 0.9}
    between = {"step": 16, "policy/scale/0": 1.0, "policy/scale/1": 3.0, "policy/scale_std": 1.0}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (old, between)))
    first, second = runs.Run(tmp_path).metrics()
    assert first == old
    assert second == {"step": 16, "policy/scale/0": 1.0, "policy/scale/1": 3.0, runs.SCALE_DEVIATION: 1.0}
