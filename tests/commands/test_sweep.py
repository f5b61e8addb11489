"""`geoact sweep` from Python and quietly; what sweeps do is tested with the experiments."""

from pathlib import Path

import pytest

from geoact.commands.sweep import Sweep, run
from geoact.errors import InputError
from geoact.experiments.sweep import run_sweep

SWEEP = """
name = "tiny"
seeds = [0]
num_envs = 2
evaluations = 1
eval_episodes = 1
[tasks]
"tests.probes:Reach-v0" = 24
[variants.gac]
algorithm = "gac"
actor.hidden_sizes = [8]
critic.hidden_sizes = [8]
batch_size = 8
buffer_size = 100
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SWEEP)
    return path


def test_from_python(file, tmp_path, capsys):
    out = tmp_path / "runs"
    assert run(Sweep(str(file), dry_run=True, runs_dir=out)) == 0
    assert "1 runs, 48 transitions in all" in capsys.readouterr().out and not out.exists()
    assert run(Sweep(str(file), jobs=1, runs_dir=out, quiet=True)) == 0
    assert capsys.readouterr().out == f"sweep: {out}\n"
    outcome = run_sweep(str(file), out=out)  # all is done already
    assert outcome.complete and not outcome.stopped and not outcome.failed
    assert "1 finished of 1" in capsys.readouterr().out


def test_options_check_themselves():
    with pytest.raises(InputError, match="jobs must be 0 or more"):
        Sweep("table1", jobs=-1)
    with pytest.raises(InputError, match="copy-every must be greater than 0"):
        Sweep("table1", copy_every=0.0)
