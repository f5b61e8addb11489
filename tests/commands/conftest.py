"""A directory of runs without a training, for the commands that read runs; and a run with a policy that acts."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from geoact.cli import main
from geoact.config import RunConfig, defaults
from geoact.policies import DeterministicHead, NetworkConfig
from geoact.runtime import Policy, PolicySpec
from geoact.storage import notes
from geoact.storage.runs import Run, create_at

importlib.import_module("tests.probes")  # its environments are known, as to a user who imports them


def make_run(
    folder: Path,
    name: str,
    env: str = "Hopper-v5",
    algorithm: str = "gac",
    done: int = 100,
    best: float | None = 1.0,
) -> Run:
    config = RunConfig(env=env, algorithm=algorithm, settings=defaults(algorithm), timesteps=100)
    run = create_at(folder / name, config)
    run.set_status("finished" if done == 100 else "stopped", done, 100)
    if best is not None:
        rows = [{"step": 50, "eval/return_mean": best - 1}, {"step": 80, "eval/return_mean": best}]
        (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


@pytest.fixture
def folder(tmp_path) -> Path:
    runs = tmp_path / "runs"
    make_run(runs, "b", best=2.0)
    make_run(runs, "a", best=3.0, done=40)
    make_run(runs, "c", env="dm_control/walker-run", algorithm="sac", best=None)
    make_run(runs, "d", env="walker-run", algorithm="sac", best=700.0, done=10)
    notes.write(runs / "b", notes.Notes(("good", "paper"), "look at this"))
    (runs / "not-a-run").mkdir()
    return runs


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The names that `geoact list --json` gives."""

    def names(folder: Path, *words: str) -> list[str]:
        capsys.readouterr()
        assert main(["list", "--runs-dir", str(folder), "--json", *words]) == 0
        return [run["run"] for run in json.loads(capsys.readouterr().out)]

    return names


@pytest.fixture
def player(tmp_path: Path) -> Run:
    """A run whose policy always plays (0.3, -0.3) in Reach, a tenth off the target; its best one plays (0, 0)."""
    config = RunConfig(env="tests.probes:Reach-v0", algorithm="td3", settings=defaults("td3"), timesteps=100)
    run = create_at(tmp_path / "players" / "reach", config)
    run.set_status("finished", 100, 100)
    spec = PolicySpec(
        kind="deterministic",
        head=DeterministicHead(0.1),
        network=NetworkConfig((2,)),
        obs_dim=2,
        action_low=(-1.0, -1.0),
        action_high=(1.0, 1.0),
        algorithm="td3",
        env="tests.probes:Reach-v0",
    )
    tensors = {name: np.zeros(shape, np.float32) for name, shape in spec.shapes().items()}
    Policy(spec, tensors).save(run.best_path)
    tensors["mean.bias"] = np.arctanh(np.array([0.3, -0.3], np.float32))
    Policy(spec, tensors).save(run.policy_path)
    return run
