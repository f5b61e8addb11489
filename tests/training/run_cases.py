"""Small runs that stop and go on, and what is on the disk after them."""

from typing import Any

from geoact.config import RunConfig, SACConfig
from geoact.storage import checkpoints
from geoact.storage.runs import CLOCK_KEYS, Run
from geoact.training import resuming
from geoact.training.progress import Row
from geoact.training.session import Session
from tests.training_cases import CRITIC, TINY, run_config

SETTINGS = SACConfig(actor=TINY, critic=CRITIC, batch_size=8, buffer_size=500, learning_starts=5)


OPTIONS: dict[str, Any] = {"num_envs": 2, "evaluations": 2, "eval_episodes": 2, "log_points": 6}


def config(timesteps: int = 120, env: str = "Counter", **options: Any) -> RunConfig:
    return run_config("sac", SETTINGS, timesteps, env, **(OPTIONS | options))


def run_of(session: Session) -> Run:
    assert session.run is not None
    return session.run


def rows_of(run: Run) -> list[Row]:
    return [{k: v for k, v in row.items() if k not in CLOCK_KEYS} for row in run.metrics()]


def folders(run: Run) -> list[int]:
    """The steps of the checkpoints."""
    return [int(f.name.removeprefix("step_")) for f in checkpoints.checkpoint_folders(run.path)]


def complete(run: Run, factory: Any = None) -> Session:
    """Go on with a run to its end."""
    with resuming.resume(run.path, factory=factory, say=lambda line: None) as session:
        assert session.train()
    return session
