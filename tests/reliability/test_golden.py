"""Files of every schema version ever written stay readable: tiny ones are kept in tests/golden."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from geoact import runtime
from geoact.errors import FileFormatError
from geoact.storage import checkpoints
from geoact.storage.runs import Run
from geoact.training import resuming

GOLDEN = Path(__file__).parent.parent / "golden"
POLICIES = sorted((GOLDEN / "policy_schema_1").iterdir())
RUN = GOLDEN / "run_schema_1"


@pytest.mark.parametrize("path", POLICIES, ids=lambda p: p.name)
def test_a_policy_of_schema_1_acts_as_it_did(path):
    policy = runtime.load(path)
    expected = json.loads((path / "expected.json").read_text())
    actions = policy(np.asarray(expected["obs"], np.float32))
    np.testing.assert_allclose(actions, np.asarray(expected["actions"]), rtol=1e-5, atol=1e-6)


def test_a_run_and_checkpoint_of_schema_1_go_on(tmp_path):
    folder = shutil.copytree(RUN, tmp_path / "run")
    run = Run(folder)
    assert run.config().timesteps == 160
    session = resuming.resume(folder, timesteps=240, say=lambda line: None)
    assert session.timesteps == 160 and session.updates > 0
    assert session.train()
    session.close()
    assert run.state() == "finished" and run.metrics()[-1]["step"] == 240


@pytest.mark.parametrize("name", ["policy", "run"])
def test_a_newer_schema_is_refused_with_advice(name, tmp_path):
    folder = shutil.copytree(POLICIES[0] if name == "policy" else RUN, tmp_path / name)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 3, "version": "9.0"}))
    with pytest.raises(FileFormatError, match=r"newer geoact \(9.0, schema 3.*upgrade"):
        runtime.load(folder) if name == "policy" else Run(folder).config()


def test_the_golden_checkpoint_is_of_the_schema_its_folder_says():
    (newest, *_) = reversed(checkpoints.checkpoint_folders(RUN))
    assert checkpoints.read_manifest(newest)["schema"] == 1
