"""The algorithms, each a record of pure functions, found by their entry in `geoact.config.REGISTRY`."""

import importlib
from typing import TYPE_CHECKING

from geoact.config import AlgorithmConfig, entry

if TYPE_CHECKING:
    from geoact.algorithms.record import Algorithm


def build(algorithm: str, settings: AlgorithmConfig, obs_dim: int, action_dim: int) -> "Algorithm":
    """The algorithm of this name with these (resolved) settings, for these sizes. JAX starts here."""
    return importlib.import_module(entry(algorithm).module).build(settings, obs_dim, action_dim)
