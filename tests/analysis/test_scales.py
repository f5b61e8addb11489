import csv
import json

import pytest

from geoact.analysis import scales
from geoact.config import RunConfig, defaults
from geoact.errors import InputError
from geoact.storage.runs import create


def a_run(folder, env, algorithm, rows):
    run = create(
        folder, RunConfig(env=env, algorithm=algorithm, settings=defaults(algorithm), timesteps=1000)
    )
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run.path


def test_the_last_tenth_counts_and_other_runs_do_not(tmp_path):
    rows = [{"step": 100 * i, "policy/scale": 3.0 - 0.1 * i, "policy/scale_std": 0.5} for i in range(1, 11)]
    a_run(tmp_path, "dm_control/walker-walk", "gac-scale", rows)
    a_run(tmp_path, "dm_control/walker-walk", "gac", [{"step": 100, "policy/kappa": 1.0}])
    files = scales.run(tmp_path / "out", [tmp_path])
    with open(files[1]) as file:
        table = list(csv.DictReader(file))
    assert len(table) == 1
    assert float(table[0]["mean"]) == pytest.approx((2.1 + 2.0) / 2)  # steps 900 and 1000
    assert float(table[0]["largest mean"]) == pytest.approx(2.9)
    assert table[0]["paper's mean"] == "2 to 2.3"
    assert table[0]["deviation over dimensions"] == "" and table[0]["over dimensions and states"] == "0.5"


def test_the_deviation_is_over_dimensions(tmp_path):
    row = {
        "step": 100,
        "policy/scale": 2.0,
        "policy/scale/0": 1.0,
        "policy/scale/1": 3.0,
        "policy/scale_deviation": 1.0,
    }
    a_run(tmp_path, "dm_control/walker-walk", "gac-scale", [row])
    files = scales.run(tmp_path / "out", [tmp_path])
    with open(files[1]) as file:
        (found,) = csv.DictReader(file)
    assert found["deviation over dimensions"] == "1" and found["over dimensions and states"] == ""


def test_walker2d_has_the_papers_numbers_beside_it(tmp_path):
    a_run(tmp_path, "Walker2d-v4", "gac-scale", [{"step": 100, "policy/scale": 2.0}])
    files = scales.run(tmp_path / "out", [tmp_path])
    with open(files[1]) as file:
        (found,) = csv.DictReader(file)
    assert found["paper's mean"] == "1.7" and found["paper's deviation over dimensions"] == "0.7 to 0.9"


def test_no_learned_scale_is_refused(tmp_path):
    a_run(tmp_path, "HalfCheetah-v5", "gac", [{"step": 100, "policy/kappa": 1.0}])
    with pytest.raises(InputError, match="no run with a learned scale"):
        scales.run(tmp_path / "out", [tmp_path])
