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
