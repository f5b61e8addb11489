"""The algorithms, each a record of pure functions, found by their entry in `geoact.config.REGISTRY`."""

import functools
import importlib
from typing import TYPE_CHECKING

from geoact.config import AlgorithmConfig, entry

if TYPE_CHECKING:
    from geoact.algorithms.record import Algorithm


@functools.lru_cache(maxsize=16)
def build(algorithm: str, settings: AlgorithmConfig, obs_dim: int, action_dim: int) -> "Algorithm":
    """The algorithm of this name with these (resolved) settings, for these sizes. JAX starts here.

    The same record for the same arguments, so that what was compiled for one run serves the next in the same process.
    """
    return importlib.import_module(entry(algorithm).module).build(settings, obs_dim, action_dim)
