import json

import pytest

from geoact import cli
from geoact.config import RunConfig, defaults
from geoact.storage.runs import create


def test_a_study_writes_what_it_prints(tmp_path, capsys):
    config = RunConfig(env="Hopper-v5", algorithm="gac-scale", settings=defaults("gac-scale"), timesteps=1000)
    run = create(tmp_path / "runs", config)
    rows = [{"step": step, "policy/scale": 2.0, "policy/scale_deviation": 0.5} for step in (500, 1000)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main(["analyze", "scales", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == [
        str(tmp_path / "out" / f"scales{suffix}") for suffix in (".md", ".csv", ".png", ".svg")
    ]
    assert "Hopper-v5" in (tmp_path / "out" / "scales.csv").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["entropi"], "unknown study 'entropi': did you mean entropy"),
        (["scales"], "needs the runs to look at"),
        (["entropy", "runs/a"], "takes no runs, got runs/a"),
        (["saturation", "no/such/run"], "no/such/run does not exist"),
        (["scales", "no/such/run"], "no/such/run is not a directory"),
    ],
)
def test_bad_input_is_one_line(argv, message, capsys, tmp_path):
    assert cli.main(["analyze", *argv, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()
