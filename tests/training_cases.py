"""Small runs in this process: a session from a few settings, without a directory unless one is given."""

import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from geoact import environments
from geoact.config import AlgorithmConfig, CriticConfig, RunConfig
from geoact.policies import NetworkConfig
from geoact.training import session as sessions
from geoact.training.session import Session

TINY = NetworkConfig((8,))
CRITIC = CriticConfig(hidden_sizes=(8,))


def run_config(
    algorithm: str, settings: AlgorithmConfig, timesteps: int, env: str = "Counter", **options: Any
) -> RunConfig:
    """A run on one of the probes."""
    return RunConfig(
        env=f"tests.probes:{env}-v0", algorithm=algorithm, settings=settings, timesteps=timesteps, **options
    )


def start(config: RunConfig, runs_dir: Path | None = None) -> Session:
    return sessions.start(config, environments.factory(config.env), runs_dir)


def trained(config: RunConfig) -> Session:
    """A whole run, its environments closed again."""
    with start(config) as session:
        assert session.train()
    return session


def networks(actor: int = 8, critic: int = 8) -> dict[str, Any]:
    """Two hidden layers of these widths, for off-policy configurations."""
    return {
        "actor": NetworkConfig((actor, actor)),
        "critic": CriticConfig(hidden_sizes=(critic, critic)),
    }


def fingerprint(session: Session) -> str:
    """A hash of all that learning depends on."""
    digest = hashlib.sha256()
    arrays, facts = session.learner.state()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.asarray(array).tobytes())
    digest.update(repr(facts["generator"]).encode())
    for leaf in jax.tree.leaves(session.learner.core.update.state):
        digest.update(np.asarray(leaf).tobytes())
    replay = getattr(session.learner, "replay", None)
    if replay is not None:
        digest.update(replay.rows[: len(replay)].tobytes())
    return digest.hexdigest()
