"""Continuous control by geometry: train, compare and deploy Geometric Action Control policies.

    import geoact

    agent = geoact.GAC("HalfCheetah-v5", seed=0).learn(240_000, progress_bar=True)
    action, _ = agent.predict(observation)
    agent.save("cheetah")
    agent = geoact.load("cheetah")

Names are imported on first use, so that `geoact.runtime` works without JAX and the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geoact.agent import GAC, PPO, SAC, TD3, Agent, load
    from geoact.config import GACConfig, PPOConfig, SACConfig, TD3Config
    from geoact.errors import FileFormatError, InputError, TrainingFailed

__version__ = "0.1.0"

_HOME = {
    "GAC": "geoact.agent",
    "PPO": "geoact.agent",
    "SAC": "geoact.agent",
    "TD3": "geoact.agent",
    "Agent": "geoact.agent",
    "load": "geoact.agent",
    "GACConfig": "geoact.config",
    "PPOConfig": "geoact.config",
    "SACConfig": "geoact.config",
    "TD3Config": "geoact.config",
    "FileFormatError": "geoact.errors",
    "InputError": "geoact.errors",
    "TrainingFailed": "geoact.errors",
}

__all__ = [
    "GAC",
    "PPO",
    "SAC",
    "TD3",
    "Agent",
    "FileFormatError",
    "GACConfig",
    "InputError",
    "PPOConfig",
    "SACConfig",
    "TD3Config",
    "TrainingFailed",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'geoact' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
