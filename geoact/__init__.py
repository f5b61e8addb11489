"""Continuous control by geometry: train, compare and deploy Geometric Action Control policies.

    import geoact

    agent = geoact.GACFast("HalfCheetah-v5", seed=0).learn(240_000, progress_bar=True)
    action, _ = agent.predict(observation)
    agent.save("cheetah")
    agent = geoact.load("cheetah")

Names are imported on first use, so that `geoact.runtime` works without JAX and the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geoact.agent import Agent, load, resume
    from geoact.config import CriticConfig, GACConfig, PPOConfig, RunOptions, SACConfig, TD3Config
    from geoact.errors import FileFormatError, InputError, TrainingFailed
    from geoact.policies import NetworkConfig
    from geoact.training.callbacks import Callback, Progress, SaveBest, StopAtReturn, StopWithoutImprovement

    # For editors. Every algorithm of the registry has its class, listed here or not.
    GAC: type[Agent]
    GACFast: type[Agent]
    SAC: type[Agent]
    SACFast: type[Agent]
    TD3: type[Agent]
    PPO: type[Agent]

__version__ = "0.2.0"

__all__ = [
    "GAC",
    "PPO",
    "SAC",
    "TD3",
    "Agent",
    "Callback",
    "CriticConfig",
    "FileFormatError",
    "GACConfig",
    "GACFast",
    "InputError",
    "NetworkConfig",
    "PPOConfig",
    "Progress",
    "RunOptions",
    "SACConfig",
    "SACFast",
    "SaveBest",
    "StopAtReturn",
    "StopWithoutImprovement",
    "TD3Config",
    "TrainingFailed",
    "load",
    "resume",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("Agent", "load", "resume"):
        return getattr(importlib.import_module("geoact.agent"), name)
    if name in ("Callback", "Progress", "SaveBest", "StopAtReturn", "StopWithoutImprovement"):
        return getattr(importlib.import_module("geoact.training.callbacks"), name)
    if name[:1].isupper():
        for module in ("geoact.config", "geoact.errors"):
            found = getattr(importlib.import_module(module), name, None)
            if found is not None:
                return found
        entries = importlib.import_module("geoact.config").REGISTRY.values()
        if any(entry.agent == name for entry in entries):
            return importlib.import_module("geoact.agent").agent_class(name)
    raise AttributeError(f"module 'geoact' has no attribute {name!r}")
